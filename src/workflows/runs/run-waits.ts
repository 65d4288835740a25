import type { Db } from '#storage/store.ts';
import type { RunTable, WaitKind } from '#storage/tables/workflow-tables.ts';
import { isTerminal } from './run.ts';
import type { WaitPlace } from './run-link.ts';
import type { StepRunner } from './run-step.ts';
import { shownWaitsOf } from './run-wait-store.ts';

/** What a branch of a run, or the run itself, waits for. */
export interface ShownWait extends WaitPlace {
  namespace: string;
  kind: WaitKind;
  /** Epoch ms. */
  untilMs: number;
  resumeUrl: string;
  cancelUrl: string;
}

/** Waits that one answer shows: a map has up to 10,000. */
const waitsShown = 1_000;

/** Says what runs wait for. */
export class RunWaits {
  readonly #db: Db;
  readonly #steps: Pick<StepRunner, 'linksOf'>;

  constructor(options: { db: Db; steps: Pick<StepRunner, 'linksOf'> }) {
    this.#db = options.db;
    this.#steps = options.steps;
  }

  /** Those that are over first come first. */
  async of(run: RunTable): Promise<ShownWait[]> {
    if (isTerminal(run)) return [];
    const waits = await shownWaitsOf(this.#db, run, waitsShown);
    return waits.map((wait) => ({ ...wait, ...this.#steps.linksOf({ run }, wait) }));
  }
}
