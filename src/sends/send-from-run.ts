import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { JobHandler } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import { SendError, type SendOutcome } from './run-send.ts';
import { type MailServer, sendEmail } from './send-email.ts';
import { type HttpSender, sendHttp } from './send-http.ts';
import { type ObjectStorage, sendS3 } from './send-s3.ts';
import { storeSse } from './send-sse.ts';
import {
  dropUnkept,
  endRunSend,
  findRunSend,
  lockQueuedSse,
  type SendEnd,
  settleSends,
} from './send-store.ts';

/** Sends of this process under way at once. */
const sendsMax = 256;
/** Of one owner: slow receivers of one hold up nobody else, and not all that is their own. */
const sendsPerOwnerMax = 8;

export interface SendParts {
  store: Store;
  node: string;
  clock: Clock;
  bus: EventBus;
  router: EventRouter;
  http: HttpSender;
  /** undefined: none is set, and what was to be sent there fails with that reason. */
  mail: MailServer | undefined;
  objects: ObjectStorage | undefined;
}

/**
 * Sends what runs left to be sent when they ended, each once; a crash between a send and its record sends it once more.
 * What became of it is in `run_sends`: a send that fails is not tried again, and never fails the run, which is over.
 */
export class RunSends implements JobHandler {
  readonly #parts: SendParts;
  readonly #queue = new FairQueue(sendsMax);
  readonly #settle: BatchWrite<SendEnd, boolean>;

  constructor(parts: SendParts) {
    this.#parts = parts;
    this.#settle = settleSends(parts.store, parts.node);
  }

  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    const { run_id: runId, number } = job.payload as JobPayloads['send_from_run'];
    const { store, clock } = this.#parts;
    const send = await findRunSend(store.read, runId, number);
    if (send?.state === 'queued' && send.kind === 'sse') {
      await this.#storeSse(job, runId);
      return;
    }
    const end = { job, runId, number };
    if (send?.state !== 'queued') {
      // The run was deleted with all its records, or somebody else told of the send.
      await store.writes.submit(this.#settle, { ...end, outcome: undefined, nowMs: clock.now() });
      return;
    }
    // Each owner has so many places in the queue of turns, of which each takes one send at a time.
    const place = `${send.owner_id} ${turn(send) % sendsPerOwnerMax}`;
    const outcome = await this.#queue.run(place, () => this.#send(send, signal));
    await store.writes.submit(this.#settle, { ...end, outcome, nowMs: clock.now() });
  }

  /** The process ended each time it was tried: it may have been sent. */
  async quarantined(job: LeasedJob): Promise<void> {
    const { run_id: runId, number } = job.payload as JobPayloads['send_from_run'];
    const { store, clock } = this.#parts;
    const outcome: SendOutcome = { state: 'failed', result: { error: 'given up after several attempts' } };
    await store.transaction(async (tx) => {
      await endRunSend(tx, { runId, number, outcome, nowMs: clock.now() });
      await dropUnkept(tx, [runId]);
    });
  }

  async #send(send: RunSendTable, signal: AbortSignal): Promise<SendOutcome> {
    const { store, http, mail, objects } = this.#parts;
    // Waiting for its turn may have taken until the service stops.
    signal.throwIfAborted();
    try {
      switch (send.kind) {
        case 'http':
          return await sendHttp(http, send.payload, signal);
        case 'email':
          return await sendEmail(mail, store.read, send);
        case 's3':
          return await sendS3(objects, send, signal);
        default:
          throw new SendError(`nothing is sent as ${send.kind}`);
      }
    } catch (error) {
      return failed(error);
    }
  }

  /** With all that the run sends to its stream: several jobs at the same moment would get them out of order. */
  async #storeSse(job: LeasedJob, runId: string): Promise<void> {
    const { store, node, clock, bus, router } = this.#parts;
    const nowMs = clock.now();
    const stored = await store.transaction(async (tx) => {
      const held = await settleJobs(store, tx, { node, jobs: [job] });
      if (!held.has(job.id)) return [];
      const sends = await lockQueuedSse(store, tx, runId);
      const done = await storeSse(store, tx, { sends, router, nowMs });
      for (const [index, { number }] of sends.entries()) {
        const outcome = done.outcomes[index];
        if (outcome !== undefined) await endRunSend(tx, { runId, number, outcome, nowMs });
      }
      await dropUnkept(tx, [runId]);
      return done.stored;
    });
    bus.publish(stored);
  }
}

function failed(error: unknown): SendOutcome {
  // Everything else is our fault, or the store's: the job is tried again.
  if (!(error instanceof SendError)) throw error;
  return { state: 'failed', result: { error: error.message } };
}

/** Spreads the sends of an owner over its places. */
function turn({ run_id, number }: RunSendTable): number {
  let sum = number;
  for (const character of run_id.slice(-4)) sum += character.charCodeAt(0);
  return sum;
}
