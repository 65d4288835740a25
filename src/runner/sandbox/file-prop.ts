import fs from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { checkPath, type FileStore, FolderClient, makeFileStore, StoredFile } from './file-client.ts';
import type { HostCallFunction } from './host-calls.ts';
import type { ResolvedProp } from './prop-definitions.ts';

type Access = 'read' | 'write' | 'read-write';

/** Maximum files that are copied in one direction, and maximum entries of `/tmp` that are read for it. */
const syncedFilesMax = 10_000;

/** `this.<prop>` of type `dir`: the files of the stash in its value (a stash ID or `{ id }`), otherwise the project's. */
export function makeDir(
  name: string,
  definition: ResolvedProp,
  value: unknown,
  hostCall: HostCallFunction,
): FileStore {
  return makeFileStore(hostCall, {
    folder: stashOf(value) ?? 'files',
    access: accessOf(definition),
    where: `this.${name}`,
  });
}

/**
 * Copies the files of every `dir` prop with `sync: true` and a stash as its value into `/tmp`. Returns a function that copies new or changed
 * files back. Called around `run` of a step, in the async context of the call, so that `/tmp` belongs to the run:
 *
 *     const syncOut = await syncIn(props, values, ask);
 *     const result = await run.call(context, …);
 *     await syncOut();
 *
 * A run that throws copies nothing back. Without such a prop no host call is made and nothing is read. A prop without a value is not
 * synchronized, because `/tmp` may hold files that are not meant to be stored.
 */
export async function syncIn(
  props: readonly [name: string, definition: ResolvedProp][],
  values: Record<string, unknown>,
  hostCall: HostCallFunction,
  local = '/tmp',
): Promise<() => Promise<void>> {
  const synced: { client: FolderClient; access: Access }[] = [];
  for (const [name, definition] of props) {
    if (definition.type !== 'dir' || definition.sync !== true) continue;
    const folder = stashOf(values[name]);
    const access = accessOf(definition);
    if (folder !== undefined)
      synced.push({ client: new FolderClient(hostCall, folder, 'read-write', `this.${name}`), access });
  }
  if (synced.length === 0) return () => Promise.resolve();
  for (const { client, access } of synced) if (access !== 'write') await bringIn(client, local);
  const before = await localFiles(local);
  return async () => {
    const changed = [...(await localFiles(local))].filter(([path, state]) => before.get(path) !== state);
    for (const { client, access } of synced) {
      if (access === 'read') continue;
      for (const [path] of changed) await new StoredFile(client, path).fromFile(`${local}/${path}`);
    }
  };
}

async function bringIn(client: FolderClient, localFolder: string): Promise<void> {
  let count = 0;
  for await (const { path } of client.allBelow('')) {
    count += 1;
    if (count > syncedFilesMax) throw tooMany(`the folder ${client.folder} has`);
    const target = `${localFolder}/${checkPath(path, client.folder)}`;
    await fs.promises.mkdir(dirname(target), { recursive: true });
    await pipeline(await new StoredFile(client, path).createReadStream(), fs.createWriteStream(target));
  }
}

/** Regular files below `/tmp` by relative path, each with a text that changes when the file does. */
async function localFiles(localFolder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const folders = [''];
  let entries = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const name of await namesIn(`${localFolder}/${folder}`)) {
      entries += 1;
      if (entries > syncedFilesMax) throw tooMany(`${localFolder} has`);
      const path = folder + name;
      const state = await fs.promises.lstat(`${localFolder}/${path}`).catch(ignoreMissing);
      // Links are ignored, because their targets may not belong to this run.
      if (state?.isDirectory()) folders.push(`${path}/`);
      else if (state?.isFile())
        found.set(path, `${state.ino} ${state.size} ${state.mtimeMs} ${state.ctimeMs}`);
    }
  }
  return found;
}

async function namesIn(folder: string): Promise<string[]> {
  return (await fs.promises.readdir(folder).catch(ignoreMissing)) ?? [];
}

/** Ignores missing files: code may remove them at any moment, and `/tmp` is created when it is first used. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

function tooMany(what: string): Error {
  return new Error(`${what} more than ${syncedFilesMax} files, too many to be mirrored`);
}

function stashOf(value: unknown): string | undefined {
  if (value === true) return 'files';
  const id = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value;
  return typeof id === 'string' && id !== '' ? id : undefined;
}

function accessOf(definition: ResolvedProp): Access {
  const mode = definition.accessMode;
  return mode === 'read' || mode === 'write' ? mode : 'read-write';
}
