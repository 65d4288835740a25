import { createHmac, timingSafeEqual } from 'node:crypto';
import type { LinkAction, RunTable } from '#storage/tables/workflow-tables.ts';

/** The wait that a link is for: that of one try of one step. */
export interface WaitPlace {
  /** Index of the step. */
  position: number;
  /** As in `RunStepTable`; '' outside of maps. */
  iteration: string;
  /** Counts the tries of the step, from 1. */
  try: number;
}

/** Hex digits of a token: 160 bits. */
const tokenLength = 40;

/**
 * The unguessable part of a link. Who has one link, of an approver say, can make none of another step, of another try or for the other
 * action from it.
 */
export function linkToken(
  run: Pick<RunTable, 'id' | 'token'>,
  { position, iteration, try: attempt }: WaitPlace,
  action: LinkAction,
): string {
  const item = iteration === '' ? '' : ` ${iteration}`;
  return createHmac('sha256', run.token)
    .update(`${action} ${run.id} ${position} ${attempt}${item}`)
    .digest('hex')
    .slice(0, tokenLength);
}

/** In the same time whatever the token is. */
export function isLinkToken(
  run: Pick<RunTable, 'id' | 'token'>,
  wait: WaitPlace,
  { action, token }: { action: LinkAction; token: string },
): boolean {
  const [expected, given] = [Buffer.from(linkToken(run, wait, action)), Buffer.from(token)];
  return expected.length === given.length && timingSafeEqual(expected, given);
}

/** The path of a link below `/in`. */
export function linkPath(run: Pick<RunTable, 'id' | 'token'>, wait: WaitPlace, action: LinkAction): string {
  const item = wait.iteration === '' ? '' : `.${wait.iteration}`;
  return `${action}/${run.id}/${wait.position}.${wait.try}${item}/${linkToken(run, wait, action)}`;
}

/** The content of a path; undefined when it cannot be a link of a run. A workflow has at most 500 steps, and maps are at most 10 deep. */
export function readLink(params: {
  run: string;
  wait: string;
  token: string;
}): ({ runId: string; token: string } & WaitPlace) | undefined {
  const { run, token } = params;
  const wait = /^(\d{1,3})\.(\d{1,6})(?:\.(\d{1,5}(?:-\d{1,5}){0,9}))?$/.exec(params.wait);
  if (wait === null || !/^[0-9A-Za-z]{27}$/.test(run) || !/^[0-9a-f]{40}$/.test(token)) return undefined;
  return { runId: run, position: Number(wait[1]), try: Number(wait[2]), iteration: wait[3] ?? '', token };
}
