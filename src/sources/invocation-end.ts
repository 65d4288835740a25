import { bytesText, countText } from '#lib/units.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { CallOutcome, UserCodeError } from '#runner/call-outcome.ts';
import { defaultRunnerLimits } from '#runner/runner-limits.ts';
import { carriedTrace } from '#telemetry/span.ts';
import type { Deployment } from './deployment.ts';
import { eventsOfOutcome } from './outcome-events.ts';
import type { InvocationEnd } from './settle-invocation.ts';

export interface InvocationLimits {
  deadlineMs: number;
  memoryMb: number;
  componentDbBytesMax: number;
}

/** What the outcome of a run or hook stores: events, state, usage, and for a run whether it failed. */
export function endOfInvocation(
  deployment: Deployment,
  outcome: CallOutcome,
  options: {
    /** The state of the source before; undefined: nothing is known to be stored. */
    db: Record<string, string> | undefined;
    limits: InvocationLimits;
    /** That of the deployment, for these texts (redact-large.ts). */
    redact: (text: string) => string;
    nowMs: number;
    originalEvent: string | undefined;
    hops: number;
    isStale: () => boolean;
    /** False for hooks, whose failures refuse the change that they belong to. */
    isRun?: boolean;
    tick?: InvocationEnd['tick'] | undefined;
  },
): InvocationEnd {
  const { source, shape } = deployment;
  const { nowMs, limits, redact } = options;
  // The effects of a lost process are unknown, so none are stored.
  const known = isProcessCrash(outcome) ? { ...outcome, emits: [], dbSets: {} } : outcome;
  const checked = withinDbLimit(known, options.db, limits.componentDbBytesMax);
  return {
    sourceId: source.id,
    emission: {
      emitterId: source.id,
      ...(shape.dedupe === undefined ? {} : { dedupe: shape.dedupe }),
      hops: options.hops,
      ...carriedTrace(),
      events: eventsOfOutcome(checked, { redact, originalEvent: options.originalEvent, nowMs }),
    },
    dbSets: checked.dbSets,
    usage: usageOf(source.owner_id, nowMs, {
      invocations: 1,
      computeMs: Math.ceil(outcome.durationMs),
      memoryMb: limits.memoryMb,
    }),
    isStale: options.isStale,
    ...(options.isRun === true && {
      run: { failure: failureOf(checked, redact), revision: deployment.revision },
    }),
    ...(options.tick === undefined ? {} : { tick: options.tick }),
  };
}

/** State that would exceed its limit is not written. The source gets an error on `$errors`. */
function withinDbLimit(
  outcome: CallOutcome,
  db: Record<string, string> | undefined,
  bytesMax: number,
): CallOutcome {
  if (Object.keys(outcome.dbSets).length === 0) return outcome;
  const { size, keys, newKeys } = sizeWith(outcome.dbSets, db);
  const { dbKeysMax } = defaultRunnerLimits;
  // One that had more keys before there was a limit keeps them.
  const hasTooMany = keys > dbKeysMax && newKeys > 0;
  if (size <= bytesMax && !hasTooMany) return outcome;
  const why = hasTooMany
    ? `${countText(keys)} keys, at most ${countText(dbKeysMax)} are allowed`
    : `${bytesText(size)}, at most ${bytesText(bytesMax)} are allowed`;
  return {
    ...outcome,
    dbSets: {},
    status: 'limit_exceeded',
    error: outcome.error ?? {
      name: 'ComponentDbLimitError',
      message: `$.service.db would have ${why}: nothing that this run set was stored`,
      stack: '',
    },
  };
}

/** Characters and keys of a db with these changes. They are not merged for that: with thousands of keys it takes four times as long. */
function sizeWith(
  sets: Record<string, string>,
  db: Record<string, string> = {},
): { size: number; keys: number; newKeys: number } {
  let size = 0;
  let keys = 0;
  let newKeys = 0;
  for (const [key, value] of Object.entries(db)) {
    keys += 1;
    size += key.length + value.length;
  }
  for (const [key, value] of Object.entries(sets)) {
    const before = Object.hasOwn(db, key) ? db[key] : undefined;
    if (before === undefined) newKeys += 1;
    size += before === undefined ? key.length + value.length : value.length - before.length;
  }
  return { size, keys: keys + newKeys, newKeys };
}

/** The process was lost, so the effects of the run are unknown. */
export function isProcessCrash(outcome: CallOutcome): boolean {
  return outcome.status === 'exited' || outcome.status === 'out_of_memory';
}

/** Why a run counts as failed; null: it succeeded. */
function failureOf(
  { status, error }: Pick<CallOutcome, 'status' | 'error'>,
  redact: (text: string) => string,
): string | null {
  if (error !== undefined) return failureText(error, redact);
  return status === 'finished' ? null : `the run ended as ${status}`;
}

export function failureText({ name, message }: UserCodeError, redact: (text: string) => string): string {
  return redact(`${name}: ${message}`);
}
