import type { Emission, NewEvent } from '#events/emit-event.ts';
import { channels } from '#events/event.ts';
import type { RunStepTable, RunTable } from '#storage/tables/workflow-tables.ts';
import { carriedTrace } from '#telemetry/span.ts';
import { sseChannel } from '#workflows/sends/send-sse.ts';
import type { LiveRun } from './live-run.ts';
import type { StepError } from './run-step.ts';

/** A run's error as it is kept. */
export interface RunError extends StepError {
  /** The step at fault; null when it was none. */
  cell_id: string | null;
  namespace: string | null;
  /** ISO 8601. */
  ts: string;
}

/** JSON of a `RunError`. */
export function errorJson(
  step: Pick<RunStepTable, 'step_id' | 'namespace'> | undefined,
  error: StepError,
  nowMs: number,
): string {
  const kept: RunError = {
    ...error,
    cell_id: step?.step_id ?? null,
    namespace: step?.namespace ?? null,
    ts: new Date(nowMs).toISOString(),
  };
  return JSON.stringify(kept);
}

/** The event on `$errors` of a run that failed (specification, section 2, Error event summary; section 7). */
export function errorEventOf(run: Pick<RunTable, 'event'>, contextJson: string, errorText: string): NewEvent {
  const { code, msg, cell_id, namespace, stack, ts } = JSON.parse(errorText) as RunError;
  const error = JSON.stringify({ code, msg, cellId: cell_id, namespace, ts, stack });
  return {
    channel: channels.errors,
    event: `{"original_event":${run.event},"original_context":${contextJson},"error":${error}}`,
    summary: `${code}: ${msg.slice(0, 200)}`,
    holdsMetadata: true,
  };
}

/** What a run emits when it ends: what its steps sent by `$.send.emit`, where its sends count (`isSent`), and its error. */
export function emissionsOf(live: LiveRun, end: { error: string | null; isSent: boolean }): Emission[] {
  const { run } = live;
  const events: NewEvent[] = end.isSent
    ? live.sends.filter(({ kind }) => kind === 'emit').map(({ payload }) => emittedEvent(payload))
    : [];
  if (end.error !== null) events.push(errorEventOf(run, live.contextJson, end.error));
  return events.length === 0
    ? []
    : [{ emitterId: run.workflow_id, hops: run.hops, events, ...carriedTrace() }];
}

/** The event of a `$.send.emit`; `payload` is JSON `{ event, channel }`. The stream of `$.send.sse` shows nothing else. */
export function emittedEvent(payload: string): NewEvent {
  const { event, channel } = JSON.parse(payload) as { event?: unknown; channel?: unknown };
  return {
    channel: typeof channel === 'string' && channel !== sseChannel ? channel : channels.default,
    event: JSON.stringify(event ?? null),
  };
}
