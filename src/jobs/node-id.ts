import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newId } from '#lib/ids.ts';

/**
 * A new id for this process among the nodes of a store, and the id of the process that had the data folder before: it is gone, whatever
 * its lease says, since this process holds the lock of the folder. Throws when the folder cannot be written to.
 */
export function nextNodeId(folder: string): { node: string; predecessor: string | undefined } {
  const file = join(folder, 'node');
  const node = newId('node');
  const predecessor = readId(file);
  writeFileSync(`${file}.new`, `${node}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return { node, predecessor };
}

function readId(file: string): string | undefined {
  try {
    const id = readFileSync(file, 'utf8').trim();
    return id === '' ? undefined : id;
  } catch {
    // The first start, or a folder that was emptied: then the lease of the process before this one runs out by itself.
    return undefined;
  }
}
