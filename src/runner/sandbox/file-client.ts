import { once } from 'node:events';
import fs from 'node:fs';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { hostCallBodyBytesMax } from '#runner/protocol.ts';
import type { HostCallFunction } from './host-calls.ts';
import { shortened } from './shortened.ts';

/** `$.files`, and the value of a `dir` prop. Paths are relative to the folder. */
export interface FileStore {
  /** An existing file, or one to be written. */
  open(path: string): StoredFile;
  /** The file of a descriptor that a step exported, the result of `toJSON` of a file. */
  openDescriptor(descriptor: unknown): StoredFile;
  /** Direct entries of the folder at `path` (absent: the root). */
  dir(path?: string): AsyncGenerator<DirectoryEntry>;
}

export interface DirectoryEntry {
  name: string;
  /** Path from the root, for `open` and `dir`. */
  path: string;
  isFile(): boolean;
  isDirectory(): boolean;
  /** Size in bytes. Like the following fields, only present for files. */
  size?: number;
  modifiedAt?: Date;
  file?: StoredFile;
}

/** JSON form of a file. */
export interface FileDescriptor {
  path: string;
  name: string;
  /** Present for files in a stash, absent for those of the project. */
  stash_id?: string;
  /** Present after `withGetUrl`. */
  get_url?: string;
}

export interface FileStoreOptions {
  /** `files` for the project's folder, otherwise the ID of a stash. */
  folder?: string;
  access?: 'read' | 'write' | 'read-write';
  /** Name of the store in messages. */
  where?: string;
}

const pathCharactersMax = 1024;
const projectFolder = 'files';

export function makeFileStore(hostCall: HostCallFunction, options: FileStoreOptions = {}): FileStore {
  const { folder = projectFolder, access = 'read-write', where = '$.files' } = options;
  const folderClient = (name: string): FolderClient => new FolderClient(hostCall, name, access, where);
  const own = folderClient(folder);
  return {
    open: (path) => new StoredFile(own, checkPath(path, `${where}.open`)),
    openDescriptor(descriptor) {
      const given = typeof descriptor === 'object' && descriptor !== null ? descriptor : { path: descriptor };
      const { path, stash_id: stash } = given as { path?: unknown; stash_id?: unknown };
      const client = typeof stash === 'string' && stash !== folder ? folderClient(stash) : own;
      return new StoredFile(client, checkPath(path, `${where}.openDescriptor`));
    },
    async *dir(path) {
      const isRoot = path === undefined || path === '' || path === '/' || path === '.';
      yield* own.list(isRoot ? '' : `${checkPath(path, `${where}.dir`)}/`);
    },
  };
}

/** Normalizes a relative path. Throws a TypeError for an invalid one, and for one that leaves the folder. */
export function checkPath(path: unknown, where: string): string {
  if (typeof path !== 'string') throw new TypeError(`${where}: a path is a text, found ${typeof path}`);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  const normal = parts.join('/');
  if (normal === '' || parts.includes('..') || path.includes('\0')) {
    throw new TypeError(
      `${where}: expected the path of a file below the folder, found ${JSON.stringify(shortened(path, 100))}`,
    );
  }
  if (normal.length > pathCharactersMax)
    throw new TypeError(`${where}: a path has at most ${pathCharactersMax} characters`);
  return normal;
}

interface FileState {
  size: number;
  etag: unknown;
}

/** The files of one folder, through host calls. */
export class FolderClient {
  readonly folder: string;
  readonly #hostCall: HostCallFunction;
  readonly #access: 'read' | 'write' | 'read-write';
  readonly #where: string;

  constructor(
    hostCall: HostCallFunction,
    folder: string,
    access: 'read' | 'write' | 'read-write',
    where: string,
  ) {
    this.#hostCall = hostCall;
    this.folder = folder;
    this.#access = access;
    this.#where = where;
  }

