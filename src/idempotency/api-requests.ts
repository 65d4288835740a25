import { isLiveNode } from '#jobs/node-store.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { Store, Tx } from '#storage/store.ts';
import { type StoreTime, storeTime } from '#storage/store-time.ts';
import { abandonKey, freeKey, keyRow, reserveKeys, setAnswer } from './idempotency-key-store.ts';
import { encodeMark, type KeptAnswer } from './kept-answer.ts';
import type { FoundKey, KeptAnswers, TakenKey } from './kept-answers.ts';
import type { RequestKey } from './request-key.ts';

/** The least time between two tries to store how requests ended while the store was away. */
const retryMs = 5_000;
/** Such requests remembered at most; beyond that the outcome of the oldest counts as unknown. */
const unsettledMax = 10_000;

/** A request to the API with an `Idempotency-Key`, and the rights of its caller (identity/kept-rights.ts). */
export interface ApiRequest extends RequestKey {
  requestId: string;
  rights: string;
}

/** The outcome of an earlier request with the same key. */
export type EarlierRequest =
  | { state: 'answered'; answer: KeptAnswer; rights: string | null }
  | { state: 'conflict' }
  | { state: 'in_progress' }
  | { state: 'unknown' };

/** How a request ended: with a status, without an effect (its key is free again), or with an unknown outcome. */
type Ending = { status: number } | 'free' | 'unknown';

/**
 * Requests to the API with an `Idempotency-Key`. The key is on disk, with the node that has the request, before the request is
 * carried out, so a request is carried out at most once: after a crash its outcome is unknown, and a repeated request gets that answer.
 * The reply is kept before it is sent.
 */
export class ApiRequests {
  readonly #store: Store;
  readonly #answers: Pick<KeptAnswers, 'find' | 'record'>;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #time: StoreTime;
  readonly #logger: Logger;
  readonly #retryMs: number;
  /** Ids of the requests that this process carries out. */
  readonly #underWay = new Set<string>();
  /** Requests that have ended, but not in the store, by the id of their key. */
  readonly #unsettled = new Map<string, { taken: TakenKey; ending: Ending }>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: {
    store: Store;
    answers: Pick<KeptAnswers, 'find' | 'record'>;
    node: string;
    clock: Clock;
    logger: Logger;
    retryMs?: number;
  }) {
    this.#store = options.store;
    this.#answers = options.answers;
    this.#node = options.node;
    this.#clock = options.clock;
    this.#time = storeTime(options.store, options.clock);
    this.#logger = options.logger;
    this.#retryMs = options.retryMs ?? retryMs;
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /**
   * Reserves the key of a request. A key that is returned is this request's alone, and has to be given to `keep`, `free` or
   * `abandon`. Throws UnavailableError; then the request must not be carried out.
   */
  async take(request: ApiRequest): Promise<{ taken: TakenKey } | { earlier: EarlierRequest }> {
    const taken = { id: request.id, ownerId: request.ownerId, jobId: request.requestId };
    await this.#settleAgain(request.id);
    if (await this.#reserve(request, taken)) return { taken };
    const found = await this.#answers.find(request.id);
    // It was given up a moment ago.
    if (found === undefined) return { earlier: { state: 'in_progress' } };
    if (found.requestDigest !== request.requestDigest) return { earlier: { state: 'conflict' } };
    return { earlier: answered(found) ?? (await this.#unanswered(found)) };
  }

  /** Keeps the reply of a request that was carried out. Never rejects. */
  async keep(taken: TakenKey, reply: HttpReply): Promise<void> {
    if (!(await this.#answers.record(taken, { kind: 'responded', reply })))
      this.#settleLater(taken, { status: reply.status });
    this.#underWay.delete(taken.jobId);
  }

  /** Nothing was done of the request: its key can be used again. Never rejects. */
  free(taken: TakenKey): Promise<void> {
    return this.#end(taken, 'free');
  }

  /** The request failed, and what was done of it is not known. Never rejects. */
  abandon(taken: TakenKey): Promise<void> {
    return this.#end(taken, 'unknown');
  }

  async #reserve(request: ApiRequest, taken: TakenKey): Promise<boolean> {
    const { requestId: jobId, rights } = request;
    const nowMs = this.#clock.now();
    const row = keyRow(request, { jobId, nowMs, accepted: false, api: { node: this.#node, rights } });
    // Before the key is in the store, so that a request that finds it there sees that it is under way.
    this.#underWay.add(jobId);
    let isNew = false;
    try {
      isNew = await this.#store.writes.submit(reserveKeys, row);
    } catch (error) {
      // The key may be stored all the same.
      this.#settleLater(taken, 'free');
      throw error;
    } finally {
      if (!isNew) this.#underWay.delete(jobId);
    }
    return isNew;
  }

  /** The state of a request without an answer. If it is not under way, it may have been answered just now. */
  async #unanswered(found: FoundKey): Promise<EarlierRequest> {
    const isUnderWay =
      found.node === this.#node
        ? this.#underWay.has(found.jobId) || this.#unsettled.has(found.id)
        : await isLiveNode(this.#store.read, found.node ?? '', this.#time);
    if (isUnderWay) return { state: 'in_progress' };
    const now = await this.#answers.find(found.id);
    if (now === undefined || now.jobId !== found.jobId) return { state: 'in_progress' };
    return answered(now) ?? { state: 'unknown' };
  }

  async #end(taken: TakenKey, ending: Ending): Promise<void> {
    try {
      await this.#store.transaction((tx) => storeEnding(tx, taken, ending));
    } catch (error) {
      this.#logger.warn(
        { request: taken.jobId, error: toError(error).message },
        'idempotency.key-not-settled',
      );
      this.#settleLater(taken, ending);
    }
    this.#underWay.delete(taken.jobId);
  }

  #settleLater(taken: TakenKey, ending: Ending): void {
    if (this.#stopped) return;
    const [oldest] = this.#unsettled.keys();
    if (this.#unsettled.size >= unsettledMax && oldest !== undefined) this.#unsettled.delete(oldest);
    this.#unsettled.set(taken.id, { taken, ending });
    this.#timer ??= setTimeout(() => void this.#settleAll(), this.#retryMs);
  }

  async #settleAll(): Promise<void> {
    try {
      for (const id of [...this.#unsettled.keys()]) await this.#settleAgain(id);
    } catch {
      // The store is still away.
    }
    this.#timer = undefined;
    if (this.#unsettled.size > 0 && !this.#stopped)
      this.#timer = setTimeout(() => void this.#settleAll(), this.#retryMs);
  }

  async #settleAgain(keyId: string): Promise<void> {
    const unsettled = this.#unsettled.get(keyId);
    if (unsettled === undefined) return;
    await this.#store.transaction((tx) => storeEnding(tx, unsettled.taken, unsettled.ending));
    if (this.#unsettled.get(keyId) === unsettled) this.#unsettled.delete(keyId);
  }
}

function answered({ answer, rights }: FoundKey): EarlierRequest | undefined {
  return answer && { state: 'answered', answer, rights };
}

async function storeEnding(tx: Tx, taken: TakenKey, ending: Ending): Promise<void> {
  if (ending === 'free') await freeKey(tx, taken);
  else if (ending === 'unknown') await abandonKey(tx, taken);
  else
    await setAnswer(tx, taken, { answer: encodeMark({ kind: 'not_kept', status: ending.status }), bytes: 0 });
}
