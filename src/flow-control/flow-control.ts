import { CallerError } from '#lib/errors.ts';
import { namedSteps } from './named-steps.ts';

/**
 * When the runs of a workflow or source may begin, by keys of their events. It is kept as the request gave it, in the row of the workflow
 * or source.
 */
export interface FlowControl {
  /** At most `limit` runs of each key are under way. */
  concurrency?: { limit: number; key?: string };
  /** At most `limit` runs of each key begin in any period of `seconds`. */
  throttle?: { limit: number; seconds: number; key?: string };
  /** One run for events that follow each other within `seconds`, at the latest `max_wait_seconds` after the first. The last event counts. */
  debounce?: { seconds: number; max_wait_seconds: number; key?: string };
  /** One run of each key is under way: an event that finds one is skipped, or replaces it. */
  singleton?: { mode: 'skip' | 'replace'; key?: string };
  /** One run for up to `max_events`, or for what came within `max_seconds`. */
  batch?: { max_events: number; max_seconds: number; key?: string };
  /** Seconds by which a run is placed earlier in the queue (later, where negative), or an expression for them. */
  priority?: number | string;
  /** A limit that all workflows and sources share that use the account of this prop: `<step>.<prop>`, of a source `<prop>`. */
  rate_limit?: { account: string; limit: number; seconds: number };
}

/** What is kept: with the id of the account that `rate_limit` names. */
export interface AppliedFlowControl extends FlowControl {
  account_id?: string;
}

/** Seconds by which a priority moves a run at most: one of the lowest waits no longer for those of the highest than twice this. */
export const priorityMax = 600;

const keyed = ['concurrency', 'throttle', 'debounce', 'singleton', 'batch'] as const;

/** What cannot be combined, and why. */
const refused: readonly [keyof FlowControl, keyof FlowControl, string][] = [
  ['debounce', 'batch', 'a debounce keeps the last event only, a batch keeps all of them: choose one'],
  ['singleton', 'batch', 'a batch that is skipped or replaced would lose all of its events: choose one'],
];

/** Where flow control is declared, and what it may name there. */
export interface FlowPlace {
  /** How the caller names it, such as `settings.flow_control`. */
  at: string;
  /** The account that `rate_limit` names by `<step>.<prop>` or `<prop>`. */
  accountOf: (name: string) => string | undefined;
  /** What such a name is, for the caller who gave another one. */
  accountNames: string;
}

/** Checks what the schema of the route cannot. Throws CallerError naming the field. */
export function checkFlowControl(flow: FlowControl, { at, accountOf, accountNames }: FlowPlace): void {
  for (const [one, other, why] of refused)
    if (flow[one] !== undefined && flow[other] !== undefined)
      throw invalidFlow(`${at}.${other}`, `cannot be combined with ${one}: ${why}`);
  for (const control of keyed) {
    const key = flow[control]?.key;
    if (key !== undefined) checkExpression(key, `${at}.${control}.key`);
  }
  if (typeof flow.priority === 'string') checkExpression(flow.priority, `${at}.priority`);
  const { debounce, rate_limit } = flow;
  if (debounce !== undefined && debounce.max_wait_seconds < debounce.seconds)
    throw invalidFlow(
      `${at}.debounce.max_wait_seconds`,
      `found ${debounce.max_wait_seconds}, expected at least seconds (${debounce.seconds})`,
    );
  if (rate_limit !== undefined && accountOf(rate_limit.account) === undefined)
    throw invalidFlow(
      `${at}.rate_limit.account`,
      `found ${JSON.stringify(rate_limit.account)}, expected ${accountNames}`,
    );
}

/** As it is kept; null: none. */
export function appliedFlowControl(
  flow: FlowControl | null,
  { accountOf }: Pick<FlowPlace, 'accountOf'>,
): string | null {
  if (flow === null || Object.keys(flow).length === 0) return null;
  const account_id = flow.rate_limit && accountOf(flow.rate_limit.account);
  return JSON.stringify({ ...flow, ...(account_id === undefined ? {} : { account_id }) });
}

/** As it was given. */
export function givenFlowControl(text: string | null): FlowControl | null {
  if (text === null) return null;
  const { account_id: _, ...flow } = parseFlowControl(text);
  return flow;
}

/** The account in a prop, where `configuredProps` is JSON. */
export function accountIn(configuredProps: string, prop: string): string | undefined {
  const props = JSON.parse(configuredProps) as Record<string, { authProvisionId?: unknown } | null>;
  const id = Object.hasOwn(props, prop) ? props[prop]?.authProvisionId : undefined;
  return typeof id === 'string' ? id : undefined;
}

export function invalidFlow(parameter: string, message: string): CallerError {
  return new CallerError('invalid_parameter', `${parameter}: ${message}`, { parameter });
}

/** What was read last: every event asks for the same one. */
const parsed = new Map<string, AppliedFlowControl>();
const parsedMax = 1_000;

export function parseFlowControl(text: string): AppliedFlowControl {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  const flow = JSON.parse(text) as AppliedFlowControl;
  if (parsed.size >= parsedMax) parsed.clear();
  parsed.set(text, flow);
  return flow;
}

function checkExpression(text: string, at: string): void {
  const expected = 'an expression such as {{steps.trigger.event.body.customer}}';
  if (!/\{\{[\s\S]*?\}\}/.test(text) || text.includes('\0'))
    throw invalidFlow(at, `found ${JSON.stringify(text.slice(0, 80))}, expected ${expected}`);
  const step = namedSteps(text).find((name) => name !== 'trigger');
  if (step !== undefined)
    throw invalidFlow(
      at,
      `the expression names steps.${step}, which has not run when a run waits for its turn; expected ${expected}`,
    );
}

const name = '[A-Za-z_$][\\w$]*';
const plainPattern = new RegExp(
  `^\\s*\\{\\{\\s*(?:steps\\.trigger\\.event|event)((?:\\??\\.${name}|(?:\\?\\.)?\\[\\d{1,9}\\]|(?:\\?\\.)?\\["[^"\\\\]*"\\]|(?:\\?\\.)?\\['[^'\\\\]*'\\])*)\\s*\\}\\}\\s*$`,
);
const memberPattern = new RegExp(`(${name})|\\[(\\d+)\\]|\\["([^"]*)"\\]|\\['([^']*)'\\]`, 'g');

/**
 * The members that a plain path such as `{{steps.trigger.event.body.customer}}` goes through, from the event on; undefined for any other
 * expression, which only a sandbox may evaluate.
 */
export function plainPath(expression: string): string[] | undefined {
  const [, rest] = plainPattern.exec(expression) ?? [];
  if (rest === undefined) return undefined;
  return [...rest.matchAll(memberPattern)].map(
    ([, identifier, index, double, single]) => identifier ?? index ?? double ?? single ?? '',
  );
}
