import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { HostCall, HostCallAnswer } from '#runner/runner.ts';
import { checkFolder, normalisePath, normalisePrefix } from './file-path.ts';
import type { FileRow } from './file-store.ts';
import { type FileUpload, uploadGone } from './file-upload.ts';
import type { FileUrls } from './file-urls.ts';
import type { StoredFiles } from './stored-files.ts';

/** Bytes of one answer to `read`. */
const readBytesMax = 1024 * 1024;
/** Files in one answer to `list`. */
const listPage = 500;
/** Characters of paths in one answer to `list`: it travels as a header, which is not for much. */
const listCharactersMax = 16_384;
/** Unfinished uploads of one owner in this process, and of all owners: each may hold 1 MB. The one that is idle the longest is dropped first. */
const uploadsPerOwnerMax = 32;
const uploadsMax = 256;
/** A step is over long before that; its process may have ended in the middle of an upload. */
const forgottenMs = 20 * 60 * 1000;
const contentTypeLengthMax = 200;

interface OpenUpload {
  ownerId: string;
  folder: string;
  upload: FileUpload;
}

/**
 * Answers host calls of the kind `file`. Folders are `files` and ids of stashes, each owner
 * has its own; the owner comes from the run, never from the host call. Uploads live in this process, as the step
 * does that began them.
 */
export function fileHostCalls(options: {
  store: StoredFiles;
  clock: Clock;
  urls: FileUrls;
}): (ownerId: string, hostCall: HostCall) => Promise<HostCallAnswer> {
  const hostCalls = new FileHostCalls(options);
  return (ownerId, hostCall) => hostCalls.answer(ownerId, hostCall);
}

class FileHostCalls {
  readonly #files: StoredFiles;
  readonly #clock: Clock;
  readonly #urls: FileUrls;
  /** By upload id; the longest idle first. */
  readonly #uploads = new Map<string, OpenUpload>();

  constructor(options: { store: StoredFiles; clock: Clock; urls: FileUrls }) {
    this.#files = options.store;
    this.#clock = options.clock;
    this.#urls = options.urls;
  }

