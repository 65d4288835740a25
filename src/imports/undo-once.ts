import { setTimeout as delay } from 'node:timers/promises';
import { CallerError } from '#lib/errors.ts';
import { storeTime } from '#storage/store-time.ts';
import { beginUndo, endUndo, findImport, type ImportRow } from './import-store.ts';
import type { ImportSummary } from './report.ts';
import { type UndoneBy, type UndoneObjects, type UndoOptions, undoImport } from './undo-import.ts';

export interface UndoOnceOptions extends UndoOptions {
  node: string;
}

/** Between two looks at how an undo of another node ended. */
const pollMs = 200;
/** How long a request waits for the undo of another node, which continues all the same. */
const otherNodeMaxMs = 60_000;

/**
 * Undoes an import once, however many requests ask for it on however many nodes at the same time: all get the outcome of the one that does
 * it. An undo whose node died is done by the next one.
 */
export class ImportUndos {
  readonly #options: UndoOnceOptions;
  readonly #underWay = new Map<string, Promise<UndoneObjects>>();

  constructor(options: UndoOnceOptions) {
    this.#options = options;
  }

  /** Throws CallerError `conflict` while the import is under way, or while another node undoes it for very long. */
  async undo(id: string, by: UndoneBy): Promise<UndoneObjects> {
    const underWay = this.#underWay.get(id);
    if (underWay !== undefined) return underWay;
    const undo = this.#undoInTurn(id, by);
    this.#underWay.set(id, undo);
    try {
      return await undo;
    } finally {
      this.#underWay.delete(id);
    }
  }

  async #undoInTurn(id: string, by: UndoneBy): Promise<UndoneObjects> {
    const { store, clock, node } = this.#options;
    const time = storeTime(store, clock);
    const untilMs = performance.now() + otherNodeMaxMs;
    const { updated_at_ms: beforeMs } = await this.#settled(id);
    for (;;) {
      if (await store.transaction((tx) => beginUndo(tx, id, { node, time })))
        return this.#undoHere(id, { by, beforeMs });
      const outcome = outcomeSince(await this.#settled(id), beforeMs);
      if (outcome !== undefined) return outcome;
      if (performance.now() > untilMs)
        throw new CallerError('conflict', `another process is undoing import ${id}: look at it in a minute`, {
          id,
        });
      await delay(pollMs);
    }
  }

  async #undoHere(id: string, { by, beforeMs }: { by: UndoneBy; beforeMs: number }): Promise<UndoneObjects> {
    const { store, node } = this.#options;
    try {
      const row = await this.#settled(id);
      return outcomeSince(row, beforeMs) ?? (await undoImport(this.#options, row, by));
    } finally {
      await store.transaction((tx) => endUndo(tx, id, node));
    }
  }

  async #settled(id: string): Promise<ImportRow> {
    const row = await findImport(this.#options.store.read, id);
    if (row === undefined) throw new CallerError('not_found', `no import ${JSON.stringify(id)}`, { id });
    if (row.state === 'waiting' || row.state === 'running')
      throw new CallerError('conflict', `import ${id} is under way: undo it when it is done`, { id });
    return row;
  }
}

/** The outcome of an undo that ended after the row was last changed at this time; undefined: none did. */
function outcomeSince(
  { state, updated_at_ms, summary }: ImportRow,
  beforeMs: number,
): UndoneObjects | undefined {
  if (state !== 'undone' || Number(updated_at_ms) === Number(beforeMs)) return undefined;
  const { removed = 0, kept = [] } = JSON.parse(summary) as ImportSummary;
  return { removed, kept };
}
