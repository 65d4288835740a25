import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { Store } from '#storage/store.ts';
import type { ReplyWaiter } from './reply-waiter.ts';
import { deleteReplies, findReplies, goneJobs, insertReply, pruneReplies } from './source-reply-store.ts';

/** Default of `pollMs`: the safety net for a lost notification. */
const defaultPollMs = 1_000;
/** Default of `goneMs`: a job that has been gone for this long without a reply had none. */
const defaultGoneMs = 2_000;
const pruneEveryMs = 60_000;
/** No caller waits for longer: the longest run, and the longest wait for its turn. */
const keptMs = 3_600_000;
const prunedMax = 1_000;

/**
 * Brings what a run answers to the node where the caller waits, when the turn of its source is another node's: through the store, since
 * nodes know each other only there. When a reply cannot be brought, the caller gets an error in time; the run is not affected.
 */
export class SourceReplies {
  readonly #store: Store;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #pollMs: number;
  readonly #goneMs: number;
  readonly #waiting = new Map<string, ReplyWaiter>();
  #poll: NodeJS.Timeout | undefined;
  readonly #pruner: PeriodicTask;
  #reading: Promise<void> | undefined;
  #isAskedAgain = false;
  /** Those whose jobs were stored, and since when they are known to be gone (performance.now). */
  readonly #stored = new Map<string, number | undefined>();

  constructor(options: {
    store: Store;
    node: string;
    clock: Clock;
    logger: Logger;
    /** For tests. */
    pollMs?: number;
    goneMs?: number;
  }) {
    this.#store = options.store;
    this.#node = options.node;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#pollMs = options.pollMs ?? defaultPollMs;
    this.#goneMs = options.goneMs ?? defaultGoneMs;
    this.#pruner = new PeriodicTask({
      everyMs: pruneEveryMs,
      work: () => {
        const beforeMs = this.#clock.now() - keptMs;
        return this.#store.transaction((tx) => pruneReplies(tx, beforeMs, prunedMax));
      },
      logger: options.logger,
      failure: 'source.replies-not-pruned',
    });
  }

  start(): void {
    if (!this.#store.isShared) return;
    this.#store.onNotify((channel, node) => {
      if (channel === 'millrace_replies' && node === this.#node) this.#read();
    });
    this.#pruner.start();
  }

  /** Callers that wait here get the error that the run continues elsewhere. */
  stop(): void {
    clearInterval(this.#poll);
    void this.#pruner.stop();
    for (const waiter of this.#waiting.values()) waiter.interrupted();
    this.#waiting.clear();
  }

  await(jobId: string, waiter: ReplyWaiter): void {
    this.#waiting.set(jobId, waiter);
    this.#poll ??= setInterval(() => this.#read(), this.#pollMs);
  }

  /** The job is on disk: if it is gone without a reply, there will be none. */
  stored(jobId: string): void {
    if (this.#waiting.has(jobId)) this.#stored.set(jobId, undefined);
  }

  stopAwaiting(jobId: string): void {
    this.#waiting.delete(jobId);
    this.#stored.delete(jobId);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  /** For the run of a job whose caller waits on another node. */
  waiterAt(node: string, jobId: string): ReplyWaiter {
    let isOver = false;
    const send = (reply: HttpReply | undefined) => {
      if (isOver) return;
      isOver = true;
      void this.#send(node, jobId, reply);
    };
    return {
      started: () => {},
      respond: send,
      ended: () => send(undefined),
      // It runs again, and answers then.
      interrupted: () => {
        isOver = true;
      },
    };
  }

  async #send(node: string, jobId: string, reply: HttpReply | undefined): Promise<void> {
    const row = {
      job_id: jobId,
      node,
      reply: reply === undefined ? null : encodeReply(reply),
      created_at_ms: this.#clock.now(),
    };
    try {
      await this.#store.transaction(async (tx) => {
        await insertReply(tx, row);
        await this.#store.notify(tx, 'millrace_replies', node);
      });
    } catch (error) {
      this.#logger.warn({ job: jobId, node, error: toError(error).message }, 'source.reply-not-sent');
    }
  }

  #read(): void {
    if (this.#reading !== undefined) {
      this.#isAskedAgain = true;
      return;
    }
    this.#reading = this.#readAll()
      .catch((error: unknown) =>
        this.#logger.warn({ error: toError(error).message }, 'source.replies-not-read'),
      )
      .finally(() => {
        this.#reading = undefined;
        if (!this.#isAskedAgain) return;
        this.#isAskedAgain = false;
        this.#read();
      });
  }

  /** Its source was deleted, or its reply could not be stored. It may be on its way yet: only after a while. */
  #isGone(jobId: string): void {
    if (!this.#stored.has(jobId)) return;
    const nowMs = performance.now();
    const sinceMs = this.#stored.get(jobId) ?? nowMs;
    this.#stored.set(jobId, sinceMs);
    if (nowMs - sinceMs >= this.#goneMs) this.#waiting.get(jobId)?.ended('nothing of the run is left');
  }

  async #readAll(): Promise<void> {
    const waiting = [...this.#waiting.keys()];
    const gone = await goneJobs(this.#store.read, [...this.#stored.keys()]);
    const rows = await findReplies(this.#store.read, waiting);
    for (const { job_id, reply } of rows) {
      const waiter = this.#waiting.get(job_id);
      if (reply === null) waiter?.ended('the run ended without a response');
      else waiter?.respond(decodeReply(reply));
    }
    for (const jobId of gone) this.#isGone(jobId);
    await this.#store.transaction((tx) =>
      deleteReplies(
        tx,
        rows.map(({ job_id }) => job_id),
      ),
    );
  }
}

function encodeReply({ body, ...rest }: HttpReply): string {
  return JSON.stringify({ ...rest, body: body.toString('base64') });
}

function decodeReply(text: string): HttpReply {
  const { body, ...rest } = JSON.parse(text) as Omit<HttpReply, 'body'> & { body: string };
  return { ...rest, body: Buffer.from(body, 'base64') };
}
