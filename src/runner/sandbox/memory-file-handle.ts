import { constants, type Stats } from 'node:fs';
import { fileError } from './file-error.ts';
import { FileNode, type FolderNode } from './memory-file-nodes.ts';

const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_SYNC, O_TRUNC, O_WRONLY } = constants;

const flagsByName: Record<string, number> = {
  r: O_RDONLY,
  'r+': O_RDWR,
  w: O_TRUNC | O_CREAT | O_WRONLY,
  'w+': O_TRUNC | O_CREAT | O_RDWR,
  a: O_APPEND | O_CREAT | O_WRONLY,
  'a+': O_APPEND | O_CREAT | O_RDWR,
};

/** The purpose for which a file is opened. */
export interface OpenFlags {
  readable: boolean;
  writable: boolean;
  append: boolean;
  create: boolean;
  exclusive: boolean;
  truncate: boolean;
}

/** Reads `flags` in the form of `fs.open`. `s` (synchronous) has no meaning here, and `x` is exclusive. */
export function openFlags(flags: unknown): OpenFlags {
  let bits: number | undefined;
  if (typeof flags === 'number') bits = flags;
  else {
    const text = String(flags ?? 'r');
    bits = flagsByName[text.replaceAll(/[sx]/g, '')];
    if (bits !== undefined && text.includes('x')) bits |= O_EXCL;
  }
  if (bits === undefined) {
    const error = new TypeError(`The argument 'flags' is invalid. Received ${JSON.stringify(flags)}`);
    throw Object.assign(error, { code: 'ERR_INVALID_ARG_VALUE' });
  }
  const access = bits & ~O_SYNC & (O_WRONLY | O_RDWR);
  return {
    readable: access !== O_WRONLY,
    writable: access !== O_RDONLY,
    append: (bits & O_APPEND) !== 0,
    create: (bits & O_CREAT) !== 0,
    exclusive: (bits & O_EXCL) !== 0,
    truncate: (bits & O_TRUNC) !== 0,
  };
}

type ReadTarget = NodeJS.ArrayBufferView;
interface Span {
  offset?: number | undefined;
  length?: number | undefined;
  position?: number | bigint | null | undefined;
}
type Encoded = BufferEncoding | { encoding?: BufferEncoding | null | undefined } | null | undefined;

/**
 * An open file or folder, with the methods that `node:vfs` calls for descriptors and lends to `FileHandle`s. So the asynchronous methods accept
 * the arguments of a `FileHandle`'s.
 */
export class MemoryFileHandle {
  /** Position of the next read or write without an explicit one. Streams set it. */
  position = 0;
  readonly path: string;
  readonly #node: FileNode | FolderNode;
  readonly #flags: OpenFlags;
  #closed = false;

  constructor(node: FileNode | FolderNode, flags: OpenFlags, path: string) {
    this.#node = node;
    this.#flags = flags;
    this.path = path;
    if (!(node instanceof FileNode)) return;
    node.opened();
    if (flags.truncate && flags.writable) node.truncate(0, path);
  }

  get closed(): boolean {
    return this.#closed;
  }

  readSync(target: ReadTarget, offset: number, length: number, position?: number | bigint | null): number {
    const file = this.#file('read', this.#flags.readable);
    const part = bytesOf(target).subarray(offset, offset + length);
    const at = positionOf(position);
    const count = file.read(part, at ?? this.position);
    if (at === undefined) this.position += count;
    return count;
  }

  writeSync(source: ReadTarget, offset: number, length: number, position?: number | bigint | null): number {
    const file = this.#file('write', this.#flags.writable);
    const part = bytesOf(source).subarray(offset, offset + length);
    const at = positionOf(position);
    const begin = this.#flags.append ? file.size : (at ?? this.position);
    file.write(part, begin, this.path);
    if (at === undefined) this.position = begin + part.length;
    return part.length;
  }

  /** Reads everything from the current position on. */
  readFileSync(options?: Encoded): Buffer | string {
    const file = this.#file('read', this.#flags.readable);
    const bytes = Buffer.allocUnsafe(Math.max(0, file.size - this.position));
    const count = file.read(bytes, this.position);
    this.position += count;
    const encoding = encodingOf(options);
    const found = bytes.subarray(0, count);
    return encoding === undefined ? found : found.toString(encoding);
  }

  writeFileSync(data: unknown, options?: Encoded): void {
    const bytes = dataOf(data, options);
    this.writeSync(bytes, 0, bytes.length, null);
  }

