import { type Dirent, statSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';

/** What an import is given: an archive or a bundle as it is, or the files of a folder. */
export type ProjectContent = { bytes: Buffer } | { files: Record<string, string> };

/** As the service allows (src/http/routes/import-content.ts, src/imports/project-files.ts); more is said here before it is sent. */
export const archiveBytesMax = 64 * 1024 * 1024;
const filesBytesMax = 16 * 1024 * 1024;
/** Larger data is imported by no code. */
const dataBytesMax = 2 * 1024 * 1024;
const entriesMax = 20_000;

const skippedFolders = new Set(['.git', 'node_modules', '__MACOSX']);
const wantedName = /(?:^workflow\.ya?ml|^\.workflow\.state|\.(?:[mc]?[jt]s|json|py|sh|bash|go))$/;
/** Data that no code of a step imports. */
const unwantedName = /^(?:package(?:-lock)?|tsconfig)\.json$/;
const workflowName = /^workflow\.ya?ml$/;

const expected = 'Give a clone, a folder, a ZIP archive, or a bundle of --save.';

/** Reads a ZIP archive or a bundle, or from a folder what belongs to its workflows; links are not followed. */
export async function readProject(session: Session, path: string): Promise<ProjectContent> {
  const place = session.path(path);
  const found = statSync(place, { throwIfNoEntry: false });
  if (found === undefined) throw usageError(`there is nothing at ${place}`, expected);
  if (found.isDirectory()) return { files: await readFolder(place) };
  // A device or a pipe has no end.
  if (!found.isFile()) throw usageError(`${place} is neither a file nor a folder`, expected);
  const archive = await readAtMost(place, archiveBytesMax);
  if (archive === undefined)
    throw usageError(
      `${place} is larger than 64 MB`,
      'Give the folder, or an archive without .git and node_modules.',
    );
  if (!isZip(archive) && !isBundle(archive))
    throw usageError(`${place} is neither a ZIP archive nor a bundle`, expected);
  return { bytes: archive };
}

function isZip(bytes: Buffer): boolean {
  return bytes.subarray(0, 2).toString('latin1') === 'PK';
}

export function isBundle(bytes: Buffer): boolean {
  return /^\s*\{/.test(bytes.subarray(0, 100).toString('latin1'));
}

/** Undefined: the file has more bytes. */
async function readAtMost(file: string, bytesMax: number): Promise<Buffer | undefined> {
  await using handle = await open(file);
  const { size } = await handle.stat();
  if (size > bytesMax) return undefined;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of handle.createReadStream({ end: bytesMax })) {
    chunks.push(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  return bytes > bytesMax ? undefined : Buffer.concat(chunks);
}

async function readFolder(root: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  let entries = 0;
  let bytes = 0;
  const walk = async (path: string, isInWorkflow: boolean): Promise<void> => {
    const found: Dirent[] = await readdir(join(root, path), { withFileTypes: true });
    entries += found.length;
    if (entries > entriesMax)
      throw usageError(
        `${root} has more than ${entriesMax} files`,
        'Give the folder of the clone, or of one workflow.',
      );
    const isWorkflow = isInWorkflow || found.some((entry) => entry.isFile() && workflowName.test(entry.name));
    for (const entry of found.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      const inner = path === '' ? entry.name : `${path}/${entry.name}`;
      if (entry.isDirectory() && !skippedFolders.has(entry.name)) await walk(inner, isWorkflow);
      if (!entry.isFile() || !isWorkflow || !wantedName.test(entry.name) || unwantedName.test(entry.name))
        continue;
      const isData = entry.name.endsWith('.json');
      const content = await readAtMost(join(root, inner), isData ? dataBytesMax : filesBytesMax - bytes);
      if (content === undefined && isData) continue;
      if (content === undefined)
        throw usageError(
          `the workflows in ${root} are larger than 16 MB together`,
          'Import them folder by folder.',
        );
      bytes += content.length;
      files[inner] = content.toString('utf8');
    }
  };
  await walk('', false);
  return files;
}
