import { setTimeout as pause } from 'node:timers/promises';
import { XMLParser } from 'fast-xml-parser';
import { endpointOf, type ObjectStorage, reasonOfFailure, requestObject } from '#egress/object-storage.ts';
import { UnavailableError } from '#lib/errors.ts';

export interface BucketObject {
  key: string;
  /** When it was written, by the clock of the storage. */
  writtenAtMs: number;
}

/** Time of one request; far more than a megabyte takes. */
const timeoutMs = 20_000;
/** Waits before the tries that follow an answer such as "slow down", or a connection that broke. A request that hangs is not tried again. */
const retryWaitsMs = [200, 1_000];
/** Objects are chunks of 1 MB, a page of a list has up to 1,000 keys. */
const answerBytesMax = 4 * 1024 * 1024;
/** Requests under way to remove objects. */
const removalsAtOnce = 8;

/**
 * Objects of one bucket whose keys begin with a prefix; keys are told without it. Every operation may be repeated. Throws
 * UnavailableError `files_unavailable`, which says what the storage answered, and never a key.
 */
export class FileBucket {
  /** `<bucket>/<prefix>`. */
  readonly name: string;
  readonly #storage: ObjectStorage;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #timeoutMs: number;

  constructor(options: { storage: ObjectStorage; bucket: string; prefix: string; timeoutMs?: number }) {
    this.#storage = options.storage;
    this.#bucket = options.bucket;
    this.#prefix = options.prefix;
    this.#timeoutMs = options.timeoutMs ?? timeoutMs;
    this.name = `${options.bucket}/${options.prefix}`;
  }

  /** The key with the prefix, for messages. */
  fullKey(key: string): string {
    return `${this.#prefix}${key}`;
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    await this.#request({ method: 'PUT', key: this.fullKey(key), body }, [200, 201, 204]);
  }

  /** Undefined: there is none. */
  async get(key: string): Promise<Buffer | undefined> {
    const { status, body } = await this.#request({ method: 'GET', key: this.fullKey(key) }, [200, 404]);
    // A bucket that is gone is no object that is gone.
    if (status === 404 && codeOf(body) === 'NoSuchBucket') throw this.#failure('GET', status, body);
    return status === 404 ? undefined : body;
  }

  /** Also when there is none. */
  async remove(key: string): Promise<void> {
    const { status, body } = await this.#request(
      { method: 'DELETE', key: this.fullKey(key) },
      [200, 204, 404],
    );
    if (status === 404 && codeOf(body) === 'NoSuchBucket') throw this.#failure('DELETE', status, body);
  }

  async removeAll(keys: readonly string[], signal?: AbortSignal): Promise<void> {
    for (let at = 0; at < keys.length; at += removalsAtOnce) {
      signal?.throwIfAborted();
      await Promise.all(keys.slice(at, at + removalsAtOnce).map((key) => this.remove(key)));
    }
  }

  /** Objects whose keys begin so, a page (of up to 1,000) at a time. */
  async *list(prefix: string): AsyncGenerator<BucketObject[]> {
    for (let token: string | undefined; ; ) {
      const { body } = await this.#request(
        {
          method: 'GET',
          query: {
            'list-type': '2',
            prefix: this.fullKey(prefix),
            ...(token === undefined ? {} : { 'continuation-token': token }),
          },
        },
        [200],
      );
      const page = this.#readPage(body);
      yield page.objects;
      if (page.next === undefined) return;
      token = page.next;
    }
  }

  #readPage(body: Buffer): { objects: BucketObject[]; next: string | undefined } {
    const { ListBucketResult: result } = parseXml(body) as { ListBucketResult?: ListResult };
    if (result === undefined)
      throw this.#unavailable('answered a list of objects with something else than a list');
    const objects = (result.Contents ?? []).flatMap(({ Key: key = '', LastModified: at = '' }) => {
      const writtenAtMs = Date.parse(at);
      if (!key.startsWith(this.#prefix) || Number.isNaN(writtenAtMs)) return [];
      return [{ key: key.slice(this.#prefix.length), writtenAtMs }];
    });
    return { objects, next: result.IsTruncated === 'true' ? result.NextContinuationToken : undefined };
  }

  async #request(
    request: {
      method: 'GET' | 'PUT' | 'DELETE';
      key?: string;
      query?: Record<string, string>;
      body?: Uint8Array;
    },
    expected: readonly number[],
  ): Promise<{ status: number; body: Buffer }> {
    for (const waitMs of [...retryWaitsMs, undefined]) {
      let answer: { status: number; body: Buffer };
      try {
        answer = await requestObject(this.#storage, {
          ...request,
          bucket: this.#bucket,
          maxBytes: answerBytesMax,
          timeoutMs: this.#timeoutMs,
        });
      } catch (error) {
        if (waitMs !== undefined && brokenCodes.has(String(Object(error).code))) {
          await pause(waitMs);
          continue;
        }
        throw this.#unavailable(`cannot be reached: ${reasonOfFailure(error)}`, error);
      }
      if (expected.includes(answer.status)) return answer;
      const isPassing = answer.status >= 500 || answer.status === 429;
      if (waitMs === undefined || !isPassing) {
        const operation = request.query === undefined ? request.method : 'LIST';
        throw this.#failure(operation, answer.status, answer.body);
      }
      await pause(waitMs);
    }
    throw new Error('the last try returns or throws');
  }

  #failure(operation: string, status: number, body: Buffer): UnavailableError {
    const code = codeOf(body);
    return this.#unavailable(`answers ${operation} with ${status}${code === '' ? '' : ` ${code}`}`);
  }

  #unavailable(text: string, cause?: unknown): UnavailableError {
    const { host } = new URL(endpointOf(this.#storage));
    return new UnavailableError(
      'files_unavailable',
      `the bucket ${this.#bucket} for files, at ${host}, ${text}`,
      ...(cause === undefined ? [] : [{ cause }]),
    );
  }
}

/** The connection ended without an answer. */
const brokenCodes = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

interface ListResult {
  Contents?: { Key?: string; LastModified?: string }[];
  IsTruncated?: string;
  NextContinuationToken?: string;
}

const parser = new XMLParser({ parseTagValue: false, isArray: (name) => name === 'Contents' });

function parseXml(body: Buffer): Record<string, unknown> {
  try {
    return parser.parse(body) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** The code of an error of the S3 protocol, such as AccessDenied; '' where there is none. */
function codeOf(body: Buffer): string {
  if (body.length > 64 * 1024) return '';
  const code = (parseXml(body) as { Error?: { Code?: unknown } }).Error?.Code;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : '';
}
