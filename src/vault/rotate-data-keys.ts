import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import type { KeyRotationTable } from '#storage/tables/account-tables.ts';
import {
  deleteDataKey,
  findDataKey,
  findNewestDataKey,
  listKeyOwners,
  listKeysOf,
  newestKeyTimeMs,
  setRetired,
} from './data-key-store.ts';
import { findRotation, finishRotation, putRotation } from './key-rotation-store.ts';
import { listSealedCells, replaceSealedCell, type SealedCell } from './sealed-cell-store.ts';
import { type SealedColumn, sealedColumns } from './sealed-columns.ts';
import { addDataKey } from './sealed-values.ts';
import { type DataKey, keyIdOf, type Vault } from './vault.ts';

/** Cells read, and sealed anew, at once. */
const pageRows = 100;
/** Owners looked at in one transaction. */
const ownerPageRows = 100;
/** A pass that finds nothing to do is the last one; with others writing all the time, so is this one. */
const passesMax = 5;
/** A process may have read a value before the rotation and store it after: no change takes this long. */
const retiredMs = 60 * 60 * 1000;

export interface DataRotationTools {
  store: Store;
  vault: Vault;
  clock: Clock;
  /** Told of each step when it is durable. */
  progress(line: string): void;
}

export interface DataRotation {
  ownerId: string | null;
  newKeys: number;
  resealed: number;
  /** Keys that seal nothing any more: a rotation an hour later removes them. */
  retired: number;
  removed: number;
  /** Values that could not be opened: left as they were, with their keys. */
  unopened: string[];
}

/**
 * Gives each owner (or one) a new data key, and seals everything under older ones anew. It may be interrupted anywhere;
 * called again it goes on. Other processes may work meanwhile: a row is changed only if it still is what was read, and
 * old keys stay until nothing has needed them for an hour.
 * Throws CallerError `not_found` for an owner without data keys, `conflict` while one for other owners is unfinished.
 */
export async function rotateDataKeys(
  tools: DataRotationTools,
  ownerId: string | null,
): Promise<DataRotation> {
  const { store, clock, progress } = tools;
  const rotation = await begin(tools, ownerId);
  const newKeys = await addNewKeys(tools, rotation);
  const sealing = new Resealing(tools, ownerId);
  for (let pass = 1; pass <= passesMax; pass += 1) if ((await sealing.pass()) === 0) break;
  const ended = await retireOldKeys(tools, { ownerId, isUsed: (key) => sealing.isUsed(key) });
  await store.transaction((tx) => finishRotation(tx, 'data', clock.now()));
  progress('finished');
  return { ownerId, newKeys, resealed: sealing.resealed, ...ended, unopened: sealing.unopened };
}

async function begin(
  { store, clock, progress }: DataRotationTools,
  ownerId: string | null,
): Promise<KeyRotationTable> {
  if (ownerId !== null && (await findNewestDataKey(store.read, ownerId)) === undefined)
    throw new CallerError('not_found', `nothing is sealed for ${JSON.stringify(ownerId)}`);
  const { rotation, isNew } = await store.transaction(async (tx) => {
    const found = await findRotation(tx, 'data');
    if (found !== undefined && found.finished_at_ms === null) {
      if (found.owner_id === ownerId) return { rotation: found, isNew: false };
      const scope = found.owner_id === null ? 'without --owner' : `with --owner ${found.owner_id}`;
      throw new CallerError('conflict', `a rotation of data keys was interrupted: finish it first, ${scope}`);
    }
    const row = {
      kind: 'data',
      key_id: '',
      owner_id: ownerId,
      // Later than every key there is, also those that another clock dates.
      started_at_ms: Math.max(clock.now(), (await newestKeyTimeMs(tx)) + 1),
      finished_at_ms: null,
    };
    await putRotation(tx, row);
    return { rotation: row, isNew: true };
  });
  progress(isNew ? 'the rotation has begun' : 'going on with the rotation');
  return rotation;
}

/** A new key for each owner whose newest one is older than the rotation. */
async function addNewKeys(tools: DataRotationTools, rotation: KeyRotationTable): Promise<number> {
  const { store, vault, progress } = tools;
  // Never before the rotation, or the owner would get another one when it goes on.
  const clock = { now: () => Math.max(tools.clock.now(), rotation.started_at_ms) };
  let made = 0;
  for await (const owners of keyOwners(store.read, rotation.owner_id)) {
    made += await store.transaction(async (tx) => {
      let added = 0;
      for (const ownerId of owners) {
        const newest = await findNewestDataKey(tx, ownerId);
        if (newest !== undefined && newest.createdAtMs >= rotation.started_at_ms) continue;
        await addDataKey(tx, { vault, clock }, ownerId);
        added += 1;
      }
      return added;
    });
    progress(`made ${made} data keys`);
  }
  return made;
}

