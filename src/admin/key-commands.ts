import type { Settings } from '#config/settings.ts';
import type { Db, Store } from '#storage/store.ts';
import { checkMasterKey } from '#vault/check-master-key.ts';
import { countDataKeys, masterKeyIdsInUse } from '#vault/data-key-store.ts';
import { findRotation } from '#vault/key-rotation-store.ts';
import { loadMasterKey, MasterKeyError } from '#vault/master-key.ts';
import { rotateDataKeys } from '#vault/rotate-data-keys.ts';
import { rotateMasterKey } from '#vault/rotate-master-key.ts';
import { Vault } from '#vault/vault.ts';
import { type AdminCommands, columnsOf, listedMax } from './admin-command-line.ts';

/** Commands about the keys that seal credentials. */
export const keyCommands: AdminCommands = {
  'keys status': {
    required: {},
    optional: {},
    summary: 'which master key the store is sealed under, data keys by owner, unfinished rotations',
    api: null,
    run: async ({ store, settings }) => {
      const data = await readStatus(store, settings);
      const { configured, configured_key: key, owners, unfinished } = data;
      return {
        data,
        lines: [
          `Master key of the store: ${data.master_key ?? 'none yet'}`,
          `Master key configured: ${key ?? configured}${key !== null && configured === 'other' ? ': not that of the store' : ''}`,
          ...(data.wrapped_by.length > 1 ? [`Data keys are wrapped by: ${data.wrapped_by.join(', ')}`] : []),
          ...unfinished.map(
            ({ command }) => `A rotation is unfinished; continue with: npm run millrace -- ${command}`,
          ),
          ...owners.map(({ owner_id, keys, retired, lost }) =>
            columnsOf(
              owner_id,
              `${keys} data ${keys === 1 ? 'key' : 'keys'}`,
              retired === 0 ? '' : `${retired} retired`,
              lost === 0 ? '' : `${lost} lost`,
            ),
          ),
        ],
      };
    },
  },
  'keys rotate-master': {
    required: {},
    optional: {},
    summary:
      'a new master key; no process of the service may run. To continue after an interruption, run it again',
    api: null,
    run: async ({ store, clock, settings, progress }) => {
      const { encryptionKey, newEncryptionKey, data: dataFolder } = settings;
      const keys = { encryptionKey, newEncryptionKey, dataFolder };
      const { masterKeyId, rewrapped, lost, next } = await rotateMasterKey({ store, clock, keys, progress });
      return {
        data: {
          master_key: masterKeyId,
          rewrapped,
          lost: lost.map(({ ownerId, keyId }) => ({ owner_id: ownerId, key_id: keyId })),
          next,
        },
        lines: [
          `The master key is ${masterKeyId} now; ${rewrapped} data keys were rewrapped.`,
          ...lost.map(
            ({ ownerId, keyId }) => `Data key ${keyId} of ${ownerId} is damaged, and was left as it is.`,
          ),
          ...next,
        ],
      };
    },
  },
  'keys rotate-data': {
    required: {},
    optional: { owner: '<u_… or o_…>' },
    summary: 'new data keys, and everything resealed. To continue after an interruption, run it again',
    api: null,
    run: async ({ store, clock, settings, progress }, { owner = null }) => {
      const vault = await configuredVault(settings);
      await checkMasterKey(store.read, vault);
      const done = await rotateDataKeys({ store, vault, clock, progress }, owner);
      const { newKeys, resealed, retired, removed, unopened } = done;
      return {
        data: { owner_id: owner, new_keys: newKeys, resealed, retired, removed, unopened },
        lines: [
          `${newKeys} data keys were made; ${resealed} values were resealed.`,
          `${retired} old keys are retired: a rotation an hour from now removes them. ${removed} were removed.`,
          ...unopened.map((place) => `Could not be opened, and was left as it is: ${place}`),
        ],
      };
    },
  },
};

async function configuredVault({ encryptionKey, data }: Settings): Promise<Vault> {
  return new Vault(await loadMasterKey({ setting: encryptionKey, dataFolder: data, mayCreate: false }));
}

async function readStatus(store: Store, settings: Settings) {
  const db = store.read;
  const master = await findRotation(db, 'master');
  const wrappedBy = await masterKeyIdsInUse(db);
  const configured = await configuredVault(settings).catch((error: unknown) => {
    if (!(error instanceof MasterKeyError)) throw error;
    return error;
  });
  const key = configured instanceof Vault ? configured.masterKeyId : null;
  const storeKey = master?.key_id ?? wrappedBy[0] ?? null;
  return {
    master_key: storeKey,
    configured_key: key,
    /** same | other | why there is none */
    configured: configured instanceof Vault ? (key === storeKey ? 'same' : 'other') : configured.message,
    wrapped_by: wrappedBy,
    unfinished: await unfinishedRotations(db),
    owners: (await countDataKeys(db, listedMax)).map(({ ownerId, ...counts }) => ({
      owner_id: ownerId,
      ...counts,
    })),
  };
}

async function unfinishedRotations(db: Db): Promise<{ command: string; started_at: number }[]> {
  const found = await Promise.all([findRotation(db, 'master'), findRotation(db, 'data')]);
  return found.flatMap((row) => {
    if (row === undefined || row.finished_at_ms !== null) return [];
    const owner = row.owner_id === null ? '' : ` --owner ${row.owner_id}`;
    return [{ command: `keys rotate-${row.kind}${owner}`, started_at: Math.floor(row.started_at_ms / 1000) }];
  });
}
