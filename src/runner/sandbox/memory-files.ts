import { constants, Dirent, type Stats } from 'node:fs';
import { posix } from 'node:path';
import { fileError } from './file-error.ts';
import { FilesBudget } from './memory-file-content.ts';
import { MemoryFileHandle, openFlags } from './memory-file-handle.ts';
import {
  type AnyNode,
  FileNode,
  FolderNode,
  LinkNode,
  PackageFile,
  ScratchFile,
} from './memory-file-nodes.ts';

// Only loaded in processes with a memory file system, because elsewhere Node does not have this module.
const { MemoryProvider } = process.getBuiltinModule('node:vfs');

const { COPYFILE_EXCL, R_OK, W_OK, X_OK } = constants;
/** Node's types lack these constants and the constructor of an entry. */
const { UV_DIRENT_DIR, UV_DIRENT_FILE, UV_DIRENT_LINK } = constants as unknown as Record<string, number>;
const Entry = Dirent as unknown as new (name: string, type: number | undefined, parent: string) => Dirent;

const linksFollowedMax = 40;
const nameBytesMax = 255;
const targetBytesMax = 4096;
/** Permissions that a new file or folder does not get, as with the usual umask. */
const umask = 0o022;

/** The target of a path. Without `node`, `folder` has no entry of this name yet. */
interface Place {
  folder: FolderNode;
  name: string;
  node: AnyNode | undefined;
}

interface ListOptions {
  withFileTypes?: boolean;
  recursive?: boolean;
}

/** The value that Node passes where `fs` accepts options or only a mode. */
type ModeOption = number | string | { mode?: number | string } | null | undefined;

/**
 * The file system of a process that may access no real file: `/tmp`, and packages, which are read-only. Node's `fs` and its module loader use it
 * for every path below its mount point, by way of `node:vfs`. A link to anywhere else leads to no file.
 *
 * From `MemoryProvider` it inherits the watching of files, and functions that combine single operations. The files themselves are its own: Node's
 * have separate contents for each open descriptor, and their size has no limit.
 */
export class MemoryFiles extends MemoryProvider {
  declare readFileSync: (path: string) => Buffer;
  declare writeFileSync: (path: string, data: Buffer, options: { flag: string; mode: number }) => void;
  readonly #root = new FolderNode(0o755, true);
  readonly #budget: FilesBudget;
  #mountPoint = '';

  constructor(options: { bytesMax: number; filesMax: number }) {
    super();
    this.#budget = new FilesBudget(options);
    this.#root.children.set('tmp', new FolderNode(0o700));
  }

  /** Sets the path below which targets of links lie. */
  mountedAt(mountPoint: string): void {
    this.#mountPoint = mountPoint;
  }

  /** Adds the files of one folder of packages. `load` returns the bytes of the file at a position of the list. */
  addPackages(
    path: string,
    files: readonly (readonly [path: string, bytes: number])[],
    load: (n: number) => Buffer,
  ): void {
    files.forEach(([file, bytes], n) => {
      const parts = `${path}/${file}`.split('/').filter((part) => part !== '');
      const name = parts.pop() ?? '';
      let folder = this.#root;
      for (const part of parts) {
        const next = folder.children.get(part) ?? new FolderNode(0o755, true);
        folder.children.set(part, next);
        if (!(next instanceof FolderNode)) return;
        folder = next;
      }
      folder.children.set(name, new PackageFile(bytes, () => load(n)));
    });
  }

