import { constants, fstatSync, Stats } from 'node:fs';
import { fileError } from './file-error.ts';
import { FileContent, type FilesBudget } from './memory-file-content.ts';

const { S_IFDIR, S_IFLNK, S_IFREG } = constants;
const blockBytes = 512;
const modeMax = 0o7777;
/** A number that no device has, and neither do files of Node's own memory file systems. */
const device = 4086;

let lastInode = 0;

/** An entry of a folder. */
abstract class MemoryNode {
  /** True for entries of packages, which cannot be changed. */
  readonly readOnly: boolean;
  readonly #inode: number;
  readonly #type: number;
  #mode: number;
  uid: number;
  gid: number;
  accessedMs: number;
  modifiedMs: number;
  changedMs: number;
  readonly #madeMs: number;
  links = 1;

  constructor(type: number, mode: number, readOnly: boolean) {
    const now = Date.now();
    lastInode += 1;
    this.#inode = lastInode;
    this.#type = type;
    this.#mode = mode & modeMax;
    this.readOnly = readOnly;
    this.uid = process.getuid?.() ?? 0;
    this.gid = process.getgid?.() ?? 0;
    this.accessedMs = now;
    this.modifiedMs = now;
    this.changedMs = now;
    this.#madeMs = now;
  }

  abstract get size(): number;
  abstract get allocated(): number;

  get permissions(): number {
    return this.#mode;
  }

  set permissions(mode: number) {
    this.#mode = mode & modeMax;
    this.changedMs = Date.now();
  }

  setTimes(accessed: unknown, modified: unknown): void {
    this.accessedMs = milliseconds(accessed);
    this.modifiedMs = milliseconds(modified);
    this.changedMs = Date.now();
  }

  wasWritten(): void {
    this.modifiedMs = Date.now();
    this.changedMs = this.modifiedMs;
  }

  stats(bigint: boolean): Stats {
    const numbers = {
      ...{ dev: device, mode: this.#type | this.#mode, nlink: this.links, uid: this.uid, gid: this.gid },
      ...{ rdev: 0, blksize: 4096, ino: this.#inode, size: this.size },
      ...{ blocks: Math.ceil(this.allocated / blockBytes) },
    };
    const times = {
      atime: this.accessedMs,
      mtime: this.modifiedMs,
      ctime: this.changedMs,
      birthtime: this.#madeMs,
    };
    if (bigint) return bigStats(numbers, times);
    const { atime: atimeMs, mtime: mtimeMs, ctime: ctimeMs, birthtime: birthtimeMs } = times;
    const stats = Object.create(Stats.prototype) as Stats;
    return Object.assign(stats, numbers, { atimeMs, mtimeMs, ctimeMs, birthtimeMs });
  }
}

/** Node has no name for the prototype of these, so it is taken from a descriptor that is always open. */
let bigPrototype: object | undefined;

function bigStats(numbers: Record<string, number>, times: Record<string, number>): Stats {
  bigPrototype ??= Object.getPrototypeOf(fstatSync(0, { bigint: true })) as object;
  const stats = Object.create(bigPrototype) as Record<string, bigint>;
  for (const [name, value] of Object.entries(numbers)) stats[name] = BigInt(value);
  for (const [name, ms] of Object.entries(times)) {
    stats[`${name}Ms`] = BigInt(Math.floor(ms));
    stats[`${name}Ns`] = BigInt(Math.round(ms * 1e6));
  }
  return stats as unknown as Stats;
}

/** Reads a time in the form of `utimes`: seconds, or a date. */
function milliseconds(time: unknown): number {
  const ms = time instanceof Date ? time.getTime() : Number(time) * 1000;
  return Number.isFinite(ms) ? ms : Date.now();
}

export class FolderNode extends MemoryNode {
  readonly children = new Map<string, AnyNode>();

  constructor(mode: number, readOnly = false) {
    super(S_IFDIR, mode, readOnly);
  }

  get size(): number {
    return 4096;
  }

  get allocated(): number {
    return 4096;
  }
}

export class LinkNode extends MemoryNode {
  readonly target: string;

  constructor(target: string) {
    super(S_IFLNK, 0o777, false);
    this.target = target;
  }

  get size(): number {
    return Buffer.byteLength(this.target);
  }

  get allocated(): number {
    return 0;
  }
}

/** A file, which handles read and write. Its bytes exist as long as it has a name or is open. */
export abstract class FileNode extends MemoryNode {
  #handles = 0;

  constructor(mode: number, readOnly: boolean) {
    super(S_IFREG, mode, readOnly);
  }

  abstract read(target: Uint8Array, position: number): number;
  abstract write(source: Uint8Array, position: number, path: string): void;
  abstract truncate(size: number, path: string): void;
  /** Called when nothing uses the bytes, for ever or until the next open. */
  protected abstract release(): void;

  opened(): void {
    this.#handles += 1;
  }

  /** Called when a handle was closed or a name was removed. */
  dropped(): void {
    if (this.#handles === 0) this.release();
  }

  closed(): void {
    this.#handles -= 1;
    this.dropped();
  }
}

export class ScratchFile extends FileNode {
  readonly #content: FileContent;
  readonly #budget: FilesBudget;

  constructor(mode: number, budget: FilesBudget) {
    super(mode, false);
    this.#budget = budget;
    this.#content = new FileContent(budget);
  }

  get size(): number {
    return this.#content.size;
  }

  get allocated(): number {
    return this.#content.allocated;
  }

  read(target: Uint8Array, position: number): number {
    return this.#content.read(target, position);
  }

  write(source: Uint8Array, position: number, path: string): void {
    this.#content.write(source, position, path);
    this.wasWritten();
  }

  truncate(size: number, path: string): void {
    this.#content.truncate(size, path);
    this.wasWritten();
  }

  protected release(): void {
    if (this.links > 0) return;
    this.#content.clear();
    this.#budget.removeFile();
  }
}

/** A file of a package. The service has its bytes, and sends them when it is opened. */
export class PackageFile extends FileNode {
  readonly #load: () => Buffer;
  #bytes: Buffer | undefined;
  readonly size: number;

  constructor(size: number, load: () => Buffer) {
    super(0o444, true);
    this.size = size;
    this.#load = load;
  }

  get allocated(): number {
    return this.size;
  }

  override opened(): void {
    super.opened();
    this.#bytes ??= this.#load();
  }

  read(target: Uint8Array, position: number): number {
    const part = this.#bytes?.subarray(position, position + target.length);
    if (part === undefined) return 0;
    target.set(part);
    return part.length;
  }

  write(_source: Uint8Array, _position: number, path: string): void {
    throw fileError('EROFS', 'write', path);
  }

  truncate(_size: number, path: string): void {
    throw fileError('EROFS', 'ftruncate', path);
  }

  protected release(): void {
    this.#bytes = undefined;
  }
}

export type AnyNode = FolderNode | LinkNode | FileNode;