  async answer(ownerId: string, { header, body }: HostCall): Promise<HostCallAnswer> {
    const folder = checkFolder(header.folder);
    switch (header.op) {
      case 'stat':
        return { header: statOf(await this.#find(ownerId, folder, header.path)) };
      case 'read':
        return this.#read(await this.#existing(ownerId, folder, header.path), header);
      case 'begin':
        return this.#begin(ownerId, folder, header);
      case 'append':
        await this.#uploadOf(ownerId, folder, header.upload).append(body);
        return { header: {} };
      case 'finish':
        return this.#finish(this.#uploadOf(ownerId, folder, header.upload));
      case 'delete': {
        const deleted = await this.#files.delete({ ownerId, folder, path: normalisePath(header.path) });
        return { header: { deleted } };
      }
      case 'list':
        return this.#list(ownerId, folder, header);
      case 'url': {
        const file = await this.#existing(ownerId, folder, header.path);
        return { header: { url: this.#urls.urlOf(file.id) } };
      }
      default:
        throw new CallerError('invalid_parameter', 'op: files have no such operation', { parameter: 'op' });
    }
  }

  #find(ownerId: string, folder: string, path: unknown): Promise<FileRow | undefined> {
    return this.#files.find({ ownerId, folder, path: normalisePath(path) });
  }

  async #existing(ownerId: string, folder: string, path: unknown): Promise<FileRow> {
    const file = await this.#find(ownerId, folder, path);
    if (file === undefined)
      throw new CallerError('not_found', `there is no file ${JSON.stringify(normalisePath(path))}`);
    return file;
  }

  async #read(file: FileRow, header: Record<string, unknown>): Promise<HostCallAnswer> {
    const offset = wholeNumber(header, 'offset', 0);
    const length = Math.min(wholeNumber(header, 'length', readBytesMax), readBytesMax);
    const last = Math.min(offset + length, file.size) - 1;
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.#files.read(file, { first: offset, last })) chunks.push(chunk);
    // By the etag a caller that reads piece by piece sees that the file was replaced in between.
    return { header: { size: file.size, etag: file.sha256 }, body: Buffer.concat(chunks) };
  }

  async #begin(ownerId: string, folder: string, header: Record<string, unknown>): Promise<HostCallAnswer> {
    const path = normalisePath(header.path);
    await this.#makeRoom(ownerId);
    const upload = await this.#files.begin({
      ownerId,
      folder,
      path,
      contentType: contentTypeOf(header.content_type),
      expiresAtMs: null,
    });
    this.#uploads.set(upload.id, { ownerId, folder, upload });
    return { header: { upload: upload.id } };
  }

  /** Code may begin uploads and forget them: those go that were idle for long, and the longest idle for a new one. */
  async #makeRoom(ownerId: string): Promise<void> {
    const own = [...this.#uploads.values()].filter((open) => open.ownerId === ownerId);
    const given = new Set<OpenUpload>();
    for (const open of this.#uploads.values()) {
      if (open.upload.lastUsedAtMs > this.#clock.now() - forgottenMs) break;
      given.add(open);
    }
    const [oldest] = this.#uploads.values();
    if (own.length >= uploadsPerOwnerMax && own[0] !== undefined) given.add(own[0]);
    if (this.#uploads.size >= uploadsMax && oldest !== undefined) given.add(oldest);
    for (const { upload } of given) {
      this.#uploads.delete(upload.id);
      await upload.abandon();
    }
  }

  #uploadOf(ownerId: string, folder: string, id: unknown): FileUpload {
    const open = typeof id === 'string' ? this.#uploads.get(id) : undefined;
    if (open === undefined || open.ownerId !== ownerId || open.folder !== folder) throw uploadGone();
    this.#uploads.delete(open.upload.id);
    this.#uploads.set(open.upload.id, open);
    return open.upload;
  }

  async #finish(upload: FileUpload): Promise<HostCallAnswer> {
    this.#uploads.delete(upload.id);
    try {
      const file = await upload.finish();
      return { header: { size: file.size, etag: file.sha256 } };
    } catch (error) {
      await upload.abandon();
      throw error;
    }
  }

  async #list(ownerId: string, folder: string, header: Record<string, unknown>): Promise<HostCallAnswer> {
    const rows = await this.#files.list({
      ownerId,
      folder,
      prefix: normalisePrefix(header.prefix),
      after: typeof header.after === 'string' && !header.after.includes('\0') ? header.after : '',
      limit: listPage + 1,
    });
    const entries: Record<string, unknown>[] = [];
    let characters = 0;
    let last: string | undefined;
    for (const { path, size, content_type, updated_at_ms } of rows.slice(0, listPage)) {
      if (characters > listCharactersMax) break;
      characters += path.length;
      last = path;
      entries.push({ path, size, content_type, updated_at_ms });
    }
    return { header: { entries, ...(entries.length < rows.length ? { next: last } : {}) } };
  }
}

function statOf(file: FileRow | undefined): Record<string, unknown> {
  if (file === undefined) return { exists: false };
  const { size, content_type, updated_at_ms, sha256 } = file;
  return { exists: true, size, content_type, updated_at_ms, etag: sha256 };
}

function wholeNumber(header: Record<string, unknown>, name: string, otherwise: number): number {
  const value = header[name] ?? otherwise;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new CallerError('invalid_parameter', `${name}: expected a whole number from 0`, { parameter: name });
}

/** The value of a later response header: one line of visible characters, else no particular type. */
export function contentTypeOf(given: unknown): string {
  if (
    typeof given === 'string' &&
    given.length <= contentTypeLengthMax &&
    /^[\x21-\x7e][\x20-\x7e]*$/.test(given)
  )
    return given;
  return 'application/octet-stream';
}
