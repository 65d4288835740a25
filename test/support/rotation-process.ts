import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { openStore } from '#storage/open-store.ts';
import type { Store } from '#storage/store.ts';
import { loadMasterKey } from '#vault/master-key.ts';
import { rotateDataKeys } from '#vault/rotate-data-keys.ts';
import { rotateMasterKey } from '#vault/rotate-master-key.ts';
import { Vault } from '#vault/vault.ts';

/**
 * Rotates keys and kills itself (SIGKILL) at the n-th of the points where that could matter: after each step, and inside
 * each transaction before it commits. Arguments: master|data, data folder, database URL or nothing, n.
 */
const [kind = '', dataFolder = '', databaseUrl = '', diesAt = '0'] = process.argv.slice(2);

let points = 0;
function point(): void {
  points += 1;
  if (points === Number(diesAt)) process.kill(process.pid, 'SIGKILL');
}

const opened = await openStore({ databaseUrl, folder: dataFolder, logger: silentLogger });
const store: Store = {
  ...opened,
  transaction: (work) =>
    opened.transaction(async (tx) => {
      const result = await work(tx);
      point();
      return result;
    }),
};
const tools = { store, clock: systemClock, progress: point };
if (kind === 'master') {
  await rotateMasterKey({ ...tools, keys: { encryptionKey: '', newEncryptionKey: '', dataFolder } });
} else {
  const key = await loadMasterKey({ setting: '', dataFolder, mayCreate: false });
  await rotateDataKeys({ ...tools, vault: new Vault(key) }, null);
}
await opened.close();
