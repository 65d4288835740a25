import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { RunStepTable, WaitKind } from '#storage/tables/workflow-tables.ts';
import type { LiveRun } from './live-run.ts';
import type { LiveRunRecords } from './live-run-records.ts';
import type { RunResumption, Stop } from './run.ts';
import type { WaitsInBlock } from './run-record.ts';
import type { StepResult } from './run-step.ts';
import { findWait } from './run-wait-store.ts';
import type { Strand, StrandWait } from './strand.ts';

/** The run stopped, or a strand of it waits until a time (epoch ms) or an answer. */
export type Wait = { kind: 'stopped'; stop: Stop } | { kind: 'waits'; untilMs: number };

/** The waits of the strands of a run: how one begins, and when it is over. */
export class StepWaits {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #records: LiveRunRecords;

  constructor({ store, clock, records }: { store: Store; clock: Clock; records: LiveRunRecords }) {
    this.#store = store;
    this.#clock = clock;
    this.#records = records;
  }

  /** Records the wait of a strand, with the try that led to it. The run's own strand waits in the store; a branch may wait here. */
  async begin(
    live: LiveRun,
    strand: Strand,
    /** Undefined: the step waits on, and was not tried. */
    row: RunStepTable | undefined,
    result: StepResult | undefined,
    wait: {
      kind: WaitKind;
      ms: number;
      position: number;
      resumption: RunResumption | null;
      over?: WaitsInBlock;
    },
  ): Promise<Wait> {
    const { run } = live;
    // The time of a block around the step may be over before.
    const untilMs = Math.min(
      this.#clock.now() + wait.ms,
      strand.deadline?.firstMs ?? Number.POSITIVE_INFINITY,
    );
    const { kind, position, resumption } = wait;
    const { failures, iteration } = strand;
    const over = wait.over === undefined ? {} : { over: wait.over };
    const effects = result === undefined ? {} : this.#records.effectsOf(live, live.stepAt(position), result);
    const record = { ...effects, ...(row === undefined ? {} : { step: row }) };
    if (strand.parent === undefined) {
      const { woken } = await this.#records.record(live, strand, {
        ...record,
        usage: this.#records.usageOf(live),
        next: { kind: 'wait', waitKind: kind, untilMs, position, failures, resumption, ...over },
      });
      return stopped(this.#records.park(live, woken ? this.#clock.now() : untilMs));
    }
    const { woken } = await this.#records.record(live, strand, {
      ...record,
      next: {
        kind: 'branch-wait',
        clears: live.main.waited !== null,
        ...over,
        wait: {
          run_id: run.id,
          owner_id: run.owner_id,
          position,
          iteration,
          kind,
          until_ms: untilMs,
          failures,
          resumption: resumption === null ? null : JSON.stringify(resumption),
        },
      },
    });
    live.main.waited = null;
    strand.waited = { kind, position, resumption: resumption ?? {}, untilMs };
    if (kind === 'delay' && row !== undefined) live.record(row);
    const until = woken ? await this.#read(live, strand) : untilMs;
    return { kind: 'waits', untilMs: until ?? untilMs };
  }

  /** Waits in this process. True when the wait of a strand is over; false when the run is parked. */
  async waitHere(live: LiveRun, strand: Strand, untilMs: number): Promise<boolean> {
    let until = untilMs;
    while (until > this.#clock.now()) {
      if ((await live.waits.until(until)) === 'park') return false;
      // It may have been answered meanwhile.
      const answered = await this.#read(live, strand);
      if (answered === undefined) return false;
      until = answered;
    }
    return true;
  }

  /** What the store says of a wait; its time (epoch ms), undefined when it is gone. */
  async #read(live: LiveRun, strand: Strand): Promise<number | undefined> {
    const { waited, iteration } = strand;
    if (waited === null) return undefined;
    const key = { run_id: live.run.id, position: waited.position, iteration };
    const row = await findWait(this.#store.read, key);
    if (row === undefined) return undefined;
    const resumption = row.resumption === null ? {} : (JSON.parse(row.resumption) as RunResumption);
    strand.waited = { ...waited, resumption, untilMs: row.until_ms };
    return row.until_ms;
  }

  /** Nothing else of the run is under way here: it waits until the first of its strands continues. */
  async parkBranches(live: LiveRun): Promise<Stop> {
    const { untilMs } = await this.#records.record(live, live.main, {
      usage: this.#records.usageOf(live),
      next: {
        kind: 'wait',
        waitKind: 'branches',
        untilMs: this.#clock.now(),
        position: 0,
        failures: 0,
        resumption: null,
      },
    });
    return this.#records.park(live, untilMs ?? this.#clock.now());
  }
}

/** True when a wait is over and the step does not run again: it was suspended, or is cancelled. */
export function isAnswered(strand: Strand): strand is Strand & { waited: StrandWait } {
  const { waited } = strand;
  return waited?.kind === 'suspend' || waited?.resumption.cancelled === true;
}

/** True when what waits was neither resumed nor cancelled. */
export function isUnanswered({ resumption }: StrandWait): boolean {
  return resumption.request === undefined && resumption.cancelled !== true;
}

export function stopped(stop: Stop): { kind: 'stopped'; stop: Stop } {
  return { kind: 'stopped', stop };
}
