import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Db, Tx } from '#storage/store.ts';
import { findDataKey, findNewestDataKey, hasDataKeys, insertDataKey } from './data-key-store.ts';
import { holdMasterKey, insertMasterKeyId } from './key-rotation-store.ts';
import { type DataKey, keyIdOf, type Vault } from './vault.ts';

export interface SealOptions {
  vault: Vault;
  clock: Clock;
}

/** Seals a JSON object for the object `id` of an owner, under the owner's newest data key. */
export async function sealObject(
  tx: Tx,
  { vault, clock }: SealOptions,
  secret: { ownerId: string; id: string; value: Record<string, unknown> },
): Promise<string> {
  const key = await sealingKey(tx, { vault, clock }, secret.ownerId);
  return vault.seal(key, secret.id, secret.value);
}

async function sealingKey(tx: Tx, options: SealOptions, ownerId: string): Promise<DataKey> {
  return (await findNewestDataKey(tx, ownerId)) ?? (await addDataKey(tx, options, ownerId));
}

/** What `sealObject` sealed. Throws UnavailableError `wrong_encryption_key` or `sealed_value_damaged`. */
export async function openObject(
  db: Db,
  vault: Vault,
  { ownerId, id, sealed }: { ownerId: string; id: string; sealed: string },
): Promise<Record<string, unknown>> {
  const key = await findDataKey(db, ownerId, keyIdOf(sealed) ?? '');
  if (key === undefined) throw keyMissing(id);
  return vault.open(key, id, sealed);
}

/** Seals any JSON value, such as the secret prop of a source. */
export async function sealValue(
  tx: Tx,
  options: SealOptions,
  secret: { ownerId: string; id: string; value: unknown },
): Promise<string> {
  return sealObject(tx, options, { ...secret, value: { value: secret.value } });
}

/** As `sealValue`, for several objects of an owner: the data key is read once. Returns the sealed texts by the ids of their objects. */
export async function sealValues(
  tx: Tx,
  options: SealOptions,
  { ownerId, secrets }: { ownerId: string; secrets: readonly { id: string; value: unknown }[] },
): Promise<Map<string, string>> {
  if (secrets.length === 0) return new Map();
  const key = await sealingKey(tx, options, ownerId);
  return new Map(secrets.map(({ id, value }) => [id, options.vault.seal(key, id, { value })]));
}

/** What `sealValue` sealed. Throws as `openObject` does. */
export async function openValue(
  db: Db,
  vault: Vault,
  secret: { ownerId: string; id: string; sealed: string },
): Promise<unknown> {
  return (await openObject(db, vault, secret)).value;
}

/** What `sealValue` sealed for several objects of an owner, by their ids: each data key is read once. Throws as `openObject` does. */
export async function openValues(
  db: Db,
  vault: Vault,
  { ownerId, secrets }: { ownerId: string; secrets: readonly { id: string; sealed: string }[] },
): Promise<Map<string, unknown>> {
  const keys = new Map<string, DataKey>();
  for (const keyId of new Set(secrets.map(({ sealed }) => keyIdOf(sealed) ?? ''))) {
    const key = await findDataKey(db, ownerId, keyId);
    if (key !== undefined) keys.set(keyId, key);
  }
  return new Map(
    secrets.map(({ id, sealed }) => {
      const key = keys.get(keyIdOf(sealed) ?? '');
      if (key === undefined) throw keyMissing(id);
      return [id, vault.open(key, id, sealed).value];
    }),
  );
}

function keyMissing(id: string): UnavailableError {
  return new UnavailableError('sealed_value_damaged', `the data key of the credentials of ${id} is missing`);
}

/**
 * Gives an owner a new data key, which seals from now on; what older ones sealed still opens. Throws UnavailableError
 * `wrong_encryption_key` when the store has been moved to another master key, or is being moved: from then on no process may look
 * for keys under this one.
 */
export async function addDataKey(tx: Tx, { vault, clock }: SealOptions, ownerId: string): Promise<DataKey> {
  await insertMasterKeyId(tx, vault.masterKeyId, clock.now());
  if (!(await holdMasterKey(tx, vault.masterKeyId))) {
    throw new UnavailableError(
      'wrong_encryption_key',
      `the store no longer uses the configured encryption key (${vault.masterKeyId}); nothing was changed`,
    );
  }
  const newest = await findNewestDataKey(tx, ownerId);
  const key = vault.newDataKey(ownerId);
  // The youngest seals, also when the clock of this process is behind that of the one that made the last key.
  await insertDataKey(tx, key, Math.max(clock.now(), (newest?.createdAtMs ?? 0) + 1));
  return key;
}

/** True when a text was ever sealed in this store. A new master key must not be made then. */
export function hasSealedValues(db: Db): Promise<boolean> {
  return hasDataKeys(db);
}
