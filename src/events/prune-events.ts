import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { channels, type StoredEvent } from './event.ts';
import { overfullChannels, pruneChannel, retainedMax } from './event-store.ts';

/** A channel is pruned when it may have this many events more than the retained ones. */
const slack = 50;
/** Rows deleted in one transaction, so that a purge does not hold the store's one writer for long. */
const batchRows = 500;
const intervalMs = 1_000;
/** Channels counted at most. Beyond that the one seen first is forgotten; it may keep up to `slack` more than 100. */
const countedMax = 50_000;

/** Keeps each channel near its 100 newest events, a little at a time, only where something was stored. */
export class EventPruner {
  readonly #store: Store;
  readonly #logger: Logger;
  /** Events seen since the last pruning, by `<emitter> <channel>`. */
  readonly #grown = new Map<string, { emitterId: string; channel: string; events: number }>();
  readonly #task: PeriodicTask;
  #hasSwept = false;

  constructor(options: { store: Store; logger: Logger }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.#round(),
      logger: options.logger,
      failure: 'event.prune-failed',
    });
  }

  start(): void {
    this.#task.start({ atOnce: true });
  }

  observe(events: readonly StoredEvent[]): void {
    for (const { emitter_id, channel } of events) {
      if (channel === channels.scheduled) continue;
      const key = `${emitter_id} ${channel}`;
      const grown = this.#grown.get(key);
      if (grown !== undefined) grown.events += 1;
      else this.#count(key, { emitterId: emitter_id, channel, events: 1 });
    }
  }

  /** Prunes every channel that grew enough; exported for tests, which do not wait for the interval. */
  async pruneGrown(minimum = slack): Promise<void> {
    for (const [key, grown] of [...this.#grown]) {
      if (this.#task.isStopped) return;
      if (grown.events < minimum) continue;
      this.#grown.delete(key);
      await this.#prune(grown.emitterId, grown.channel);
    }
  }

  /** Resolves when the sweep that `start` began, or the pruning under way, is done. */
  async swept(): Promise<void> {
    await this.#task.idle();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Counts from before a crash are not in memory, so the first round sweeps the log. */
  async #round(): Promise<void> {
    if (this.#hasSwept) return this.pruneGrown();
    this.#hasSwept = true;
    return this.#sweep();
  }

  #count(key: string, grown: { emitterId: string; channel: string; events: number }): void {
    this.#grown.set(key, grown);
    if (this.#grown.size <= countedMax) return;
    const oldest = this.#grown.keys().next().value;
    if (oldest !== undefined) this.#grown.delete(oldest);
  }

  async #sweep(): Promise<void> {
    try {
      const overfull = await overfullChannels(this.#store.read, 10_000);
      for (const { emitterId, channel } of overfull) {
        if (this.#task.isStopped) return;
        this.#count(`${emitterId} ${channel}`, { emitterId, channel, events: retainedMax });
      }
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'event.sweep-failed');
    }
  }

  async #prune(emitterId: string, channel: string): Promise<void> {
    try {
      for (;;) {
        const deleted = await this.#store.transaction((tx) =>
          pruneChannel(tx, { emitterId, channel, limit: batchRows }),
        );
        if (deleted < batchRows || this.#task.isStopped) break;
      }
      await this.#store.reclaimSpace();
    } catch (error) {
      this.#count(`${emitterId} ${channel}`, { emitterId, channel, events: retainedMax });
      this.#logger.warn({ emitter: emitterId, error: toError(error).message }, 'event.prune-failed');
    }
  }
}
