import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { type GuardedFetchOptions, guardedFetch } from '#egress/guarded-fetch.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import { durationText } from '#lib/units.ts';
import {
  type Capabilities,
  cloneAdvice,
  GitProtocolError,
  PacketReader,
  packets,
  readCapabilities,
} from './git-protocol.ts';

const service = 'git-upload-pack';
/** A repository has many refs, and each line is short. */
const refsBytesMax = 64 * 1024 * 1024;
const shortTimeoutMs = 60_000;
const agent = 'agent=millrace';
/** Some hosts have the repository and its page at one URL, and recognise Git clients by this header. */
const userAgent = 'git/millrace';
const objectFormat = 'object-format=sha1';

export interface GitFetch {
  wants: readonly string[];
  /** Their history is known. */
  haves?: readonly string[];
  /** Without the contents of files, where the server can do that. */
  withoutBlobs?: boolean;
  /** Only the commits that are wanted, without their history. */
  isShallow?: boolean;
  /** Where the pack is written to. */
  path: string;
  bytesMax: number;
  timeoutMs: number;
  onBytes?: (bytes: number) => void;
  signal: AbortSignal;
}

/**
 * One repository on a server, by version 2 of Git's protocol over HTTP. The connections are guarded as all of the service: private
 * addresses are refused unless the operator allows them. Nothing is read here but frames: packs are written to files.
 *
 * Throws CallerError `repository_refused` where the server answers, and what it answers cannot be used; UnavailableError
 * `repository_unreachable` where trying again may help.
 */
export class GitClient {
  readonly #dispatcher: GuardedDispatcher;
  readonly #url: string;
  #base: string;
  #capabilities: Capabilities | undefined;

  constructor(options: { dispatcher: GuardedDispatcher; url: string }) {
    this.#dispatcher = options.dispatcher;
    this.#url = options.url.replace(/\/+$/, '');
    this.#base = this.#url;
  }