async function* keyOwners(db: Db, ownerId: string | null): AsyncGenerator<string[]> {
  if (ownerId !== null) return yield [ownerId];
  for (let owners = await listKeyOwners(db, '', ownerPageRows); owners.length > 0; ) {
    yield owners;
    owners = await listKeyOwners(db, owners.at(-1) ?? '', ownerPageRows);
  }
}

/** Goes through everything sealed, and keeps count. */
class Resealing {
  resealed = 0;
  /** `table.column of key`, of the last pass. */
  unopened: string[] = [];
  readonly #tools: DataRotationTools;
  readonly #ownerId: string | null;
  /** `owner key` of what sealed texts named in the last pass. */
  #used = new Set<string>();

  constructor(tools: DataRotationTools, ownerId: string | null) {
    this.#tools = tools;
    this.#ownerId = ownerId;
  }

  /** Whether a text was still sealed with this key when it was last looked at. */
  isUsed({ ownerId, keyId }: Pick<DataKey, 'ownerId' | 'keyId'>): boolean {
    return this.#used.has(`${ownerId} ${keyId}`);
  }

  /** Answers how many cells were not under the newest key of their owner. */
  async pass(): Promise<number> {
    const { store, progress } = this.#tools;
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
        progress(`sealed ${this.resealed} values anew`);
      } while (cells.length === pageRows);
    }
    return found;
  }

  async #resealPage(column: SealedColumn, cells: readonly SealedCell[]): Promise<number> {
    const keys = new KeysOfPage(this.#tools.store.read);
    const changes: { cell: SealedCell; content: string }[] = [];
    for (const cell of cells) {
      const content = await this.#reseal(column, cell, keys);
      if (content !== cell.content) changes.push({ cell, content });
    }
    if (changes.length === 0) return 0;
    this.resealed += await this.#tools.store.transaction(async (tx) => {
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
      for (const id of olds.keys()) this.#used.add(`${ownerId} ${id}`);
      if (newest === undefined) return content;
      return column.map(content, cell.key.at(-1) ?? '', (objectId, sealed) => {
        const id = keyIdOf(sealed) ?? '';
        if (id === newest.keyId) return sealed;
        const old = olds.get(id);
        if (old === undefined) throw new UnavailableError('sealed_value_damaged', 'its data key is missing');
        return this.#tools.vault.seal(newest, objectId, this.#tools.vault.open(old, objectId, sealed));
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

/**
 * Marks keys that nothing is sealed with, and removes those that have been marked for an hour. A key that somebody
 * sealed with again begins anew.
 */
async function retireOldKeys(
  { store, clock, progress }: DataRotationTools,
  options: { ownerId: string | null; isUsed: (key: Pick<DataKey, 'ownerId' | 'keyId'>) => boolean },
): Promise<Pick<DataRotation, 'retired' | 'removed'>> {
  let [retired, removed] = [0, 0];
  for await (const owners of keyOwners(store.read, options.ownerId)) {
    const nowMs = clock.now();
    const changed = await store.transaction(async (tx) => {
      const counts = { retired: 0, removed: 0 };
      for (const ownerId of owners) {
        const newest = await findNewestDataKey(tx, ownerId);
        for (const key of await listKeysOf(tx, ownerId)) {
          const { keyId, retiredAtMs } = key;
          if (keyId === newest?.keyId) continue;
          const isUsed = options.isUsed({ ownerId, keyId });
          if (!isUsed && retiredAtMs !== null && retiredAtMs < nowMs - retiredMs) {
            await deleteDataKey(tx, { ownerId, keyId });
            counts.removed += 1;
          } else if (isUsed === (retiredAtMs !== null)) {
            await setRetired(tx, { ownerId, keyId }, isUsed ? null : nowMs);
            counts.retired += isUsed ? 0 : 1;
          }
        }
      }
      return counts;
    });
    retired += changed.retired;
    removed += changed.removed;
    progress(`retired ${retired} and removed ${removed} old data keys`);
  }
  return { retired, removed };
}
