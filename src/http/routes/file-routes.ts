import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '#http/route-support.ts';
import type { UntakenAnswer } from '#http/untaken-answers.ts';
import { CallerError } from '#lib/errors.ts';
import { chunkBytes } from '#user-data/files/file-content.ts';
import type { FileRow } from '#user-data/files/file-store.ts';
import type { FileUrls } from '#user-data/files/file-urls.ts';
import type { ByteRange, StoredFiles } from '#user-data/files/stored-files.ts';

export interface FileRouteOptions {
  files: Pick<StoredFiles, 'findById' | 'read'>;
  fileUrls: Pick<FileUrls, 'accepts'>;
}

/**
 * The routes of signed URLs of stored files. The signature is the key; a wrong one, a file that is gone and one that
 * never was are answered alike. The content comes from users: it is only downloaded, and never runs in a browser.
 */
export function fileRoutes(app: App, { files, fileUrls }: FileRouteOptions): void {
  app.route({
    method: ['GET', 'HEAD'],
    url: '/files/:id',
    config: { userContent: true },
    // No operation of the API: these URLs are not made by hand.
    schema: { hide: true },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const { id } = request.params as { id: string };
      const { expires, signature } = request.query as Record<string, unknown>;
      const file = fileUrls.accepts(id, expires, signature) ? await files.findById(id) : undefined;
      if (file === undefined)
        throw new CallerError('not_found', 'there is no such file, or the time of this URL has passed');
      // By owner and address, as replies of endpoints are.
      const untaken = app.untakenAnswers.begin(`${file.owner_id} ${request.ip}`, reply.raw);
      return sendFile(request, reply, file, {
        read: (range) => whenTaken(files.read(file, range), range, untaken),
      });
    },
  });
}

async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: FileRow,
  { read }: { read: (range: ByteRange) => AsyncGenerator<Uint8Array, void> },
): Promise<FastifyReply> {
  const etag = `"${file.sha256}"`;
  const range = wantedRange(request, file.size, etag);
  const sent = range === undefined || range === 'unsatisfiable' ? { first: 0, last: file.size - 1 } : range;
  const isRead = request.method !== 'HEAD' && range !== 'unsatisfiable';
  // Before the head of the answer, so that content that cannot be read is an error and no broken download.
  const content = isRead ? await begun(read(sent)) : undefined;
  reply.headers({
    'content-type': file.content_type,
    'content-disposition': dispositionOf(file.path),
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-store',
    'cross-origin-resource-policy': 'cross-origin',
    'access-control-allow-origin': '*',
    'accept-ranges': 'bytes',
    'last-modified': new Date(file.updated_at_ms).toUTCString(),
    etag,
  });
  if (range === 'unsatisfiable') {
    return reply
      .code(416)
      .header('content-range', `bytes */${file.size}`)
      .removeHeader('content-type')
      .send();
  }
  if (range !== undefined)
    reply.code(206).header('content-range', `bytes ${range.first}-${range.last}/${file.size}`);
  reply.header('content-length', sent.last - sent.first + 1);
  if (content === undefined) return reply.send();
  return reply.send(Readable.from(content, { objectMode: false, highWaterMark: 64 * 1024 }));
}

/** The same content, each piece of which is read when there is room for it beside those that were not taken yet. */
async function* whenTaken(
  content: AsyncGenerator<Uint8Array, void>,
  { first, last }: ByteRange,
  untaken: UntakenAnswer,
): AsyncGenerator<Uint8Array, void> {
  // No room is waited for after the last piece: a download that is over would not end.
  for (let left = last + 1 - first; left > 0; ) {
    const expected = Math.min(left, chunkBytes);
    await untaken.turn(expected);
    const { done, value } = await content.next();
    if (done === true) return;
    left -= value.length;
    yield value;
    untaken.sends(expected);
  }
}

/** The same content, when its first piece could be read. */
async function begun(content: AsyncGenerator<Uint8Array, void>): Promise<AsyncIterable<Uint8Array>> {
  const first = await content.next();
  return (async function* () {
    if (first.done === true) return;
    yield first.value;
    yield* content;
  })();
}

/** A download under the last part of its path. */
function dispositionOf(path: string): string {
  const name = path.split('/').at(-1) ?? 'file';
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(/['()*]/g, (character) => {
    return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
  });
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** One range of bytes (RFC 9110, 14); several ranges, and malformed ones, count as none. */
function wantedRange(
  request: FastifyRequest,
  size: number,
  etag: string,
): ByteRange | 'unsatisfiable' | undefined {
  const { range, 'if-range': condition } = request.headers;
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(range ?? '');
  if (match === null || (condition !== undefined && condition !== etag)) return undefined;
  const [, from = '', to = ''] = match;
  if (from === '' && to === '') return undefined;
  if (from === '') {
    const suffix = Math.min(Number(to), size);
    return suffix === 0 ? 'unsatisfiable' : { first: size - suffix, last: size - 1 };
  }
  if (to !== '' && Number(to) < Number(from)) return undefined;
  if (Number(from) >= size) return 'unsatisfiable';
  return { first: Number(from), last: to === '' ? size - 1 : Math.min(Number(to), size - 1) };
}
