import { databaseTimeMs, listLiveNodes } from '#jobs/node-store.ts';
import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { wrongKey } from './check-master-key.ts';
import { listWrappedByOthers, masterKeyIdsInUse, updateWrapped } from './data-key-store.ts';
import {
  findRotation,
  finishRotation,
  insertMasterKeyId,
  lockRotation,
  putRotation,
} from './key-rotation-store.ts';
import {
  createKeyFile,
  keyFilePath,
  keyOfSetting,
  loadMasterKey,
  MasterKeyError,
  nextKeyFilePath,
  readKeyFile,
  replaceKeyFile,
} from './master-key.ts';
import { keyIdOf, lostMark, Vault } from './vault.ts';

/** Data keys rewrapped in one transaction. */
const batchRows = 200;

export interface MasterRotationOptions {
  store: Store;
  clock: Clock;
  keys: MasterKeySettings;
  /** Called for each step when it is durable. */
  progress(line: string): void;
}

export interface MasterKeySettings {
  /** MILLRACE_ENCRYPTION_KEY; empty: the key file. */
  encryptionKey: string;
  /** MILLRACE_NEW_ENCRYPTION_KEY; empty: a key file is made. */
  newEncryptionKey: string;
  dataFolder: string;
}

export interface MasterRotation {
  masterKeyId: string;
  rewrapped: number;
  /** Data keys that the old master key did not open: left as they were, but for a mark. */
  lost: { ownerId: string; keyId: string }[];
  /** What remains to be done, and where the old key is. */
  next: string[];
}

/** The keys that can be had. `current` is what a start of the service would use. */
interface KeysAtHand {
  current: Vault;
  next: Vault | undefined;
}

/**
 * Moves the store to another master key: every data key is wrapped by the new one, in batches, and the key files are
 * swapped. It may be interrupted anywhere; called again with the same keys it continues. Until it is finished, the service
 * does not start, and no process of it may run: it would hold the old key.
 * Throws MasterKeyError, or UnavailableError `wrong_encryption_key`, before anything is changed when keys do not fit.
 */
export async function rotateMasterKey(options: MasterRotationOptions): Promise<MasterRotation> {
  const { store, clock, progress } = options;
  await refuseLiveNodes(store);
  const target = await begin(options);
  if (target.isDone) {
    return {
      masterKeyId: target.to.masterKeyId,
      rewrapped: 0,
      lost: [],
      next: whatIsNext(options.keys, undefined),
    };
  }
  // Checked again: the row of the rotation keeps nodes from starting, but one may have started just before that row was written.
  await refuseLiveNodes(store);
  const { rewrapped, lost } = await rewrapAll(options, target);
  const kept = await swapFiles(options, target);
  await store.transaction(async (tx) => {
    await lockRotation(tx, 'master');
    const left = (await masterKeyIdsInUse(tx)).filter((id) => id !== target.to.masterKeyId);
    if (left.length > 0)
      throw new MasterKeyError(`data keys under ${left.join(', ')} appeared: run it again`);
    await finishRotation(tx, 'master', clock.now());
  });
  progress('finished');
  return { masterKeyId: target.to.masterKeyId, rewrapped, lost, next: whatIsNext(options.keys, kept) };
}

interface Target {
  to: Vault;
  /** Undefined: only the new key is at hand. */
  from: Vault | undefined;
  /** An earlier call finished it. */
  isDone: boolean;
}

/** Continues an interrupted rotation, or begins one. */
async function begin(options: MasterRotationOptions): Promise<Target> {
  const { store, clock, keys, progress } = options;
  const found = await findRotation(store.read, 'master');
  const { current, next } = await keysAtHand(keys);
  if (found !== undefined && found.finished_at_ms === null) {
    const to = [current, next].find((vault) => vault?.masterKeyId === found.key_id);
    if (to === undefined) {
      throw new MasterKeyError(
        `a rotation to the master key ${found.key_id} was interrupted, and that key is not here: give it as ` +
          'MILLRACE_NEW_ENCRYPTION_KEY, or bring back its file',
      );
    }
    progress(`continuing the rotation to ${found.key_id}`);
    return { to, from: to === current ? undefined : current, isDone: false };
  }
  if (next?.masterKeyId === current.masterKeyId)
    throw new MasterKeyError('MILLRACE_NEW_ENCRYPTION_KEY is the key that is in use');
  if (found !== undefined && next?.masterKeyId === found.key_id)
    return { to: next, from: current, isDone: true };
  const inUse = new Set(await masterKeyIdsInUse(store.read));
  if (found !== undefined) inUse.add(found.key_id);
  inUse.delete(current.masterKeyId);
  if (inUse.size > 0) throw wrongKey([...inUse], current);
  const to = next ?? (await makeNextKey(keys));
  progress(`the new key ${to.masterKeyId} is there`);
  const nowMs = clock.now();
  await store.transaction(async (tx) => {
    await insertMasterKeyId(tx, current.masterKeyId, nowMs);
    await lockRotation(tx, 'master');
    const now = await findRotation(tx, 'master');
    if (now?.key_id !== current.masterKeyId || now.finished_at_ms === null)
      throw new MasterKeyError('another rotation of the master key began at the same moment');
    await putRotation(tx, { ...now, key_id: to.masterKeyId, started_at_ms: nowMs, finished_at_ms: null });
  });
  progress(`the rotation from ${current.masterKeyId} to ${to.masterKeyId} has begun`);
  return { to, from: current, isDone: false };
}

