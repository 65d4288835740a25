import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { LeaseClock } from './lease-clock.ts';
import { forgetNodeState, forgetNodeStates, type NodeClock, reportNode } from './node-state-store.ts';
import { forgetNode, forgetNodes, heartbeat, registerNode } from './node-store.ts';

/** A renewal of the lease of this node. */
export interface Beat {
  /** In the time of leases. */
  nowMs: number;
  /** This node could not renew for the whole of a lease: the database was away, or this process was suspended. */
  wasLate: boolean;
}

/**
 * The lease of this node, and what others see of the node. It renews three times as often as it must; a node that has not renewed for the
 * whole of its lease is dead to the others, who take over what it had.
 */
export class NodeHeartbeat {
  readonly #node: string;
  readonly #store: Store;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  readonly #leaseMs: number;
  readonly #claims: boolean;
  readonly #predecessor: string | undefined;
  readonly #nodeClock: () => NodeClock | undefined;
  readonly #onLost: () => void;
  readonly #afterBeat: (beat: Beat) => Promise<void>;
  readonly #task: PeriodicTask;
  #startedAtMs = 0;
  #stoppingSinceMs: number | null = null;
  /** When this node last renewed its lease, by a clock that never steps. */
  #renewedAtMs = performance.now();

  constructor(options: {
    node: string;
    store: Store;
    leaseClock: LeaseClock;
    logger: Logger;
    leaseMs: number;
    claims: boolean;
    /** A node that is gone for sure. */
    predecessor: string | undefined;
    nodeClock: () => NodeClock | undefined;
    /** Another node took over what this one had; a new lease begins after that. */
    onLost: () => void;
    /** What is done with each renewal; a rejection is logged. */
    afterBeat: (beat: Beat) => Promise<void>;
  }) {
    this.#node = options.node;
    this.#store = options.store;
    this.#leaseClock = options.leaseClock;
    this.#logger = options.logger;
    this.#leaseMs = options.leaseMs;
    this.#claims = options.claims;
    this.#predecessor = options.predecessor;
    this.#nodeClock = options.nodeClock;
    this.#onLost = options.onLost;
    this.#afterBeat = options.afterBeat;
    this.#task = new PeriodicTask({
      everyMs: options.leaseMs / 3,
      // Soon after a store that was away is back, the node is seen to be well, and has its lease.
      retryMs: 1_000,
      work: () => this.#beat(),
      logger: options.logger,
      failure: 'node.heartbeat-failed',
      about: { node: options.node },
    });
  }

  /** The lease begins; resolves with the time at which it did. The node before, which is gone, is forgotten. */
  async register(): Promise<number> {
    const nowMs = await this.#leaseClock.nowMs();
    await this.#store.transaction(async (tx) => {
      if (!this.#store.isShared) {
        await forgetNodes(tx);
        await forgetNodeStates(tx);
      } else if (this.#predecessor !== undefined) {
        await forgetNode(tx, this.#predecessor);
        await forgetNodeState(tx, this.#predecessor);
      }
      await this.#beginLease(tx, nowMs);
      this.#startedAtMs = nowMs;
      await this.#report(tx, nowMs);
    });
    this.#renewedAtMs = performance.now();
    return nowMs;
  }

  /** Renews the lease from now on. */
  start(): void {
    this.#task.start();
  }

  /** The lease is no longer renewed. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Makes other nodes see immediately that this node stops. The node also stops if that cannot be written. */
  async reportStopping(): Promise<void> {
    if (this.#startedAtMs === 0) return;
    try {
      const nowMs = await this.#leaseClock.nowMs();
      this.#stoppingSinceMs = nowMs;
      await this.#store.transaction((tx) => this.#report(tx, nowMs));
    } catch (error) {
      this.#logger.warn({ node: this.#node, error: toError(error).message }, 'node.heartbeat-failed');
    }
  }

  async #beat(): Promise<void> {
    const nowMs = await this.#leaseClock.nowMs();
    const isKnown = await this.#store.transaction(async (tx) => {
      await this.#report(tx, nowMs);
      return heartbeat(tx, this.#node, { nowMs, leaseMs: this.#leaseMs });
    });
    if (!isKnown) {
      // Another node took our jobs over while this process was suspended. What we finish now will be refused.
      this.#logger.error({ node: this.#node }, 'node.lease-lost');
      this.#onLost();
      await this.#store.transaction((tx) => this.#beginLease(tx, nowMs));
    }
    const silentMs = performance.now() - this.#renewedAtMs;
    this.#renewedAtMs = performance.now();
    await this.#afterBeat({ nowMs, wasLate: silentMs >= this.#leaseMs });
  }

  #beginLease(tx: Tx, nowMs: number): Promise<void> {
    return registerNode(tx, this.#node, { nowMs, leaseMs: this.#leaseMs, claims: this.#claims });
  }

  #report(tx: Tx, nowMs: number): Promise<void> {
    return reportNode(tx, this.#node, {
      nowMs,
      leaseMs: this.#leaseMs,
      startedAtMs: this.#startedAtMs,
      clock: this.#nodeClock(),
      stoppingSinceMs: this.#stoppingSinceMs,
    });
  }
}
