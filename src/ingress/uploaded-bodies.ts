import type { Hash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { errorCodes } from 'fastify';
import type { Clock } from '#lib/clock.ts';
import { newSecret } from '#lib/ids.ts';
import { contentTypeOf } from '#user-data/files/file-host-calls.ts';
import { uploadFolder } from '#user-data/files/file-path.ts';
import { type FileUrls, urlLifetimeMs } from '#user-data/files/file-urls.ts';
import type { StoredFiles } from '#user-data/files/stored-files.ts';

/** How much longer than its URL a body is kept: a download that began in time is to end. */
const marginMs = 5 * 60 * 1000;

/** A body that is read while it is stored. */
export interface UnreadBody {
  headers: IncomingHttpHeaders;
  content: AsyncIterable<Uint8Array>;
}

/** Bodies, and files in forms, that are too large to be in events: set aside, and read through signed URLs. */
export class UploadedBodies {
  readonly #files: StoredFiles;
  readonly #urls: FileUrls;
  readonly #clock: Clock;
  readonly #bytesMax: number;

  constructor(options: { files: StoredFiles; urls: FileUrls; clock: Clock; bytesMax: number }) {
    this.#files = options.files;
    this.#urls = options.urls;
    this.#clock = options.clock;
    this.#bytesMax = options.bytesMax;
  }

  /**
   * Stores the body of a request as it comes in, and adds it to `digest`; its URL. Throws FST_ERR_CTP_BODY_TOO_LARGE,
   * CallerError `files_full`.
   */
  store(ownerId: string, body: UnreadBody, contentType: string | undefined, digest?: Hash): Promise<string> {
    return this.keep(
      { ownerId, name: 'body', contentType: contentType ?? '' },
      this.#contentOf(body, digest),
    );
  }

  /** Reads the body of a request to add it to `digest`, and keeps nothing. Throws FST_ERR_CTP_BODY_TOO_LARGE. */
  async read(body: UnreadBody, digest: Hash): Promise<void> {
    for await (const _ of this.#contentOf(body, digest));
  }

  #contentOf({ headers, content }: UnreadBody, digest: Hash | undefined): AsyncIterable<Uint8Array> {
    const bytesMax = this.#bytesMax;
    if (Number(headers['content-length']) > bytesMax) {
      throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
    }
    return atMost(content, bytesMax, digest);
  }

  /** Stores content under a name; its URL. Throws CallerError `files_full`. */
  async keep(
    file: { ownerId: string; name: string; contentType: string },
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<string> {
    const stored = await this.#files.put(
      {
        ownerId: file.ownerId,
        folder: uploadFolder,
        path: `${newSecret(20)}/${nameOf(file.name)}`,
        contentType: contentTypeOf(file.contentType),
        expiresAtMs: this.#clock.now() + urlLifetimeMs + marginMs,
      },
      content,
    );
    return this.#urls.urlOf(stored.id);
  }
}

/** The bytes of a body. Giving up reading does not end the connection, on which there is still an answer to send. */
export function bodyOf(request: IncomingMessage): AsyncIterable<Buffer> {
  return { [Symbol.asyncIterator]: () => request.iterator({ destroyOnReturn: false }) };
}

async function* atMost(
  content: AsyncIterable<Uint8Array>,
  bytesMax: number,
  digest: Hash | undefined,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of content) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
    digest?.update(chunk);
    yield chunk;
  }
}

/** Only the last part of what a caller calls a file: it names a download, and never a place. */
function nameOf(given: string): string {
  const name =
    given
      .toWellFormed()
      .split(/[/\\]/)
      .at(-1)
      ?.replaceAll(/\p{Cc}/gu, '')
      .slice(0, 200) ?? '';
  return name === '' || name === '.' || name === '..' ? 'file' : name.toWellFormed();
}
