import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { ClockState } from '#storage/tables/job-tables.ts';

export interface ClockStatus {
  state: ClockState;
  /** The clock of this machine minus that of the database. */
  offsetMs: number;
  checkedAtMs: number;
}

/** Differences that are left alone: clocks that are synchronized over a network differ by less. */
const toleratedMs = 100;
/** From here on an operator should know. */
const correctedMs = 1_000;
/** From here on this node schedules nothing. */
const unreliableMs = 60_000;
const checkEveryMs = 60_000;
/** A clock that was stepped, or a machine that was suspended, is noticed this soon, and checked at once. */
const lookEveryMs = 5_000;
const noticedStepMs = 1_000;
/** Round trips of one check; the shortest one counts. */
const roundTrips = 3;

interface Comparison {
  databaseMs: number;
  offsetMs: number;
  /** When, on the monotonic clock, the database said `databaseMs`. */
  atMonotonicMs: number;
  /** Half of the round trip: the database may have said it that much sooner or later. */
  uncertaintyMs: number;
}

/**
 * The clock of a node that shares its store with others. It keeps to the time of the database, so that whatever one
 * node plans is due at that moment for all of them.
 *
 * Between two checks it counts on by the monotonic clock: steps of the machine's clock do not reach it. It changes only
 * when a check proves it wrong by more than `toleratedMs`.
 */
export class DatabaseClock implements Clock {
  readonly #machine: Clock;
  readonly #monotonicMs: () => number;
  readonly #logger: Logger;
  #readDatabaseMs: (() => Promise<number>) | undefined;
  #anchor: { timeMs: number; monotonicMs: number };
  /** The machine's clock minus the monotonic one, when it was last checked. */
  #machineBaseMs: number;
  #checkedAtMonotonicMs = Number.NEGATIVE_INFINITY;
  #status: ClockStatus;
  readonly #looks: PeriodicTask;
  #checking: Promise<void> | undefined;

  constructor(options: { machine: Clock; logger: Logger; monotonicMs?: () => number }) {
    this.#machine = options.machine;
    this.#logger = options.logger;
    this.#looks = new PeriodicTask({
      everyMs: lookEveryMs,
      work: () => this.look(),
      logger: options.logger,
      failure: 'clock.check-failed',
    });
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    const timeMs = this.#machine.now();
    this.#anchor = { timeMs, monotonicMs: this.#monotonicMs() };
    this.#machineBaseMs = timeMs - this.#anchor.monotonicMs;
    this.#status = { state: 'synchronized', offsetMs: 0, checkedAtMs: timeMs };
  }

  now(): number {
    return Math.floor(this.#timeAt(this.#monotonicMs()));
  }

  /** What the last check found. */
  status(): ClockStatus {
    return this.#status;
  }

  /** The first check is over when it resolves; it rejects when the database cannot be asked. */
  async start(readDatabaseMs: () => Promise<number>): Promise<void> {
    this.#readDatabaseMs = readDatabaseMs;
    this.#apply(await this.#compare(readDatabaseMs));
    this.#looks.start();
  }

  async stop(): Promise<void> {
    await this.#looks.stop();
    await this.#checking;
  }

  /** Checks when a minute has gone by, or when the machine's clock and the monotonic one no longer go together. */
  look(): Promise<void> {
    const monotonicMs = this.#monotonicMs();
    const steppedMs = this.#machine.now() - monotonicMs - this.#machineBaseMs;
    const isDue = monotonicMs - this.#checkedAtMonotonicMs >= checkEveryMs;
    if (!isDue && Math.abs(steppedMs) < noticedStepMs) return this.#checking ?? Promise.resolve();
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #check(): Promise<void> {
    if (this.#readDatabaseMs === undefined) return;
    try {
      this.#apply(await this.#compare(this.#readDatabaseMs));
    } catch (error) {
      // The clock continues by the monotonic clock, which is exact enough for hours; the next check tries again.
      this.#logger.warn({ error: toError(error).message }, 'clock.check-failed');
    }
  }

  async #compare(readDatabaseMs: () => Promise<number>): Promise<Comparison> {
    let best: Comparison | undefined;
    for (let n = 0; n < roundTrips; n += 1) {
      const machineMs = this.#machine.now();
      const beganMs = this.#monotonicMs();
      const databaseMs = await readDatabaseMs();
      const uncertaintyMs = (this.#monotonicMs() - beganMs) / 2;
      if (best !== undefined && best.uncertaintyMs <= uncertaintyMs) continue;
      const offsetMs = machineMs + uncertaintyMs - databaseMs;
      best = { databaseMs, offsetMs, atMonotonicMs: beganMs + uncertaintyMs, uncertaintyMs };
    }
    return best as Comparison;
  }

  #apply({ databaseMs, offsetMs, atMonotonicMs, uncertaintyMs }: Comparison): void {
    const wrongMs = Math.abs(this.#timeAt(atMonotonicMs) - databaseMs) - uncertaintyMs;
    if (wrongMs > toleratedMs) this.#anchor = { timeMs: databaseMs, monotonicMs: atMonotonicMs };
    const before = this.#status.state;
    const state = stateOf(Math.abs(offsetMs) - uncertaintyMs);
    this.#status = { state, offsetMs: Math.round(offsetMs), checkedAtMs: this.now() };
    this.#checkedAtMonotonicMs = this.#monotonicMs();
    this.#machineBaseMs = this.#machine.now() - this.#checkedAtMonotonicMs;
    this.#log(state, before);
  }

  #log(state: ClockState, before: ClockState): void {
    const about = { offsetMs: this.#status.offsetMs };
    const advice = 'synchronize the clock of this machine, for example with chrony';
    // At each check, because timers stand still until the clock is right.
    if (state === 'unreliable')
      this.#logger.error(
        { ...about, advice: `${advice}: a node this far off fires no timers` },
        'clock.distrusted',
      );
    else if (state === before) return;
    else if (state === 'corrected') this.#logger.warn({ ...about, advice }, 'clock.corrected');
    else this.#logger.info(about, 'clock.synchronized');
  }

  #timeAt(monotonicMs: number): number {
    return this.#anchor.timeMs + monotonicMs - this.#anchor.monotonicMs;
  }
}

/** Pure. `provenMs`: by how much the clock is wrong at least. */
function stateOf(provenMs: number): ClockState {
  if (provenMs > unreliableMs) return 'unreliable';
  return provenMs > correctedMs ? 'corrected' : 'synchronized';
}
