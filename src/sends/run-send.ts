import type { NewJob } from '#jobs/job-store.ts';
import type { StepSend } from '#runner/call-outcome.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';

/** What a run sends by itself; `emit` is not among them: the engine emits in the transaction that ends the run. */
export type SendKind = 'http' | 'email' | 's3' | 'sse';

/** What became of a send. It is tried once; after a crash of the service in the middle of it, once more. */
export type SendOutcome = { state: 'sent' | 'failed'; result: SendResult };

/** JSON in `run_sends.result`. */
export interface SendResult {
  /** Why it failed, for people. */
  error?: string;
  /** Answer to a request: HTTP status and the beginning of its body. */
  status?: number;
  body?: string;
  /** s3: where it is. */
  bucket?: string;
  key?: string;
  /** email: as the mail server knows it. */
  message_id?: string;
  /** sse: the id of the event. */
  event_id?: string;
  duration_ms?: number;
}

/**
 * Pure: rows and jobs of what a run left to be sent, for the transaction that ends it: insert both (`insertRunSends`,
 * `insertNewJobs`). Numbers count from 1 in the order of the calls. Sends of an owner have a lane of their own, so that
 * those with slow receivers take no more than their share of the pool.
 */
export function rowsOfSends(
  run: { id: string; ownerId: string; workflowId: string },
  sends: readonly StepSend[],
  nowMs: number,
): { rows: RunSendTable[]; jobs: NewJob<'send_from_run'>[] } {
  const rows = sends
    .filter((send) => send.kind !== 'emit')
    .map(
      (send, index): RunSendTable => ({
        run_id: run.id,
        number: index + 1,
        owner_id: run.ownerId,
        workflow_id: run.workflowId,
        kind: send.kind,
        payload: send.payload,
        state: 'queued',
        result: null,
        created_at_ms: nowMs,
        ended_at_ms: null,
      }),
    );
  const jobs = rows.map(
    (row): NewJob<'send_from_run'> => ({
      id: `send_${run.id}_${row.number}`,
      kind: 'send_from_run',
      ownerId: run.ownerId,
      lane: `send:${run.ownerId}`,
      payload: { run_id: run.id, number: row.number },
      runAtMs: nowMs,
      nowMs,
    }),
  );
  return { rows, jobs };
}

/** A send that cannot be made as it was asked for; the message is its result. */
export class SendError extends Error {
  override name = 'SendError';
}

/** The argument of a send, which has to be an object. Throws `SendError`. */
export function sendArgument(payload: string): Record<string, unknown> {
  const value: unknown = JSON.parse(payload);
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new SendError('the argument is not an object');
}

/** Text of the argument. Throws `SendError` for anything else. */
export function optionalText(argument: Record<string, unknown>, name: string): string | undefined {
  const value = argument[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  throw new SendError(`${name}: expected text, found ${describe(value)}`);
}

export function requiredText(argument: Record<string, unknown>, name: string): string {
  const text = optionalText(argument, name);
  if (text === undefined || text === '') throw new SendError(`${name}: required`);
  return text;
}

function describe(value: unknown): string {
  return (JSON.stringify(value) ?? typeof value).slice(0, 100);
}
