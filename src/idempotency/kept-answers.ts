import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { Logger } from '#lib/logger.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { Store, Tx } from '#storage/store.ts';
import { openValue, sealValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { findKey, isGone, keptMs, replyUsage, sealedReply, setAnswer } from './idempotency-key-store.ts';
import { decodeMark, type EndpointAnswer, encodeMark, type KeptAnswer } from './kept-answer.ts';

/** The largest reply that is kept, body and headers together. */
const replyBytesMax = 1024 * 1024;
/** Replies kept for one owner, body and headers together; sealed they take less than twice as much. Beyond it only the status is kept. */
const ownerBytesMax = 256 * 1024 * 1024;
/** How long the sum of an owner's replies is used before it is read again; what is kept meanwhile is added. */
const usageTtlMs = 60_000;
/** Repeated requests that wait for an answer, in this process and of one owner. Others are refused, to be retried. */
const waitingMax = 1_024;
const waitingPerOwnerMax = 256;
/** Replies that are opened at the same time, each of another owner. */
const openedAtOnce = 2;
/**
 * To open a reply of a megabyte takes 10 ms. An owner whose callers ask for one again and again leaves two thirds of the time to others.
 */
const restTimes = 2;
const restAfterMs = 3;
/** The safety net for a lost notification. A run that is gone for two such times without an answer has lost it. */
const pollMs = 1_000;
/** Begins a notice on the channel of replies that a request was answered; the id of its key follows. */
const answeredNotice = 'answered:';

/** A key, and the job or run its request became. */
export interface TakenKey {
  id: string;
  jobId: string;
  ownerId: string;
}

export interface FoundKey extends TakenKey {
  requestDigest: string;
  /** Undefined while the request waits for its reply. */
  answer: KeptAnswer | undefined;
  /** The node that carries out a request to the API, and the rights of its caller then; null for endpoints. */
  node: string | null;
  rights: string | null;
}

/**
 * The answers of requests with an `Idempotency-Key`, for 24 hours. A reply is kept before it is sent, so that a caller who
 * repeats a request whose reply was lost on its way gets the same one.
 */
export class KeptAnswers {
  readonly #store: Store;
  readonly #vault: Vault;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #waitMs: number;
  readonly #pollMs: number;
  readonly #ownerBytesMax: number;
  readonly #usage = new Map<string, { untilMs: number; bytes: number }>();
  /** What to call when the request of a key is answered, or the service stops. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #waitingOf = new Map<string, number>();
  /** Replies that are opened, by the id of the key. */
  readonly #opened = new Map<string, Promise<KeptAnswer | undefined>>();
  readonly #turns = new FairQueue(openedAtOnce, { rest: () => restTimes, restAfterMs });
  #waits = 0;
  #stopped = false;

  constructor(options: {
    store: Store;
    vault: Vault;
    clock: Clock;
    logger: Logger;
    /** How long a repeated request waits for the reply of the first one. */
    waitMs: number;
    pollMs?: number;
    ownerBytesMax?: number;
  }) {
    this.#store = options.store;
    this.#vault = options.vault;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#waitMs = options.waitMs;
    this.#pollMs = options.pollMs ?? pollMs;
    this.#ownerBytesMax = options.ownerBytesMax ?? ownerBytesMax;
    this.#store.onNotify((channel, payload) => {
      if (channel === 'millrace_replies' && payload.startsWith(answeredNotice))
        this.#wake(payload.slice(answeredNotice.length));
    });
  }

  /** Requests that wait are answered, and no other begins to. */
  stop(): void {
    this.#stopped = true;
    for (const id of this.#waiting.keys()) this.#wake(id);
  }

  /** The key of a request that was taken within the last 24 hours. */
  async find(id: string): Promise<FoundKey | undefined> {
    const row = await findKey(this.#store.read, id, this.#clock.now() - keptMs);
    if (row === undefined) return undefined;
    const { owner_id: ownerId, job_id: jobId, request_digest: requestDigest, mark, node, rights } = row;
    const found = { id, ownerId, jobId, requestDigest, node, rights };
    if (row.answer_bytes > 0) return { ...found, answer: await this.#replyOf(found) };
    return { ...found, answer: mark === null ? undefined : decodeMark(mark) };
  }

  /**
   * Keeps how the request of a key was answered, unless that is known. `isPrivate`: of a reply only the status. A store that
   * is away costs the repeated request its reply, not the first one: resolves with false.
   */
  async record(key: TakenKey, answer: EndpointAnswer, { isPrivate = false } = {}): Promise<boolean> {
    try {
      const kept = await this.#toKeep(key, answer, isPrivate);
      await this.#store.transaction(async (tx) => {
        await setAnswer(tx, key, await this.#encode(tx, key, kept));
        await this.#store.notify(tx, 'millrace_replies', `${answeredNotice}${key.id}`);
      });
      this.#wake(key.id);
      return true;
    } catch (error) {
      this.#logger.warn({ job: key.jobId, error: toError(error).message }, 'idempotency.answer-not-kept');
      return false;
    }
  }

  /** Records the answer of a run whose caller no longer waits in this process. An interrupted run answers later. */
  recorder(
    key: TakenKey,
    options: { isPrivate: boolean },
  ): {
    started(): void;
    respond(reply: HttpReply): void;
    ended(): void;
    interrupted(): void;
  } {
    let isOver = false;
    const record = (answer: EndpointAnswer) => {
      if (!isOver) void this.record(key, answer, options);
      isOver = true;
    };
    return {
      started: () => {},
      respond: (reply) => record({ kind: 'responded', reply }),
      ended: () => record({ kind: 'ended', waits: false }),
      interrupted: () => {
        isOver = true;
      },
    };
  }

  /** The answer of a request, waited for where it is not known yet; undefined: not now. */
  async answerOf(key: FoundKey): Promise<KeptAnswer | undefined> {
    if (key.answer !== undefined) return key.answer;
    const ofOwner = this.#waitingOf.get(key.ownerId) ?? 0;
    if (this.#stopped || this.#waits >= waitingMax || ofOwner >= waitingPerOwnerMax) return undefined;
    this.#waits += 1;
    this.#waitingOf.set(key.ownerId, ofOwner + 1);
    try {
      return await this.#wait(key);
    } finally {
      this.#waits -= 1;
      const left = (this.#waitingOf.get(key.ownerId) ?? 1) - 1;
      if (left === 0) this.#waitingOf.delete(key.ownerId);
      else this.#waitingOf.set(key.ownerId, left);
    }
  }

  async #wait(key: FoundKey): Promise<KeptAnswer | undefined> {
    const endMs = performance.now() + this.#waitMs;
    let goneSinceMs: number | undefined;
    while (!this.#stopped) {
      // Before the store is read: what is answered meanwhile is not missed.
      const woken = this.#wokenWithin(key.id, Math.min(this.#pollMs, endMs - performance.now()));
      try {
        const found = await this.find(key.id);
        if (found === undefined || found.answer !== undefined) return found?.answer;
        const nowMs = performance.now();
        if (!(await isGone(this.#store.read, key.jobId))) goneSinceMs = undefined;
        else goneSinceMs ??= nowMs;
        if (goneSinceMs !== undefined && nowMs - goneSinceMs >= 2 * this.#pollMs)
          return { kind: 'not_kept', status: lostStatus };
        if (nowMs >= endMs) return undefined;
        await woken.promise;
      } finally {
        woken.forget();
      }
    }
    return undefined;
  }

  #wokenWithin(id: string, ms: number): { promise: Promise<void>; forget: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting.add(resolve));
    const timer = setTimeout(resolve, Math.max(ms, 0));
    const forget = () => {
      clearTimeout(timer);
      waiting.delete(resolve);
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
    };
    return { promise, forget };
  }

  #wake(id: string): void {
    for (const wake of this.#waiting.get(id) ?? []) wake();
  }

  async #toKeep({ ownerId }: TakenKey, answer: EndpointAnswer, isPrivate: boolean): Promise<KeptAnswer> {
    if (answer.kind !== 'responded') return answer;
    const { status } = answer.reply;
    const bytes = bytesOf(answer.reply);
    const isKept = !isPrivate && bytes <= replyBytesMax && (await this.#hasRoom(ownerId, bytes));
    return isKept ? answer : { kind: 'not_kept', status };
  }

  async #hasRoom(ownerId: string, bytes: number): Promise<boolean> {
    const nowMs = this.#clock.now();
    for (const [id, { untilMs }] of this.#usage)
      if (untilMs <= nowMs || untilMs > nowMs + usageTtlMs) this.#usage.delete(id);
    if (!this.#usage.has(ownerId)) {
      const { bytes: used } = await replyUsage(this.#store.read, ownerId);
      // What others added while the store was read stays counted.
      if (!this.#usage.has(ownerId)) this.#usage.set(ownerId, { untilMs: nowMs + usageTtlMs, bytes: used });
    }
    const usage = this.#usage.get(ownerId);
    if (usage === undefined || usage.bytes + bytes > this.#ownerBytesMax) return false;
    usage.bytes += bytes;
    return true;
  }

  async #encode(
    tx: Tx,
    { id, ownerId }: TakenKey,
    kept: KeptAnswer,
  ): Promise<{ answer: string; bytes: number }> {
    if (kept.kind !== 'responded') return { answer: encodeMark(kept), bytes: 0 };
    const { body, ...head } = kept.reply;
    const value = { ...head, body: body.toString('base64') };
    const answer = await sealValue(tx, { vault: this.#vault, clock: this.#clock }, { ownerId, id, value });
    return { answer, bytes: bytesOf(kept.reply) };
  }

  /** Hundreds may wait for one reply, which is opened once for all of them. Undefined: it is no longer kept. */
  #replyOf({ id, ownerId }: Pick<TakenKey, 'id' | 'ownerId'>): Promise<KeptAnswer | undefined> {
    const underWay = this.#opened.get(id);
    if (underWay !== undefined) return underWay;
    const opened = this.#turns
      .run(ownerId, async (): Promise<KeptAnswer | undefined> => {
        const sealed = await sealedReply(this.#store.read, id);
        if (sealed === undefined) return undefined;
        const value = await openValue(this.#store.read, this.#vault, { ownerId, id, sealed });
        const { body, ...head } = value as Omit<HttpReply, 'body'> & { body: string };
        return { kind: 'responded', reply: { ...head, body: Buffer.from(body, 'base64') } };
      })
      .finally(() => this.#opened.delete(id));
    this.#opened.set(id, opened);
    return opened;
  }
}

function bytesOf({ headers, body }: HttpReply): number {
  return body.length + Buffer.byteLength(JSON.stringify(headers));
}

/** Status of a reply that was lost with its node: what it was is not known, and sending the request again is of no use. */
const lostStatus = 409;
