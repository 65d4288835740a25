import { UnavailableError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import { findDataKey, findNewestDataKey } from './data-key-store.ts';
import { listSealedCells, replaceSealedCell, type SealedCell } from './sealed-cell-store.ts';
import { type SealedColumn, sealedColumns } from './sealed-columns.ts';
import { type DataKey, keyIdOf, type Vault } from './vault.ts';

/** Cells read, and resealed, in one round. */
const pageRows = 100;

export interface ResealOptions {
  store: Store;
  vault: Vault;
  /** Called for each step when it is durable. */
  progress(line: string): void;
}

/** Goes through everything sealed, and keeps count. */
export class Resealing {
  resealed = 0;
  /** `table.column of key`, of the last pass. */
  unopened: string[] = [];
  readonly #options: ResealOptions;
  readonly #ownerId: string | null;
  /** `owner key` of what sealed texts named in the last pass. */
  #used = new Set<string>();
  /** In all looks together: a reader may have read a text just before it was resealed. */
  readonly #everUsed = new Set<string>();

  constructor(options: ResealOptions, ownerId: string | null) {
    this.#options = options;
    this.#ownerId = ownerId;
  }

  /** True when a text was sealed with this key at the last look. */
  isUsed({ ownerId, keyId }: Pick<DataKey, 'ownerId' | 'keyId'>): boolean {
    return this.#used.has(`${ownerId} ${keyId}`);
  }

  /** True when a text was sealed with this key at any time of this rotation. */
  wasUsed({ ownerId, keyId }: Pick<DataKey, 'ownerId' | 'keyId'>): boolean {
    return this.#everUsed.has(`${ownerId} ${keyId}`);
  }

  /** Returns the number of cells that were not under the newest key of their owner. */
  async pass(): Promise<number> {
    const { store, progress } = this.#options;
    this.#used = new Set();
    this.unopened = [];
    let found = 0;
    for (const column of sealedColumns) {
      let cells: SealedCell[] = [];
      do {
        const after = cells.at(-1)?.key;
        cells = await listSealedCells(store.read, column, { after, ownerId: this.#ownerId, limit: pageRows });
        const changed = await this.#resealPage(column, cells);
        if (changed === 0) continue;
        found += changed;
        progress(`resealed ${this.resealed} values`);
      } while (cells.length === pageRows);
    }
    return found;
  }

  async #resealPage(column: SealedColumn, cells: readonly SealedCell[]): Promise<number> {
    const keys = new KeysOfPage(this.#options.store.read);
    const changes: { cell: SealedCell; content: string }[] = [];
    for (const cell of cells) {
      const content = await this.#reseal(column, cell, keys);
      if (content !== cell.content) changes.push({ cell, content });
    }
    if (changes.length === 0) return 0;
    this.resealed += await this.#options.store.transaction(async (tx) => {
      let replaced = 0;
      for (const { cell, content } of changes)
        replaced += (await replaceSealedCell(tx, column, cell, content)) ? 1 : 0;
      return replaced;
    });
    return changes.length;
  }

  /** The content under the newest key; as it is when it already is, or cannot be opened. */
  async #reseal(column: SealedColumn, cell: SealedCell, keys: KeysOfPage): Promise<string> {
    const { ownerId, content } = cell;
    const newest = await keys.newest(ownerId);
    const olds = new Map<string, DataKey | undefined>();
    try {
      const texts: string[] = [];
      column.map(content, cell.key.at(-1) ?? '', (_objectId, sealed) => {
        texts.push(sealed);
        return sealed;
      });
      for (const id of texts.map(keyIdOf)) if (id !== undefined) olds.set(id, await keys.find(ownerId, id));
      for (const id of olds.keys()) {
        this.#used.add(`${ownerId} ${id}`);
        this.#everUsed.add(`${ownerId} ${id}`);
      }
      if (newest === undefined) return content;
      return column.map(content, cell.key.at(-1) ?? '', (objectId, sealed) => {
        const id = keyIdOf(sealed) ?? '';
        if (id === newest.keyId) return sealed;
        const old = olds.get(id);
        if (old === undefined) throw new UnavailableError('sealed_value_damaged', 'its data key is missing');
        return this.#options.vault.seal(newest, objectId, this.#options.vault.open(old, objectId, sealed));
      });
    } catch (error) {
      // What cannot be opened is lost already; the rest of the store must not wait for it.
      const isLost = error instanceof UnavailableError && error.code === 'sealed_value_damaged';
      if (!isLost && !(error instanceof SyntaxError)) throw error;
      this.unopened.push(`${column.table}.${column.column} of ${cell.key.join(' ')}`);
      return content;
    }
  }
}

/** The data keys that the cells of one page need, each read once. */
class KeysOfPage {
  readonly #db: Db;
  readonly #newest = new Map<string, DataKey | undefined>();
  readonly #found = new Map<string, DataKey | undefined>();

  constructor(db: Db) {
    this.#db = db;
  }

  async newest(ownerId: string): Promise<DataKey | undefined> {
    if (!this.#newest.has(ownerId)) this.#newest.set(ownerId, await findNewestDataKey(this.#db, ownerId));
    return this.#newest.get(ownerId);
  }

  async find(ownerId: string, keyId: string): Promise<DataKey | undefined> {
    const name = `${ownerId} ${keyId}`;
    if (!this.#found.has(name)) this.#found.set(name, await findDataKey(this.#db, ownerId, keyId));
    return this.#found.get(name);
  }
}
