import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl';
import { must } from '#lib/assert.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';
import {
  checkPath,
  entriesMax,
  fileBytesMax,
  manifestPathOf,
  type ProjectFiles,
  projectBytesMax,
  refused,
  wantedPaths,
} from './project-files.ts';

/** Bits of the mode of a file, which some archivers write, that say what it is. */
const typeBits = 0o170000;
const symbolicLink = 0o120000;

/**
 * The files of a ZIP archive that a reader may ask for. Nothing else is decompressed, and no file is decompressed beyond the size that is
 * allowed, whatever the archive says of it. Throws CallerError `invalid_import` for archives that are damaged, too large or hostile.
 */
export async function readArchive(archive: Buffer): Promise<ProjectFiles> {
  try {
    return await readEntries(
      await fromBufferPromise(archive, { lazyEntries: true, validateEntrySizes: true }),
    );
  } catch (error) {
    if (error instanceof CallerError) throw error;
    const { message } = toError(error);
    if (/strong encryption/i.test(message)) throw encrypted('the archive');
    throw refused(`it cannot be read as a ZIP archive: ${message}`);
  }
}

async function readEntries(zip: ZipFile): Promise<ProjectFiles> {
  if (zip.entryCount > entriesMax)
    throw refused(
      `the archive has ${countText(zip.entryCount)} entries, expected at most ${countText(entriesMax)}: leave out .git and node_modules`,
    );
  const entries = new Map<string, Entry>();
  for await (const entry of zip.eachEntry()) {
    const path = entry.fileName;
    checkPath(path);
    // The mode is in the upper half, in archives that were made on Unix.
    if (((entry.externalFileAttributes >>> 16) & typeBits) === symbolicLink)
      throw refused(`${JSON.stringify(path)} is a symbolic link, expected files`);
    if (path.endsWith('/')) continue;
    if (entries.has(path)) throw refused(`the archive has ${JSON.stringify(path)} twice`);
    entries.set(path, entry);
  }
  const files = new Map<string, string>();
  let bytes = 0;
  const paths = wantedPaths([...entries.keys()]);
  const isExport = manifestPathOf(paths) !== undefined;
  for (const path of paths) {
    const entry = must(entries.get(path), path);
    // Data beside code: a large file belongs to no step, or the step that imports it is reported.
    if (!isExport && path.endsWith('.json') && entry.uncompressedSize > fileBytesMax) continue;
    const content = await contentOf(zip, entry);
    bytes += content.length;
    if (bytes > projectBytesMax) throw tooLarge();
    files.set(path, content.toString('utf8'));
  }
  return files;
}

/** The same checks for files that come without an archive. */
export function checkFiles(given: Readonly<Record<string, string>>): ProjectFiles {
  const paths = Object.keys(given);
  if (paths.length > entriesMax)
    throw refused(`found ${countText(paths.length)} files, expected at most ${countText(entriesMax)}`);
  for (const path of paths) checkPath(path);
  const files = new Map<string, string>();
  let bytes = 0;
  const wanted = wantedPaths(paths);
  const isExport = manifestPathOf(wanted) !== undefined;
  for (const path of wanted) {
    const text = given[path] ?? '';
    const size = Buffer.byteLength(text);
    if (size > fileBytesMax && !isExport && path.endsWith('.json')) continue;
    if (size > fileBytesMax) throw fileTooLarge(path);
    bytes += size;
    if (bytes > projectBytesMax) throw tooLarge();
    files.set(path, text);
  }
  return files;
}

function encrypted(what: string) {
  return refused(`${what} is encrypted, expected a ZIP archive without a password`);
}

function fileTooLarge(path: string) {
  const isCode = /\.(?:[mc]?[jt]s|py|sh|bash|go)$/.test(path);
  return refused(
    `${JSON.stringify(path)} is larger than ${bytesText(fileBytesMax)}, expected ${isCode ? 'a file of code' : 'the definition of one workflow'}`,
  );
}

function tooLarge() {
  return refused(
    `the files of the workflows are larger than ${bytesText(projectBytesMax)} together: import them folder by folder`,
  );
}

async function contentOf(zip: ZipFile, entry: Entry): Promise<Buffer> {
  if (entry.isEncrypted()) throw encrypted(JSON.stringify(entry.fileName));
  const chunks: Buffer[] = [];
  let length = 0;
  // Leaving the loop ends the stream.
  for await (const chunk of (await zip.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > fileBytesMax) throw fileTooLarge(entry.fileName);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