async function keysAtHand({
  encryptionKey,
  newEncryptionKey,
  dataFolder,
}: MasterKeySettings): Promise<KeysAtHand> {
  const current = await loadMasterKey({ setting: encryptionKey, dataFolder, mayCreate: false });
  const next =
    newEncryptionKey !== ''
      ? keyOfSetting(newEncryptionKey, 'MILLRACE_NEW_ENCRYPTION_KEY')
      : encryptionKey === ''
        ? await readKeyFile(nextKeyFilePath(dataFolder))
        : undefined;
  return { current: new Vault(current), next: next === undefined ? undefined : new Vault(next) };
}

async function makeNextKey({ encryptionKey, dataFolder }: MasterKeySettings): Promise<Vault> {
  if (encryptionKey !== '') {
    throw new MasterKeyError(
      'the key in use is in MILLRACE_ENCRYPTION_KEY: give the new one as MILLRACE_NEW_ENCRYPTION_KEY, such as the ' +
        'output of `openssl rand -base64 32`',
    );
  }
  const path = nextKeyFilePath(dataFolder);
  await createKeyFile(path);
  const key = await readKeyFile(path);
  if (key === undefined) throw new MasterKeyError(`${path} was removed while it was being made`);
  return new Vault(key);
}

async function rewrapAll(
  { store, progress }: MasterRotationOptions,
  { to, from }: Target,
): Promise<Pick<MasterRotation, 'rewrapped' | 'lost'>> {
  const lost: MasterRotation['lost'] = [];
  let seen = 0;
  for (;;) {
    // Rewrapped keys are not found again, and no process can add keys under the old one: the row of the rotation keeps them off.
    const batch = await listWrappedByOthers(store.read, to.masterKeyId, batchRows);
    if (batch.length === 0) return { rewrapped: seen - lost.length, lost };
    if (from === undefined) {
      throw new MasterKeyError(
        `the rotation to ${to.masterKeyId} was interrupted, and data keys still need the master key before it: give ` +
          'that as MILLRACE_ENCRYPTION_KEY and the new one as MILLRACE_NEW_ENCRYPTION_KEY',
      );
    }
    const changes = batch.map((key) => {
      const wrappedBy = keyIdOf(key.wrapped);
      if (wrappedBy !== undefined && wrappedBy !== from.masterKeyId) throw wrongKey([wrappedBy], from);
      try {
        return { was: key.wrapped, key: from.rewrap(key, to) };
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw toError(error);
        lost.push({ ownerId: key.ownerId, keyId: key.keyId });
        return { was: key.wrapped, key: { ...key, wrapped: `${lostMark}${key.wrapped}` } };
      }
    });
    await store.transaction(async (tx) => {
      for (const { key, was } of changes) await updateWrapped(tx, key, was);
    });
    seen += changes.length;
    progress(`rewrapped ${seen - lost.length} data keys`);
  }
}

/** Where the old key file is now; undefined when files play no part. */
async function swapFiles(
  { keys, progress }: MasterRotationOptions,
  { to, from }: Target,
): Promise<string | undefined> {
  if (keys.encryptionKey !== '' || keys.newEncryptionKey !== '' || from === undefined) return undefined;
  const kept = await replaceKeyFile(keys.dataFolder, from.masterKeyId);
  progress(`${keyFilePath(keys.dataFolder)} holds ${to.masterKeyId}`);
  return kept;
}

/** Those that run hold the old key, and would seal under it. */
async function refuseLiveNodes(store: Store): Promise<void> {
  // This process has the embedded store open, so no other has: a node that is still listed in it was killed.
  if (!store.isShared) return;
  const nodes = await listLiveNodes(store.read, await databaseTimeMs(store.read));
  if (nodes.length === 0) return;
  throw new MasterKeyError(
    `the service is running (${nodes.join(', ')}): stop every process of it first. One that was killed counts as running ` +
      'until its lease runs out (MILLRACE_NODE_LEASE, 15 seconds by default)',
  );
}

function whatIsNext(keys: MasterKeySettings, kept: string | undefined): string[] {
  const next: string[] = [];
  if (keys.newEncryptionKey !== '') {
    next.push(
      'Start the service with the new key as MILLRACE_ENCRYPTION_KEY, and without MILLRACE_NEW_ENCRYPTION_KEY.',
    );
    if (keys.encryptionKey === '') next.push(`${keyFilePath(keys.dataFolder)} still holds the old key.`);
  } else {
    next.push(`Keep a backup of ${keyFilePath(keys.dataFolder)} elsewhere.`);
  }
  if (kept !== undefined) next.push(`The old key is in ${kept}.`);
  next.push('Backups of the database made before need the old key: keep it as long as you keep those.');
  return next;
}