  /** The object that a branch or tag names; '' is the branch that a clone would get. Null: there is none. */
  async resolve(ref: string, signal: AbortSignal): Promise<string | null> {
    await this.#greet(signal);
    const names =
      ref === '' ? ['HEAD'] : ref.startsWith('refs/') ? [ref] : [`refs/tags/${ref}`, `refs/heads/${ref}`];
    const found = new Map<string, string>();
    const body = packets(
      ...['command=ls-refs', agent, objectFormat, 'delimiter', 'peel'],
      ...names.map((name) => `ref-prefix ${name}`),
      'flush',
    );
    await this.#post(body, { maxBytes: refsBytesMax, timeoutMs: shortTimeoutMs, signal }, (packet) => {
      if (typeof packet === 'string') return;
      const [, oid, name, rest = ''] =
        /^([0-9a-f]{40}) (\S+)(.*)$/.exec(packet.toString('utf8').trimEnd()) ?? [];
      if (oid === undefined || name === undefined) return;
      found.set(name, / peeled:([0-9a-f]{40})/.exec(rest)?.[1] ?? oid);
    });
    const name = names.find((one) => found.has(one));
    return name === undefined ? null : (found.get(name) ?? null);
  }

  /** Writes a pack with what is wanted. */
  async download(wanted: GitFetch): Promise<void> {
    const { hasFilter, hasShallow } = await this.#greet(wanted.signal);
    const body = packets(
      ...['command=fetch', agent, objectFormat, 'delimiter', 'ofs-delta'],
      ...(wanted.isShallow === true && hasShallow ? ['deepen 1'] : []),
      ...(wanted.withoutBlobs === true && hasFilter ? ['filter blob:none'] : []),
      ...wanted.wants.map((oid) => `want ${oid}`),
      ...(wanted.haves ?? []).map((oid) => `have ${oid}`),
      ...['done', 'flush'],
    );
    const file = createWriteStream(wanted.path, { mode: 0o600 });
    const closed = finished(file);
    // It is awaited below; a failure to write shows there.
    closed.catch(() => {});
    let isPack = false;
    let bytes = 0;
    try {
      await this.#post(
        body,
        { maxBytes: wanted.bytesMax, timeoutMs: wanted.timeoutMs, signal: wanted.signal },
        (packet) => {
          if (typeof packet === 'string') return;
          if (!isPack) {
            isPack = packet.toString('latin1').trimEnd() === 'packfile';
            return;
          }
          // The first byte says what it is: 1 the pack, 2 progress in words, 3 why it ended.
          if (packet[0] === 3) throw new GitProtocolError(refusalOf(packet.subarray(1)));
          if (packet[0] !== 1) return;
          file.write(Buffer.from(packet.subarray(1)));
          bytes += packet.length - 1;
        },
        async () => {
          wanted.onBytes?.(bytes);
          if (file.writableNeedDrain)
            await Promise.race([new Promise((resolve) => file.once('drain', resolve)), closed]);
        },
      );
      if (!isPack) throw this.#refused(`the server sent nothing: try again, or ${cloneAdvice}`);
      file.end();
      await closed;
    } finally {
      file.destroy();
    }
  }

  async #greet(signal: AbortSignal): Promise<Capabilities> {
    if (this.#capabilities !== undefined) return this.#capabilities;
    const path = `/info/refs?service=${service}`;
    const response = await this.#request(`${this.#base}${path}`, {
      ...{ maxBytes: refsBytesMax, timeoutMs: shortTimeoutMs, signal },
    });
    const { url, body } = response;
    if (!url.endsWith(path))
      throw this.#refused('the server redirects to something else: give the URL that git clone takes');
    this.#base = url.slice(0, -path.length);
    this.#capabilities = this.#readAs(() => readCapabilities(body));
    return this.#capabilities;
  }

  async #post(
    body: string,
    options: Pick<GuardedFetchOptions, 'maxBytes' | 'timeoutMs' | 'signal'>,
    onPacket: (packet: Buffer | 'flush' | 'delimiter') => void,
    afterChunk: () => Promise<void> = async () => {},
  ): Promise<void> {
    const reader = new PacketReader((packet) => {
      if (typeof packet !== 'string' && packet.length < 4096) {
        const text = packet.toString('latin1', 0, 4);
        if (text === 'ERR ') throw new GitProtocolError(refusalOf(packet.subarray(4)));
      }
      onPacket(packet);
    });
    await this.#request(`${this.#base}/${service}`, {
      method: 'POST',
      headers: {
        'content-type': `application/x-${service}-request`,
        accept: `application/x-${service}-result`,
      },
      body,
      maxRedirects: 0,
      ...options,
      receive: async (chunk) => {
        reader.take(chunk);
        await afterChunk();
      },
    });
    this.#readAs(() => reader.end());
  }

  async #request(url: string, options: Omit<GuardedFetchOptions, 'dispatcher'>) {
    let response: Awaited<ReturnType<typeof guardedFetch>>;
    try {
      const headers = { 'user-agent': userAgent, 'git-protocol': 'version=2', ...options.headers };
      response = await guardedFetch(url, { dispatcher: this.#dispatcher, ...options, headers });
    } catch (error) {
      if (options.signal?.aborted === true) throw options.signal.reason;
      if (error instanceof GitProtocolError) throw this.#refused(error.message);
      const { code, message } = toError(error) as NodeJS.ErrnoException;
      if (code === 'ERR_BODY_TOO_LARGE') throw this.#refused(`${message}: ${cloneAdvice}`);
      const isLate = error instanceof Error && error.name === 'TimeoutError';
      const reason = isLate
        ? `no whole answer within ${durationText(options.timeoutMs ?? shortTimeoutMs)}: try again later, or ${cloneAdvice}`
        : code === 'EACCES'
          ? message
          : requestFailure(code, message);
      throw new UnavailableError('repository_unreachable', `${this.#url}: ${reason}`, { cause: error });
    }
    const { status } = response;
    if (status === 200) return response;
    if (status === 401 || status === 403 || status === 404)
      throw this.#refused(
        `the server answers ${status}: no public repository has this URL. Check it; if the repository is private, ${cloneAdvice}`,
      );
    if (status === 429 || status >= 500)
      throw new UnavailableError(
        'repository_unreachable',
        `${this.#url}: the server answers ${status}: try again later`,
      );
    throw this.#refused(`the server answers ${status}: give the URL that git clone takes`);
  }

  #readAs<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof GitProtocolError) throw this.#refused(error.message);
      throw error;
    }
  }

  #refused(message: string): CallerError {
    return new CallerError('repository_refused', `${this.#url}: ${message}`, { url: this.#url });
  }
}

function requestFailure(code: string | undefined, message: string): string {
  if (code === 'ENOTFOUND') return 'there is no host of this name';
  if (code === 'ECONNREFUSED') return 'the host accepts no connection';
  return `the request failed (${code ?? message})`;
}

/** The reason that a server gives in words of its own. */
function refusalOf(bytes: Buffer): string {
  return `the server ended the request with ${JSON.stringify(shown(bytes))}: check the URL and the ref; if the server allows only its own users, ${cloneAdvice}`;
}

/** What a server says, as it can be shown. */
function shown(bytes: Buffer): string {
  return bytes
    .toString('utf8')
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim()
    .slice(0, 300);
}
