import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import type { KeyRotationTable } from '#storage/tables/account-tables.ts';
import {
  deleteDataKey,
  findNewestDataKey,
  listKeyOwners,
  listKeysOf,
  newestKeyTimeMs,
  setRetired,
} from './data-key-store.ts';
import { findRotation, finishRotation, putRotation } from './key-rotation-store.ts';
import { Resealing } from './resealing.ts';
import { addDataKey } from './sealed-values.ts';
import type { Vault } from './vault.ts';

/** Owners looked at in one transaction. */
const ownerPageRows = 100;
/** A pass that finds nothing to do is the last one; with others writing all the time, so is this one. */
const passesMax = 5;
/** A process may have read a value before the rotation and store it after: no change takes this long. */
const retiredMs = 60 * 60 * 1000;

export interface DataRotationOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  /** Called for each step when it is durable. */
  progress(line: string): void;
}

export interface DataRotation {
  ownerId: string | null;
  newKeys: number;
  resealed: number;
  /** Keys that no longer seal anything: a rotation an hour later removes them. */
  retired: number;
  removed: number;
  /** Values that could not be opened: left as they were, with their keys. */
  unopened: string[];
}

/**
 * Gives each owner (or one) a new data key, and reseals everything under older ones. It may be interrupted anywhere;
 * called again it continues. Other processes may work meanwhile: a row is changed only if it still is what was read, and
 * old keys stay until nothing has needed them for an hour.
 * Throws CallerError `not_found` for an owner without data keys, `conflict` while one for other owners is unfinished.
 */
export async function rotateDataKeys(
  options: DataRotationOptions,
  ownerId: string | null,
): Promise<DataRotation> {
  const { store, clock, progress } = options;
  const rotation = await begin(options, ownerId);
  const newKeys = await addNewKeys(options, rotation);
  const sealing = new Resealing(options, ownerId);
  for (let pass = 1; pass <= passesMax; pass += 1) if ((await sealing.pass()) === 0) break;
  const ended = await retireOldKeys(options, { ownerId, sealing });
  await store.transaction((tx) => finishRotation(tx, 'data', clock.now()));
  progress('finished');
  return { ownerId, newKeys, resealed: sealing.resealed, ...ended, unopened: sealing.unopened };
}

async function begin(
  { store, clock, progress }: DataRotationOptions,
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
    const row: KeyRotationTable = {
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
  progress(isNew ? 'the rotation has begun' : 'continuing the rotation');
  return rotation;
}

/** A new key for each owner whose newest one is older than the rotation. */
async function addNewKeys(options: DataRotationOptions, rotation: KeyRotationTable): Promise<number> {
  const { store, vault, progress } = options;
  // Never before the rotation, or the owner would get another one when the rotation continues.
  const clock = { now: () => Math.max(options.clock.now(), rotation.started_at_ms) };
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

/**
 * Marks keys that nothing is sealed with, and removes those that have been marked for an hour. The hour of a key
 * starts over when something was sealed with it again.
 */
async function retireOldKeys(
  { store, clock, progress }: DataRotationOptions,
  options: { ownerId: string | null; sealing: Resealing },
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
          const isUsed = options.sealing.isUsed({ ownerId, keyId });
          const wasUsed = options.sealing.wasUsed({ ownerId, keyId });
          if (isUsed) {
            if (retiredAtMs !== null) await setRetired(tx, { ownerId, keyId }, null);
          } else if (retiredAtMs === null || wasUsed) {
            await setRetired(tx, { ownerId, keyId }, nowMs);
            counts.retired += 1;
          } else if (retiredAtMs < nowMs - retiredMs) {
            await deleteDataKey(tx, { ownerId, keyId });
            counts.removed += 1;
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