  openSync(path: string, flags: unknown, mode?: number): MemoryFileHandle {
    const wanted = openFlags(flags);
    const place = this.#find(path, 'open', !(wanted.create && wanted.exclusive));
    let { node } = place;
    if (node === undefined) {
      if (!wanted.create) throw this.#error('ENOENT', 'open', path);
      this.#checkNew(place, 'open', path);
      node = new ScratchFile((mode ?? 0o666) & ~umask, this.#budget);
      this.#put(place, node, 'open', path);
    } else if (wanted.create && wanted.exclusive) throw this.#error('EEXIST', 'open', path);
    if (node instanceof LinkNode) throw this.#error('ELOOP', 'open', path);
    if (node instanceof FolderNode && wanted.writable) throw this.#error('EISDIR', 'open', path);
    if (node.readOnly && wanted.writable) throw this.#error('EROFS', 'open', path);
    return new MemoryFileHandle(node, wanted, this.#shown(path));
  }

  statSync(path: string, options?: { bigint?: boolean }): Stats {
    return this.#existing(path, 'stat').stats(options?.bigint === true);
  }

  lstatSync(path: string, options?: { bigint?: boolean }): Stats {
    return this.#existing(path, 'lstat', false).stats(options?.bigint === true);
  }

  /** With `recursive`, names are paths, as `node:vfs` expects. */
  readdirSync(path: string, options?: ListOptions | null): (string | Dirent)[] {
    const folder = this.#existing(path, 'scandir');
    if (!(folder instanceof FolderNode)) throw this.#error('ENOTDIR', 'scandir', path);
    const found: (string | Dirent)[] = [];
    const list = (current: FolderNode, prefix: string): void => {
      for (const [name, node] of current.children) {
        const shown = prefix + name;
        found.push(options?.withFileTypes === true ? new Entry(shown, direntType(node), path) : shown);
        if (options?.recursive === true && node instanceof FolderNode) list(node, `${shown}/`);
      }
    };
    list(folder, '');
    return found;
  }

  /** Lists as `readdirSync` does, and splits entries whose name is a path, which the synchronous callers do themselves. */
  async readdir(path: string, options?: ListOptions | null): Promise<(string | Dirent)[]> {
    return this.readdirSync(path, options).map((entry) => {
      if (typeof entry === 'string') return entry;
      const parent = posix.join(this.#mountPoint, path, posix.dirname(entry.name));
      return new Entry(posix.basename(entry.name), typeOf(entry), parent);
    });
  }

  /** Returns the first folder that was created, where several were missing. */
  mkdirSync(path: string, options?: ModeOption & { recursive?: boolean }): string | undefined {
    const isRecursive = typeof options === 'object' && options?.recursive === true;
    let first: string | undefined;
    const parts = path.split('/').filter((part) => part !== '');
    for (let count = isRecursive ? 1 : parts.length; count <= parts.length; count += 1) {
      const current = `/${parts.slice(0, count).join('/')}`;
      const place = this.#find(current, 'mkdir', true);
      if (place.node instanceof FolderNode && isRecursive) continue;
      if (place.node !== undefined)
        throw this.#error(count < parts.length ? 'ENOTDIR' : 'EEXIST', 'mkdir', path);
      this.#checkNew(place, 'mkdir', path);
      this.#put(place, new FolderNode(modeOf(options, 0o777)), 'mkdir', path);
      first ??= current;
    }
    // A path without parts is the root, which exists.
    if (parts.length === 0 && !isRecursive) throw this.#error('EEXIST', 'mkdir', path);
    return isRecursive ? first : undefined;
  }

  rmdirSync(path: string): void {
    const place = this.#removable(path, 'rmdir');
    if (!(place.node instanceof FolderNode)) throw this.#error('ENOTDIR', 'rmdir', path);
    if (place.node.children.size > 0) throw this.#error('ENOTEMPTY', 'rmdir', path);
    this.#remove(place);
  }

  unlinkSync(path: string): void {
    const place = this.#removable(path, 'unlink');
    if (place.node instanceof FolderNode) throw this.#error('EISDIR', 'unlink', path);
    this.#remove(place);
  }

  renameSync(from: string, to: string): void {
    const old = this.#removable(from, 'rename');
    const place = this.#find(to, 'rename', false);
    if (place.node === old.node) return;
    if (place.folder.readOnly) throw this.#error('EROFS', 'rename', from, to);
    if (old.node instanceof FolderNode && this.#isWithin(place.folder, old.node))
      throw this.#error('EINVAL', 'rename', from, to);
    if (place.node !== undefined) {
      const isFolder = place.node instanceof FolderNode;
      if (isFolder && !(old.node instanceof FolderNode)) throw this.#error('EISDIR', 'rename', from, to);
      if (!isFolder && old.node instanceof FolderNode) throw this.#error('ENOTDIR', 'rename', from, to);
      if (place.node instanceof FolderNode && place.node.children.size > 0)
        throw this.#error('ENOTEMPTY', 'rename', from, to);
      this.#remove({ ...place, node: place.node });
    }
    old.folder.children.delete(old.name);
    old.folder.wasWritten();
    place.folder.children.set(place.name, old.node);
    place.folder.wasWritten();
  }

  linkSync(from: string, to: string): void {
    const file = this.#existing(from, 'link', false);
    if (!(file instanceof FileNode)) throw this.#error('EPERM', 'link', from, to);
    // A name in /tmp would make a file of a package look like a file of /tmp.
    if (file.readOnly) throw this.#error('EROFS', 'link', from, to);
    const place = this.#find(to, 'link', false);
    if (place.node !== undefined) throw this.#error('EEXIST', 'link', from, to);
    this.#checkNew(place, 'link', to);
    place.folder.children.set(place.name, file);
    place.folder.wasWritten();
    file.links += 1;
  }

  symlinkSync(target: unknown, path: string): void {
    const text = String(target);
    if (Buffer.byteLength(text) > targetBytesMax) throw this.#error('ENAMETOOLONG', 'symlink', path);
    const place = this.#find(path, 'symlink', false);
    if (place.node !== undefined) throw this.#error('EEXIST', 'symlink', path);
    this.#checkNew(place, 'symlink', path);
    this.#put(place, new LinkNode(text), 'symlink', path);
  }

  accessSync(path: string, mode = 0): void {
    const node = this.#existing(path, 'access');
    const isWritable = !node.readOnly && (node.permissions & 0o200) !== 0;
    const isReadable = (node.permissions & 0o400) !== 0;
    const isExecutable = (node.permissions & 0o100) !== 0;
    if (
      ((mode & R_OK) !== 0 && !isReadable) ||
      ((mode & W_OK) !== 0 && !isWritable) ||
      ((mode & X_OK) !== 0 && !isExecutable)
    )
      throw this.#error('EACCES', 'access', path);
  }

  readlinkSync(path: string): string {
    const link = this.#existing(path, 'readlink', false);
    if (!(link instanceof LinkNode)) throw this.#error('EINVAL', 'readlink', path);
    return link.target;
  }

  realpathSync(path: string): string {
    const resolved: string[] = [];
    this.#existing(path, 'realpath', true, resolved);
    return `/${resolved.join('/')}`;
  }

  copyFileSync(from: string, to: string, flags = 0): void {
    const source = this.#existing(from, 'copyfile');
    const isThere = this.#find(to, 'copyfile', true).node !== undefined;
    if (isThere && (flags & COPYFILE_EXCL) !== 0) throw this.#error('EEXIST', 'copyfile', from, to);
    this.writeFileSync(to, this.readFileSync(from), { flag: 'w', mode: source.permissions | 0o200 });
  }

  chmodSync(path: string, mode: number | string): void {
    this.#changeable(path, 'chmod').permissions = modeOf(mode, 0, 0);
  }

  lchmodSync(path: string, mode: number | string): void {
    this.#changeable(path, 'lchmod', false).permissions = modeOf(mode, 0, 0);
  }

  chownSync(path: string, uid: number, gid: number): void {
    Object.assign(this.#changeable(path, 'chown'), { uid, gid });
  }

  lchownSync(path: string, uid: number, gid: number): void {
    Object.assign(this.#changeable(path, 'lchown', false), { uid, gid });
  }

  utimesSync(path: string, accessed: unknown, modified: unknown): void {
    this.#changeable(path, 'utime').setTimes(accessed, modified);
  }

  lutimesSync(path: string, accessed: unknown, modified: unknown): void {
    this.#changeable(path, 'lutime', false).setTimes(accessed, modified);
  }

  /** Walks a path. With `follow`, a link in its last part is followed too. The parts that were passed are added to `resolved`. */
  #find(path: string, syscall: string, follow: boolean, resolved: string[] = [], followed = 0): Place {
    const parts = path.split('/').filter((part) => part !== '');
    let place: Place = { folder: this.#root, name: '', node: this.#root };
    for (const [i, name] of parts.entries()) {
      const folder = place.node;
      if (folder === undefined) throw this.#error('ENOENT', syscall, path);
      if (!(folder instanceof FolderNode)) throw this.#error('ENOTDIR', syscall, path);
      const node = folder.children.get(name);
      place = { folder, name, node };
      const rest = parts.slice(i + 1);
      if (node instanceof LinkNode && (follow || rest.length > 0)) {
        if (followed >= linksFollowedMax) throw this.#error('ELOOP', syscall, path);
        const to = posix.resolve('/', ...resolved, this.#targetOf(node, syscall, path), ...rest);
        resolved.length = 0;
        return this.#find(to, syscall, follow, resolved, followed + 1);
      }
      resolved.push(name);
    }
    return place;
  }

  /** Returns the target of a link: below the mount point, or relative. There is nothing elsewhere. */
  #targetOf({ target }: LinkNode, syscall: string, path: string): string {
    if (!target.startsWith('/')) return target;
    const whole = posix.normalize(target);
    if (whole !== this.#mountPoint && !whole.startsWith(`${this.#mountPoint}/`))
      throw this.#error('ENOENT', syscall, path);
    return `/${whole.slice(this.#mountPoint.length)}`;
  }

  #existing(path: string, syscall: string, follow = true, resolved?: string[]): AnyNode {
    const { node } = this.#find(path, syscall, follow, resolved);
    if (node === undefined) throw this.#error('ENOENT', syscall, path);
    return node;
  }

  #changeable(path: string, syscall: string, follow = true): AnyNode {
    const node = this.#existing(path, syscall, follow);
    if (node.readOnly) throw this.#error('EROFS', syscall, path);
    return node;
  }

  #removable(path: string, syscall: string): Place & { node: AnyNode } {
    const { node, ...place } = this.#find(path, syscall, false);
    if (node === undefined) throw this.#error('ENOENT', syscall, path);
    if (place.folder.readOnly) throw this.#error('EROFS', syscall, path);
    return { ...place, node };
  }

  #checkNew({ folder, name }: Place, syscall: string, path: string): void {
    if (folder.readOnly) throw this.#error('EROFS', syscall, path);
    if (Buffer.byteLength(name) > nameBytesMax) throw this.#error('ENAMETOOLONG', syscall, path);
  }

  #put({ folder, name }: Place, node: AnyNode, syscall: string, path: string): void {
    this.#budget.addFile(syscall, this.#shown(path));
    folder.children.set(name, node);
    folder.wasWritten();
  }

  #remove({ folder, name, node }: Place & { node: AnyNode }): void {
    folder.children.delete(name);
    folder.wasWritten();
    node.links -= 1;
    if (node instanceof FileNode) node.dropped();
    else this.#budget.removeFile();
  }

  #shown(path: string): string {
    return posix.join(this.#mountPoint, path);
  }

  #error(code: string, syscall: string, path: string, dest?: string): Error {
    return fileError(code, syscall, this.#shown(path), dest === undefined ? undefined : this.#shown(dest));
  }

  #isWithin(folder: FolderNode, ancestor: FolderNode): boolean {
    if (folder === ancestor) return true;
    for (const child of ancestor.children.values())
      if (child instanceof FolderNode && this.#isWithin(folder, child)) return true;
    return false;
  }
}

const syncOnly = new Set(['exists', 'readdir']);
/** The asynchronous form of each operation runs immediately, and rejects where the synchronous one throws. */
for (const name of Object.getOwnPropertyNames(MemoryFiles.prototype)) {
  const twin = name.slice(0, -'Sync'.length);
  if (!name.endsWith('Sync') || syncOnly.has(twin)) continue;
  const operation = Reflect.get(MemoryFiles.prototype, name) as (...args: unknown[]) => unknown;
  Object.defineProperty(MemoryFiles.prototype, twin, {
    async value(this: MemoryFiles, ...args: unknown[]) {
      return operation.apply(this, args);
    },
  });
}

function direntType(node: AnyNode): number | undefined {
  if (node instanceof FolderNode) return UV_DIRENT_DIR;
  return node instanceof LinkNode ? UV_DIRENT_LINK : UV_DIRENT_FILE;
}

function typeOf(entry: Dirent): number | undefined {
  if (entry.isDirectory()) return UV_DIRENT_DIR;
  return entry.isSymbolicLink() ? UV_DIRENT_LINK : UV_DIRENT_FILE;
}

function modeOf(option: ModeOption, otherwise: number, mask = umask): number {
  const mode = typeof option === 'object' ? option?.mode : option;
  const bits = typeof mode === 'string' ? Number.parseInt(mode, 8) : mode;
  return (bits ?? otherwise) & ~mask;
}
