import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { fileURLToPath } from 'node:url';
import { contentTypeOf, extensionOf } from './platform-file-types.ts';

export interface FileMetadata {
  /** Bytes. */
  size: number;
  contentType?: string;
  name?: string;
  lastModified?: Date;
  etag?: string;
}

/** The content of a local path, a `file:` URL, an http(s) URL or a `data:` URL. */
export async function getFileStream(pathOrUrl: string): Promise<Readable> {
  if (isHttp(pathOrUrl)) return bodyOf(await fetchFile(pathOrUrl));
  return (await openLocal(pathOrUrl)).stream;
}

/**
 * The same with the metadata of the file. The size is always known: a download whose length the server does not
 * send is first written to a temporary file, which is removed when the stream has closed.
 */
export async function getFileStreamAndMetadata(
  pathOrUrl: string,
): Promise<{ stream: Readable; metadata: FileMetadata }> {
  if (!isHttp(pathOrUrl)) return openLocal(pathOrUrl);
  const response = await fetchFile(pathOrUrl);
  const known = metadataOf(response);
  if (known.size !== undefined) return { stream: bodyOf(response), metadata: { ...known, size: known.size } };
  const spooled = await spool(bodyOf(response));
  return { stream: spooled.stream, metadata: { ...known, size: spooled.size } };
}

function isHttp(pathOrUrl: string): boolean {
  return /^https?:\/\//i.test(pathOrUrl);
}

async function openLocal(pathOrUrl: string): Promise<{ stream: Readable; metadata: FileMetadata }> {
  if (/^data:/i.test(pathOrUrl)) return openDataUrl(pathOrUrl);
  const path = /^file:\/\//i.test(pathOrUrl) ? fileURLToPath(pathOrUrl) : pathOrUrl;
  const found = await stat(path);
  if (!found.isFile()) throw new Error(`not a file: ${path}`);
  const metadata: FileMetadata = { size: found.size, name: basename(path), lastModified: found.mtime };
  const contentType = contentTypeOf(path);
  if (contentType !== undefined) metadata.contentType = contentType;
  return { stream: await openToRead(path), metadata };
}

/** Resolves with an open file, so that the caller, and no unhandled event, gets the error of a file that may not be read. */
async function openToRead(path: string): Promise<Readable> {
  const stream = createReadStream(path);
  await once(stream, 'open');
  return stream;
}

function openDataUrl(url: string): { stream: Readable; metadata: FileMetadata } {
  const comma = url.indexOf(',');
  if (comma === -1) throw new Error('not a data URL: it has no comma');
  const [type = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const isBase64 = parameters.at(-1)?.trim().toLowerCase() === 'base64';
  const payload = url.slice(comma + 1);
  const content = isBase64
    ? Buffer.from(decodePercent(payload).toString('latin1'), 'base64')
    : decodePercent(payload);
  const contentType = type.trim() || 'text/plain';
  const metadata: FileMetadata = {
    size: content.length,
    contentType,
    name: nameInDataUrl(parameters, contentType),
  };
  // An object-mode `Readable.from(buffer)` gives one chunk, which is what an empty file must not have.
  return { stream: Readable.from(content.length > 0 ? [content] : [], { objectMode: false }), metadata };
}

/** Always a name: an upload without one is no file to many services. */
function nameInDataUrl(parameters: string[], contentType: string): string {
  const given = parameters
    .map((it) => /^\s*(?:file)?name=(.+)$/is.exec(it)?.[1])
    .find((it) => it !== undefined);
  return lastPart(decoded(given)) ?? `file${extensionOf(contentType)}`;
}

/** Percent escapes are bytes, which need not be UTF-8: `decodeURIComponent` would refuse them. */
function decodePercent(text: string): Buffer {
  if (!text.includes('%')) return Buffer.from(text, 'utf8');
  const bytes = text
    .split(/(%[0-9a-f]{2})/i)
    .map((part, index) => (index % 2 === 1 ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part, 'utf8')));
  return Buffer.concat(bytes);
}

async function fetchFile(url: string): Promise<Response> {
  const response = await fetch(url);
  if (response.ok) return response;
  await response.body?.cancel();
  throw new Error(
    `could not download ${new URL(url).origin}: HTTP ${response.status} ${response.statusText}`.trim(),
  );
}

function bodyOf(response: Response): Readable {
  // The same object under two names: fetch's types know it as the DOM's ReadableStream.
  return response.body === null ? Readable.from([]) : Readable.fromWeb(response.body as ReadableStream);
}

function metadataOf(response: Response): Omit<FileMetadata, 'size'> & { size?: number } {
  const { headers } = response;
  const metadata: Omit<FileMetadata, 'size'> & { size?: number } = {};
  const length = headers.get('content-length');
  // The length of a compressed answer is not that of what we read.
  if (length !== null && /^\d+$/.test(length) && headers.get('content-encoding') === null)
    metadata.size = Number(length);
  const name = nameOf(response);
  if (name !== undefined) metadata.name = name;
  const contentType = headers.get('content-type') ?? (name === undefined ? undefined : contentTypeOf(name));
  if (contentType !== undefined) metadata.contentType = contentType;
  const lastModified = new Date(headers.get('last-modified') ?? Number.NaN);
  if (!Number.isNaN(lastModified.getTime())) metadata.lastModified = lastModified;
  const etag = headers.get('etag');
  if (etag !== null) metadata.etag = etag;
  return metadata;
}

function nameOf(response: Response): string | undefined {
  const disposition = response.headers.get('content-disposition') ?? '';
  const extended = /filename\*\s*=\s*utf-8''([^;]+)/i.exec(disposition)?.[1];
  const plain = /filename\s*=\s*(?:"([^"]*)"|([^;]+))/i.exec(disposition);
  const last = new URL(response.url).pathname.split('/').at(-1);
  return lastPart(decoded(extended) ?? plain?.[1] ?? plain?.[2]?.trim() ?? decoded(last));
}

/** A name from the other side is not a path. */
function lastPart(name: string | undefined): string | undefined {
  return name?.split(/[/\\]/).at(-1) || undefined;
}

function decoded(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function spool(content: Readable): Promise<{ stream: Readable; size: number }> {
  const path = join(tmpdir(), `download-${randomUUID()}`);
  try {
    await pipeline(content, createWriteStream(path, { flags: 'wx', mode: 0o600 }));
    const { size } = await stat(path);
    const stream = await openToRead(path);
    stream.once('close', () => void rm(path, { force: true }));
    return { stream, size };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}