  statSync(options?: { bigint?: boolean }): Stats {
    if (this.#closed) throw fileError('EBADF', 'fstat');
    return this.#node.stats(options?.bigint === true);
  }

  truncateSync(size: number = 0): void {
    this.#file('ftruncate', this.#flags.writable, 'EINVAL').truncate(Math.max(0, size), this.path);
  }

  chmodSync(mode: number | string): void {
    this.#changeable('fchmod').permissions = typeof mode === 'string' ? Number.parseInt(mode, 8) : mode;
  }

  utimesSync(accessed: unknown, modified: unknown): void {
    this.#changeable('futime').setTimes(accessed, modified);
  }

  closeSync(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#node instanceof FileNode) this.#node.closed();
  }

  async read(
    target?: ReadTarget | (Span & { buffer?: ReadTarget }),
    span?: number | Span | null,
    length?: number | null,
    position?: number | bigint | null,
  ): Promise<{ bytesRead: number; buffer: ReadTarget }> {
    const isBuffer = ArrayBuffer.isView(target);
    const buffer = isBuffer ? target : (target?.buffer ?? Buffer.alloc(16_384));
    const asked = isBuffer ? spanOf(span, length, position) : (target ?? {});
    const { offset = 0 } = asked;
    const bytes = asked.length ?? buffer.byteLength - offset;
    return { bytesRead: this.readSync(buffer, offset, bytes, asked.position), buffer };
  }

  async write(
    source: ReadTarget | string,
    span?: number | Span | null,
    length?: number | string | null,
    position?: number | bigint | null,
  ): Promise<{ bytesWritten: number; buffer: ReadTarget | string }> {
    if (typeof source === 'string') {
      const bytes = Buffer.from(source, (length ?? 'utf8') as BufferEncoding);
      const at = typeof span === 'object' ? span?.position : span;
      return { bytesWritten: this.writeSync(bytes, 0, bytes.length, at), buffer: source };
    }
    const asked = spanOf(span, length, position);
    const { offset = 0 } = asked;
    const bytes = asked.length ?? source.byteLength - offset;
    return { bytesWritten: this.writeSync(source, offset, bytes, asked.position), buffer: source };
  }

  async readv(
    buffers: ReadTarget[],
    position?: number | null,
  ): Promise<{ bytesRead: number; buffers: ReadTarget[] }> {
    let bytesRead = 0;
    for (const buffer of buffers) {
      const at = position == null ? null : position + bytesRead;
      const count = this.readSync(buffer, 0, buffer.byteLength, at);
      bytesRead += count;
      if (count < buffer.byteLength) break;
    }
    return { bytesRead, buffers };
  }

  async writev(
    buffers: ReadTarget[],
    position?: number | null,
  ): Promise<{ bytesWritten: number; buffers: ReadTarget[] }> {
    let bytesWritten = 0;
    for (const buffer of buffers) {
      const at = position == null ? null : position + bytesWritten;
      bytesWritten += this.writeSync(buffer, 0, buffer.byteLength, at);
    }
    return { bytesWritten, buffers };
  }

  async readFile(options?: Encoded): Promise<Buffer | string> {
    return this.readFileSync(options);
  }

  async writeFile(data: unknown, options?: Encoded): Promise<void> {
    if (!isChunks(data)) return this.writeFileSync(data, options);
    for await (const chunk of data) this.writeFileSync(chunk, options);
  }

  async appendFile(data: unknown, options?: Encoded): Promise<void> {
    return this.writeFile(data, options);
  }

  async stat(options?: { bigint?: boolean }): Promise<Stats> {
    return this.statSync(options);
  }

  async truncate(size?: number): Promise<void> {
    this.truncateSync(size);
  }

  async chmod(mode: number | string): Promise<void> {
    this.chmodSync(mode);
  }

  async utimes(accessed: unknown, modified: unknown): Promise<void> {
    this.utimesSync(accessed, modified);
  }

  async chown(uid: number, gid: number): Promise<void> {
    const node = this.#changeable('fchown');
    node.uid = uid;
    node.gid = gid;
  }

  async sync(): Promise<void> {}

  async datasync(): Promise<void> {}

  async close(): Promise<void> {
    this.closeSync();
  }

  #file(syscall: string, isAllowed: boolean, code = 'EBADF'): FileNode {
    if (this.#closed) throw fileError('EBADF', syscall);
    if (!(this.#node instanceof FileNode)) throw fileError('EISDIR', syscall);
    if (!isAllowed) throw fileError(code, syscall);
    return this.#node;
  }

  #changeable(syscall: string): FileNode | FolderNode {
    if (this.#closed) throw fileError('EBADF', syscall);
    if (this.#node.readOnly) throw fileError('EROFS', syscall);
    return this.#node;
  }
}

function spanOf(
  span: number | Span | null | undefined,
  length: number | string | null | undefined,
  position: number | bigint | null | undefined,
): Span {
  if (typeof span === 'object' && span !== null) return span;
  return {
    offset: span ?? 0,
    length: typeof length === 'number' ? length : undefined,
    position,
  };
}

/** Undefined means the current position. */
function positionOf(position: number | bigint | null | undefined): number | undefined {
  const at = position == null ? -1 : Number(position);
  return at < 0 ? undefined : at;
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function encodingOf(options: Encoded): BufferEncoding | undefined {
  const encoding = typeof options === 'string' ? options : options?.encoding;
  return encoding == null || (encoding as string) === 'buffer' ? undefined : encoding;
}

function dataOf(data: unknown, options: Encoded): Uint8Array {
  if (ArrayBuffer.isView(data)) return bytesOf(data);
  return Buffer.from(String(data), encodingOf(options) ?? 'utf8');
}

function isChunks(data: unknown): data is AsyncIterable<unknown> {
  if (typeof data !== 'object' || data === null || ArrayBuffer.isView(data)) return false;
  return Symbol.asyncIterator in data || Symbol.iterator in data;
}
