import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import { hasDataKeys, masterKeyIdsInUse } from './data-key-store.ts';
import {
  findRotation,
  holdMasterKey,
  insertMasterKeyId,
  lockRotation,
  putRotation,
} from './key-rotation-store.ts';
import { MasterKeyError } from './master-key.ts';
import type { Vault } from './vault.ts';

/**
 * Checks that all credentials of this store are sealed under this master key. Throws UnavailableError `wrong_encryption_key`
 * when one needs another key, MasterKeyError while the store is between two keys. Changes nothing.
 */
export async function checkMasterKey(db: Db, vault: Vault): Promise<void> {
  const rotation = await findRotation(db, 'master');
  if (rotation !== undefined && rotation.finished_at_ms === null) {
    throw new MasterKeyError(
      'a rotation of the master key is under way or was interrupted; no credential is lost. Finish it with ' +
        '`npm run millrace -- keys rotate-master` and the same keys, then start again',
    );
  }
  const needed = new Set(await masterKeyIdsInUse(db));
  // Also where no text names a key: what is damaged does not make another key the right one.
  if (rotation !== undefined && (await hasDataKeys(db))) needed.add(rotation.key_id);
  needed.delete(vault.masterKeyId);
  if (needed.size > 0) throw wrongKey([...needed], vault);
}

/** For the start of the service: as `checkMasterKey`, and from then on the store knows its master key. */
export async function takeMasterKey(store: Store, vault: Vault, clock: Clock): Promise<void> {
  await checkMasterKey(store.read, vault);
  const nowMs = clock.now();
  await store.transaction(async (tx) => {
    await insertMasterKeyId(tx, vault.masterKeyId, nowMs);
    if (await holdMasterKey(tx, vault.masterKeyId)) return;
    await lockRotation(tx, 'master');
    await checkMasterKey(tx, vault);
    // It was started with another key before, and nothing was sealed under that.
    await putRotation(tx, {
      kind: 'master',
      key_id: vault.masterKeyId,
      owner_id: null,
      started_at_ms: nowMs,
      finished_at_ms: nowMs,
    });
  });
}

export function wrongKey(needed: readonly string[], vault: Vault): UnavailableError {
  return new UnavailableError(
    'wrong_encryption_key',
    `the credentials were sealed under another encryption key (${needed.join(', ')}) than the one configured ` +
      `(${vault.masterKeyId}); nothing was changed. Start with the key they were sealed under`,
  );
}
