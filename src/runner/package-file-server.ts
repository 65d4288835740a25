import { readdir, readFile, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  noPackageFile,
  type PackageFileList,
  packageFileBytesMax,
  packageFileRequestBytes,
} from './protocol.ts';

/** Number of files whose sizes are read at a time. */
const filesAtATime = 64;
/** Number of lists that are kept, for the folders used last. */
const listsMax = 32;

/** A folder of packages with its files. */
export interface PackageFiles {
  folder: string;
  files: PackageFileList;
}

/** Lists of the files in folders of packages, which never change. */
export class PackageFileLists {
  /** The last entry is the one used last. */
  readonly #lists = new Map<string, Promise<PackageFiles>>();

  async of(folder: string): Promise<PackageFiles> {
    const list = this.#lists.get(folder) ?? listFiles(folder);
    this.#lists.delete(folder);
    this.#lists.set(folder, list);
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= listsMax) break;
      this.#lists.delete(oldest);
    }
    try {
      return await list;
    } catch (error) {
      this.#lists.delete(folder);
      throw error;
    }
  }
}

async function listFiles(folder: string): Promise<PackageFiles> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files: [string, number][] = [];
  for (let at = 0; at < paths.length; at += filesAtATime) {
    const part = paths.slice(at, at + filesAtATime);
    const sizes = await Promise.all(part.map(async (path) => (await stat(path)).size));
    for (const [i, path] of part.entries()) files.push([relative(folder, path), sizes[i] ?? 0]);
  }
  return { folder, files };
}

/**
 * Gives one process the files of its packages, by their place in a list that was sent to it. The process names no path, so there is none to
 * check. A second request before the answer to the first can only be forged.
 */
export class PackageFileServer {
  readonly #socket: Duplex;
  readonly #onViolation: (reason: string) => void;
  readonly #folders: PackageFiles[] = [];
  #asked = Buffer.alloc(0);
  #isAnswering = false;

  constructor(socket: Duplex, onViolation: (reason: string) => void) {
    this.#socket = socket;
    this.#onViolation = onViolation;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  /** Returns the number of the folder for this process, and its list of files where the process does not have it yet. */
  add(packages: PackageFiles): { id: number; list: Buffer } {
    const known = this.#folders.findIndex(({ folder }) => folder === packages.folder);
    if (known >= 0) return { id: known, list: Buffer.alloc(0) };
    this.#folders.push(packages);
    return { id: this.#folders.length - 1, list: Buffer.from(JSON.stringify(packages.files)) };
  }

  #take(chunk: Buffer): void {
    this.#asked = Buffer.concat([this.#asked, chunk]);
    if (this.#asked.length < packageFileRequestBytes) return;
    if (this.#isAnswering || this.#asked.length > packageFileRequestBytes) {
      this.#onViolation('a file of a package was asked for before the last one was answered');
      return;
    }
    const packages = this.#folders[this.#asked.readUInt32BE(0)];
    const file = packages?.files[this.#asked.readUInt32BE(4)];
    this.#asked = Buffer.alloc(0);
    if (packages === undefined || file === undefined) {
      this.#onViolation('a file of a package was asked for that is in no list');
      return;
    }
    this.#isAnswering = true;
    const [path, bytes] = file;
    void this.#answer(bytes > packageFileBytesMax ? undefined : join(packages.folder, path));
  }

  async #answer(path: string | undefined): Promise<void> {
    const content = path === undefined ? undefined : await readFile(path).catch(() => undefined);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(content?.length ?? noPackageFile, 0);
    this.#isAnswering = false;
    if (this.#socket.destroyed) return;
    this.#socket.write(content === undefined ? head : Buffer.concat([head, content]));
  }
}