  mayRead(): void {
    if (this.#access === 'write') throw new Error(`${this.#where} was opened for writing only`);
  }

  mayWrite(): void {
    if (this.#access === 'read') throw new Error(`${this.#where} was opened for reading only`);
  }

  request(op: string, header: object, body?: Uint8Array): ReturnType<HostCallFunction> {
    return this.#hostCall('file', { folder: this.folder, op, ...header }, body);
  }

  /** Rejects with an Error of code ENOENT when there is no such file. */
  async stat(path: string): Promise<FileState> {
    this.mayRead();
    const { header } = await this.request('stat', { path });
    if (header.exists !== true)
      throw Object.assign(new Error(`${this.#where}: there is no file ${path}`), { code: 'ENOENT' });
    return { size: Number(header.size), etag: header.etag };
  }

  /** Pieces of a file. Each is requested when the one before it was used. */
  async *pieces(path: string, { size, etag }: FileState): AsyncGenerator<Buffer> {
    let offset = 0;
    while (offset < size) {
      const length = Math.min(hostCallBodyBytesMax, size - offset);
      const { header, body } = await this.request('read', { path, offset, length });
      if (body.length === 0 || header.etag !== etag)
        throw new Error(`${this.#where}: ${path} changed while it was read`);
      offset += body.length;
      yield body;
    }
  }

  /** Returns a stream that replaces the file when it has finished. An unfinished stream leaves the file unchanged. */
  async writer(path: string, contentType: unknown, contentLength: unknown): Promise<Writable> {
    this.mayWrite();
    const { header } = await this.request('begin', {
      path,
      ...(typeof contentType === 'string' && contentType !== '' ? { content_type: contentType } : {}),
    });
    const { upload } = header;
    const expected = typeof contentLength === 'number' ? contentLength : undefined;
    let waiting: Buffer[] = [];
    let waitingBytes = 0;
    let written = 0;
    const append = async (): Promise<void> => {
      const bytes = waiting.length === 1 ? waiting[0] : Buffer.concat(waiting);
      waiting = [];
      waitingBytes = 0;
      for (let at = 0; bytes !== undefined && at < bytes.length; at += hostCallBodyBytesMax)
        await this.request('append', { path, upload }, bytes.subarray(at, at + hostCallBodyBytesMax));
    };
    const finish = async (): Promise<void> => {
      if (expected !== undefined && written !== expected) {
        throw new Error(
          `${this.#where}: ${path} was announced with ${expected} bytes, ${written} were written`,
        );
      }
      if (waitingBytes > 0) await append();
      await this.request('finish', { path, upload });
    };
    return new Writable({
      highWaterMark: hostCallBodyBytesMax,
      decodeStrings: true,
      write(chunk: Buffer, _encoding, done) {
        waiting.push(chunk);
        waitingBytes += chunk.length;
        written += chunk.length;
        if (waitingBytes < hostCallBodyBytesMax) done();
        else append().then(() => done(), done);
      },
      final(done) {
        finish().then(() => done(), done);
      },
    });
  }

  async *list(prefix: string): AsyncGenerator<DirectoryEntry> {
    const folders = new Set<string>();
    for await (const { path, size, modifiedAt } of this.allBelow(prefix)) {
      const rest = path.slice(prefix.length);
      const end = rest.indexOf('/');
      if (end === -1) {
        const file = new StoredFile(this, path);
        yield { name: rest, path, isFile: () => true, isDirectory: () => false, size, modifiedAt, file };
        continue;
      }
      const name = rest.slice(0, end);
      if (folders.has(name)) continue;
      folders.add(name);
      yield { name, path: prefix + name, isFile: () => false, isDirectory: () => true };
    }
  }

  /** All files whose path begins with `prefix`, at any depth. */
  async *allBelow(prefix: string): AsyncGenerator<{ path: string; size: number; modifiedAt: Date }> {
    this.mayRead();
    let after: unknown;
    do {
      const { header } = await this.request('list', {
        ...(prefix === '' ? {} : { prefix }),
        ...(after === undefined ? {} : { after }),
      });
      for (const entry of Array.isArray(header.entries) ? header.entries : []) {
        const { path, size, updated_at_ms: updatedAtMs } = entry as Record<string, unknown>;
        if (typeof path !== 'string' || !path.startsWith(prefix)) continue;
        yield { path, size: Number(size), modifiedAt: new Date(Number(updatedAtMs)) };
      }
      if (header.next === after) return;
      after = header.next;
    } while (typeof after === 'string');
  }
}

/** A file of the project or of a stash. Only its methods call the service. */
export class StoredFile {
  readonly path: string;
  readonly name: string;
  get_url?: string;
  readonly #client: FolderClient;

  constructor(client: FolderClient, path: string) {
    this.#client = client;
    this.path = path;
    this.name = path.slice(path.lastIndexOf('/') + 1);
  }

  toJSON(): FileDescriptor {
    const { folder } = this.#client;
    return {
      path: this.path,
      name: this.name,
      ...(folder === projectFolder ? {} : { stash_id: folder }),
      ...(this.get_url === undefined ? {} : { get_url: this.get_url }),
    };
  }

  /** Only for compatibility: the JSON never holds a URL to write to. */
  withoutPutUrl(): this {
    return this;
  }

  /** Adds `get_url`, the result of `toUrl`, to its JSON. Also allowed for a write-only file, because code passes such links on. */
  async withGetUrl(): Promise<this> {
    this.get_url = await this.#url();
    return this;
  }

  /** A URL from which everyone can download the file, for 30 minutes. */
  async toUrl(): Promise<string> {
    this.#client.mayRead();
    return this.#url();
  }

  async #url(): Promise<string> {
    const { header } = await this.#client.request('url', { path: this.path });
    return String(header.url);
  }

  /** `localPath` is a path below `/tmp`. */
  async toFile(localPath: string): Promise<void> {
    await pipeline(await this.createReadStream(), fs.createWriteStream(localPath));
  }

  async toBuffer(): Promise<Buffer> {
    const state = await this.#client.stat(this.path);
    return Buffer.concat(await Array.fromAsync(this.#client.pieces(this.path, state)));
  }

  /** `start` and `end` are byte positions in the file. */
  async toEncodedString(encoding: BufferEncoding = 'utf8', start?: number, end?: number): Promise<string> {
    return (await this.toBuffer()).toString(encoding, start, end);
  }

  async createReadStream(): Promise<Readable> {
    const state = await this.#client.stat(this.path);
    return Readable.from(this.#client.pieces(this.path, state), { objectMode: false });
  }

  /** With `contentLength`, the stream fails when it gets another number of bytes. */
  async createWriteStream(contentType?: string, contentLength?: number): Promise<Writable> {
    return this.#client.writer(this.path, contentType, contentLength);
  }

  async fromReadableStream(
    stream: Readable | ReadableStream | AsyncIterable<string | Uint8Array>,
    contentType?: string,
    contentLength?: number,
  ): Promise<this> {
    const from =
      stream instanceof globalThis.ReadableStream ? Readable.fromWeb(stream as ReadableStream) : stream;
    await pipeInto(from, () => this.createWriteStream(contentType, contentLength));
    return this;
  }

  async fromFile(localPath: string, contentType?: string): Promise<this> {
    this.#client.mayWrite();
    const from = fs.createReadStream(localPath);
    // Rejects for a missing file before the service is called.
    await once(from, 'open');
    return this.fromReadableStream(from, contentType);
  }

  /** `options` as for `fetch`. Rejects when the response is no success, and the file stays unchanged. */
  async fromUrl(url: string | URL, options?: RequestInit): Promise<this> {
    this.#client.mayWrite();
    const response = await fetch(url, options);
    if (!response.ok) {
      await response.body?.cancel();
      throw new Error(
        `could not download ${new URL(url).origin}: HTTP ${response.status} ${response.statusText}`.trim(),
      );
    }
    const contentType = response.headers.get('content-type') ?? undefined;
    const body =
      response.body === null ? Readable.from([]) : Readable.fromWeb(response.body as ReadableStream);
    return this.fromReadableStream(body, contentType);
  }

  /** Resolves also when there was no such file. */
  async delete(): Promise<void> {
    this.#client.mayWrite();
    await this.#client.request('delete', { path: this.path });
  }
}

/**
 * Pipes a source into a destination that is created meanwhile. The source may fail before the destination exists, so its errors need a listener:
 * an error that the caller gets as a rejection must not end the process as an uncaught one. Without a destination the source is closed.
 */
async function pipeInto(
  from: Readable | AsyncIterable<string | Uint8Array>,
  makeDestination: () => Promise<Writable>,
): Promise<void> {
  let early: { error: unknown } | undefined;
  const onEarlyError = (error: unknown): void => {
    early ??= { error };
  };
  const source = isEmitter(from) ? from : undefined;
  source?.on('error', onEarlyError);
  let to: Writable;
  try {
    to = await makeDestination();
  } catch (error) {
    source?.destroy?.();
    throw error;
  }
  if (early !== undefined) {
    to.destroy();
    throw early.error;
  }
  const piped = pipeline(from as Readable, to);
  // From here on the pipeline listens. A failure after its end concerns the caller, who created the source.
  source?.off('error', onEarlyError);
  await piped;
}

/** True for streams of any implementation, which only have to report errors as events. */
function isEmitter(from: object): from is Pick<Readable, 'on' | 'off'> & { destroy?: () => unknown } {
  return 'on' in from && typeof from.on === 'function' && 'off' in from && typeof from.off === 'function';
}
