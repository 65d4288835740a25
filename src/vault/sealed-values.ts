import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Db, Tx } from '#storage/store.ts';
import { findAnyDataKey, findDataKey, findNewestDataKey, insertDataKey } from './data-key-store.ts';
import { type DataKey, keyIdOf, type Vault } from './vault.ts';

export interface SealTools {
  vault: Vault;
  clock: Clock;
}

/** Seals a JSON object for the object `id` of an owner, under the owner's newest data key. */
export async function sealObject(
  tx: Tx,
  { vault, clock }: SealTools,
  secret: { ownerId: string; id: string; value: Record<string, unknown> },
): Promise<string> {
  const key =
    (await findNewestDataKey(tx, secret.ownerId)) ?? (await addDataKey(tx, { vault, clock }, secret.ownerId));
  return vault.seal(key, secret.id, secret.value);
}

/** What `sealObject` sealed. Throws UnavailableError `wrong_encryption_key` or `sealed_value_damaged`. */
export async function openObject(
  db: Db,
  vault: Vault,
  { ownerId, id, sealed }: { ownerId: string; id: string; sealed: string },
): Promise<Record<string, unknown>> {
  const key = await findDataKey(db, ownerId, keyIdOf(sealed) ?? '');
  if (key === undefined) {
    throw new UnavailableError('sealed_value_damaged', `the data key of the credentials of ${id} is missing`);
  }
  return vault.open(key, id, sealed);
}

/** Seals any JSON value, such as the secret prop of a source. */
export async function sealValue(
  tx: Tx,
  tools: SealTools,
  secret: { ownerId: string; id: string; value: unknown },
): Promise<string> {
  return sealObject(tx, tools, { ...secret, value: { value: secret.value } });
}

/** What `sealValue` sealed. Throws as `openObject` does. */
export async function openValue(
  db: Db,
  vault: Vault,
  secret: { ownerId: string; id: string; sealed: string },
): Promise<unknown> {
  return (await openObject(db, vault, secret)).value;
}

/** Gives an owner a new data key, which seals from now on; what older ones sealed still opens. */
export async function addDataKey(tx: Tx, { vault, clock }: SealTools, ownerId: string): Promise<DataKey> {
  const key = vault.newDataKey(ownerId);
  await insertDataKey(tx, key, clock.now());
  return key;
}

/** Whether anything was ever sealed in this store: then the master key must not be made anew. */
export async function hasSealedValues(db: Db): Promise<boolean> {
  return (await findAnyDataKey(db)) !== undefined;
}

/** For the start of the service. Throws UnavailableError `wrong_encryption_key` when the store needs another key. */
export async function checkMasterKey(db: Db, vault: Vault): Promise<void> {
  const key = await findAnyDataKey(db);
  if (key !== undefined) vault.check(key);
}
