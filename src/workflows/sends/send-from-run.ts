import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { unreachable } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { StepSend } from '#runner/call-outcome.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import { SendError, type SendOutcome } from './run-send.ts';
import { type MailServer, sendEmail } from './send-email.ts';
import { type HttpSender, sendHttp } from './send-http.ts';
import { type SendStorage, sendS3 } from './send-s3.ts';
import { storeSse } from './send-sse.ts';
import {
  addressOfUser,
  addressOfWorkflow,
  dropUnkept,
  endRunSends,
  findRunSend,
  lockQueuedSse,
  type SendEnd,
  settleSends,
} from './send-store.ts';

/** Sends of this process under way at once. */
const sendsMax = 256;
/** Maximum of one owner: slow receivers hold up no other owner, and not all sends of their own. */
const sendsPerOwnerMax = 8;
/** For all sends of an action, whose caller waits. */
const sendNowMs = 60_000;

export interface SendOptions {
  store: Store;
  node: string;
  clock: Clock;
  bus: EventBus;
  router: EventRouter;
  /** Health of the workflows. */
  outcomes: OutcomeRecorder;
  http: HttpSender;
  /** undefined: none is set, and what was to be sent there fails with that reason. */
  mail: MailServer | undefined;
  objects: SendStorage | undefined;
}

/**
 * Sends what runs left to be sent when they ended, each once; a crash between a send and its record sends it once more.
 * The outcome is in `run_sends`: a send that fails is not tried again, and never fails the run, which is over. The health of the workflow has it.
 */
export class RunSends implements JobHandler {
  readonly #options: SendOptions;
  readonly #queue = new FairQueue(sendsMax);
  readonly #settle: BatchWrite<SendEnd, boolean>;

  constructor(options: SendOptions) {
    this.#options = options;
    this.#settle = settleSends(options.store, options.node, options.outcomes);
  }

  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    const { run_id: runId, number } = job.payload as JobPayloads['send_from_run'];
    const { store, clock } = this.#options;
    const send = await findRunSend(store.read, runId, number);
    if (send?.state === 'queued' && send.kind === 'sse') {
      await this.#storeSse(job, runId);
      return;
    }
    const end = { job, runId, number };
    if (send?.state !== 'queued') {
      // The run was deleted with all its records, or another node reported the send.
      await store.writes.submit(this.#settle, { ...end, outcome: undefined, nowMs: clock.now() });
      return;
    }
    const outcome = await this.#inTurn(send, () =>
      this.#send({ ...send, workflowId: send.workflow_id }, signal, () => this.#maker(send.workflow_id)),
    );
    await store.writes.submit(this.#settle, { ...end, outcome, nowMs: clock.now() });
  }

  /** The process ended each time it was tried: it may have been sent. */
  async quarantined(job: LeasedJob): Promise<void> {
    const { run_id: runId, number } = job.payload as JobPayloads['send_from_run'];
    const { store, clock } = this.#options;
    const outcome: SendOutcome = { state: 'failed', result: { error: 'given up after several attempts' } };
    await store.transaction(async (tx) => {
      await endRunSends(store, tx, [{ runId, number, outcome, nowMs: clock.now() }], this.#options.outcomes);
      await dropUnkept(tx, [runId]);
    });
  }

  /**
   * Immediately sends what an action that was run by itself left; nothing of it is stored. Returns the outcome of each, in order:
   * what is not sent within `sendNowMs`, or before `stop`, has failed. Mail goes to the user who ran it.
   */
  async sendNow(
    sends: readonly StepSend[],
    action: { id: string; ownerId: string; userId: string },
    stop: AbortSignal,
  ): Promise<SendOutcome[]> {
    const signal = AbortSignal.any([AbortSignal.timeout(sendNowMs), stop]);
    const created_at_ms = this.#options.clock.now();
    return Promise.all(
      sends.map(async (send, index) => {
        const row = {
          ...send,
          run_id: action.id,
          number: index + 1,
          owner_id: action.ownerId,
          created_at_ms,
        };
        try {
          return await this.#inTurn(row, () => this.#send(row, signal, () => this.#person(action.userId)));
        } catch (error) {
          // The action has ended, so its answer reports this failure too.
          if (!signal.aborted && !(error instanceof UnavailableError)) throw error;
          const reason = stop.aborted
            ? 'the service stopped before it was sent'
            : signal.aborted
              ? `it was not sent within ${sendNowMs / 1000} seconds`
              : toError(error).message;
          const outcome: SendOutcome = { state: 'failed', result: { error: reason } };
          return outcome;
        }
      }),
    );
  }

  /** Each owner has a maximum of places in the queue of turns, each of which takes one send at a time. */
  #inTurn(
    send: Pick<RunSendTable, 'owner_id' | 'run_id' | 'number'>,
    work: () => Promise<SendOutcome>,
  ): Promise<SendOutcome> {
    return this.#queue.run(`${send.owner_id} ${turn(send) % sendsPerOwnerMax}`, work);
  }

  async #maker(workflowId: string): Promise<string> {
    const address = await addressOfWorkflow(this.#options.store.read, workflowId);
    if (address === undefined) throw new SendError('the creator of the workflow no longer exists');
    return address;
  }

  async #person(userId: string): Promise<string> {
    const address = await addressOfUser(this.#options.store.read, userId);
    if (address === undefined)
      throw new SendError('mail goes to the user who runs an action; an access token is no user');
    return address;
  }

  /** `to`: where mail goes. */
  async #send(
    send: Pick<RunSendTable, 'run_id' | 'number' | 'kind' | 'payload' | 'created_at_ms'> & {
      workflowId?: string;
    },
    signal: AbortSignal,
    to: () => Promise<string>,
  ): Promise<SendOutcome> {
    const { http, mail, objects } = this.#options;
    // Waiting for its turn may have taken until the service stops.
    signal.throwIfAborted();
    try {
      switch (send.kind) {
        case 'http':
          return await sendHttp(http, send.payload, signal);
        case 'email':
          return await sendEmail(mail, send, to);
        case 's3':
          return await sendS3(objects, send, signal);
        // Both are events: `#storeSse` and the end of a run store them.
        case 'sse':
        case 'emit':
          throw new SendError(`nothing is sent as ${send.kind}`);
        default:
          return unreachable(send.kind);
      }
    } catch (error) {
      return failed(error);
    }
  }

  /** With all that the run sends to its stream: several jobs at the same moment would get them out of order. */
  async #storeSse(job: LeasedJob, runId: string): Promise<void> {
    const { store, node, clock, bus, router, outcomes } = this.#options;
    const nowMs = clock.now();
    const stored = await store.transaction(async (tx) => {
      const held = await settleJobs(store, tx, { node, jobs: [job] });
      if (!held.has(job.id)) return [];
      const sends = await lockQueuedSse(store, tx, runId);
      const done = await storeSse(store, tx, { sends, router, nowMs });
      const ended = sends.flatMap(({ number }, index) => {
        const outcome = done.outcomes[index];
        return outcome === undefined ? [] : [{ runId, number, outcome, nowMs }];
      });
      await endRunSends(store, tx, ended, outcomes);
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
function turn({ run_id, number }: Pick<RunSendTable, 'run_id' | 'number'>): number {
  let sum = number;
  for (const character of run_id.slice(-4)) sum += character.charCodeAt(0);
  return sum;
}
