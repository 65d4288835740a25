import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { type DeliveryClaims, listenersPerRefill } from './delivery-claims.ts';
import type { DeliveryLane, DeliveryLanes } from './delivery-lanes.ts';

/**
 * Refills lanes that are behind and have drained, page by page. A thousand receivers that are behind drain at about the same
 * time: a look and a transaction for each of them would keep the store from all others.
 */
export class DeliveryRefills {
  readonly #lanes: DeliveryLanes;
  readonly #claims: Pick<DeliveryClaims, 'claimFor'>;
  readonly #logger: Logger;
  readonly #isStopping: () => boolean;
  readonly #onRefilled: (lane: DeliveryLane) => void;
  readonly #onFailed: () => void;
  readonly #onIdle: () => void;
  readonly #pauseMs: number;
  readonly #drained = new Set<DeliveryLane>();
  #running: Promise<void> | undefined;
  /** After a failure no lane is refilled before this (performance.now): the next look at the store does it. */
  #fromMs = 0;

  constructor(options: {
    lanes: DeliveryLanes;
    claims: Pick<DeliveryClaims, 'claimFor'>;
    logger: Logger;
    /** After a failure. */
    pauseMs: number;
    isStopping: () => boolean;
    /** The lane may have something to send. */
    onRefilled: (lane: DeliveryLane) => void;
    onFailed: () => void;
    onIdle: () => void;
  }) {
    this.#lanes = options.lanes;
    this.#claims = options.claims;
    this.#logger = options.logger;
    this.#pauseMs = options.pauseMs;
    this.#isStopping = options.isStopping;
    this.#onRefilled = options.onRefilled;
    this.#onFailed = options.onFailed;
    this.#onIdle = options.onIdle;
  }

  get isIdle(): boolean {
    return this.#running === undefined;
  }

  /** Refills the lane if it has drained. */
  note(lane: DeliveryLane): void {
    if (this.#isStopping() || !this.#lanes.hasDrained(lane) || performance.now() < this.#fromMs) return;
    lane.isRefilling = true;
    this.#drained.add(lane);
    this.#running ??= this.#refillAll();
  }

  /** Resolves when nothing is being refilled. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #refillAll(): Promise<void> {
    // What drains in the same turn of the event loop is in the same page.
    await new Promise(setImmediate);
    for (let page = this.#nextPage(); page.length > 0; page = this.#nextPage()) {
      await this.#refill(page);
      for (const lane of page) {
        lane.isRefilling = false;
        this.#onRefilled(lane);
      }
    }
    // In the same turn as the last look at the lanes: one that drains afterwards starts another pass.
    this.#running = undefined;
    this.#onIdle();
  }

  /** Quick lanes first: a quick receiver with a backlog waits for no slow one. */
  #nextPage(): DeliveryLane[] {
    if (this.#isStopping()) return [];
    const drained = [...this.#drained];
    const isQuick = ({ kind }: DeliveryLane): boolean => kind === 'quick';
    const inOrder = [...drained.filter(isQuick), ...drained.filter((lane) => !isQuick(lane))];
    const page = inOrder.slice(0, listenersPerRefill);
    for (const lane of page) this.#drained.delete(lane);
    return page;
  }

  /** Brings what waits in the store for these lanes into memory. */
  async #refill(lanes: readonly DeliveryLane[]): Promise<void> {
    const left = new Map(lanes.map((lane) => [lane, lane.left]));
    try {
      const complete = await this.#claims.claimFor(lanes.map(({ listenerId }) => listenerId));
      // From here on new ones may come to memory first; when there is more in the store, they will not.
      for (const lane of lanes)
        if (complete.has(lane.listenerId) && lane.left === left.get(lane)) lane.isBehind = false;
    } catch (error) {
      this.#logger.warn({ listeners: lanes.length, error: toError(error).message }, 'delivery.claim-failed');
      // Not at once again, by these lanes or a thousand others.
      this.#fromMs = performance.now() + this.#pauseMs;
      this.#onFailed();
    }
  }
}
