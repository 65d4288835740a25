import { setTimeout as delay } from 'node:timers/promises';
import { durationText } from './amounts.ts';
import { isObject } from './api.ts';
import { CliError, usageError } from './exit-codes.ts';

/** Where the public API of Pipedream is. */
export const pipedreamUrl = 'https://api.pipedream.com/v1';

const timeoutMs = 30_000;
/** Tries of one request, the first included. */
const triesMax = 6;
/** The longest wait that an answer may ask for. */
const waitMaxMs = 5 * 60_000;
/** Maximum of one answer. */
const answerBytesMax = 16 * 1024 * 1024;
/** Maximum of all answers: they become a part of one bundle. */
const totalBytesMax = 40 * 1024 * 1024;
const pageSize = 100;

/** Why a part could not be read, though the rest can. */
export class Unreadable extends Error {}

export interface PipedreamApiOptions {
  /** With or without `/v1`. */
  url: string;
  /** API key of a user. */
  key: string;
  signal: AbortSignal;
  /** Called before a wait that the API asked for. */
  onWait: (text: string) => void;
}

/**
 * Reads the public REST API of Pipedream, or of a service with the same API. It only reads, requests nothing but its base URL, and follows no
 * redirect. Methods throw `Unreadable` for a part that the API does not have or the key may not read, and `CliError` for what ends the whole.
 */
export class PipedreamApi {
  readonly url: string;
  readonly #options: PipedreamApiOptions;
  #bytes = 0;

  constructor(options: PipedreamApiOptions) {
    this.url = baseUrl(options.url);
    this.#options = options;
    if (!/^[\x21-\x7e]{8,4096}$/.test(options.key))
      throw usageError('--api-key-file: expected a file with an API key and nothing else');
  }

  /** `data` of an answer, or the answer where it has none. `what`: what is read, for messages. */
  async get(path: string, what: string, query: Readonly<Record<string, string>> = {}): Promise<unknown> {
    const answer = await this.#request(path, what, query);
    return isObject(answer) && answer.data !== undefined ? answer.data : answer;
  }

  /** The items of a list, page by page, `max` at most. Lists without pages are one page. */
  async list(path: string, what: string, max: number): Promise<unknown[]> {
    const items: unknown[] = [];
    const seen = new Set<string>();
    let after: string | undefined;
    while (items.length < max) {
      const query = { limit: String(pageSize), ...(after === undefined ? {} : { after }) };
      const answer = await this.#request(path, what, query);
      const { data, page_info: page } = isObject(answer) ? answer : {};
      if (!Array.isArray(data)) throw new Unreadable('the answer is no list');
      const fresh = data.filter((item) => isFresh(item, seen));
      items.push(...fresh);
      const end = isObject(page) ? page.end_cursor : undefined;
      if (fresh.length === 0 || typeof end !== 'string' || end === '' || end === after) break;
      after = end;
    }
    if (items.length >= max)
      throw new CliError('failed', `${what}: found ${max} or more, which is more than an import takes`);
    return items;
  }

  async #request(path: string, what: string, query: Readonly<Record<string, string>>): Promise<unknown> {
    const address = `${this.url}${path}?${new URLSearchParams(query).toString()}`.replace(/\?$/, '');
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#attempt(address);
      if (answer instanceof Response) {
        if (answer.ok) return await this.#json(answer);
        await answer.body?.cancel();
        refuse(answer.status, what, this.url);
      }
      if (tries === triesMax) throw this.#unreachable(answer, what);
      await this.#wait(answer, tries);
    }
  }

  /** An Error when no answer came. */
  async #attempt(address: string): Promise<Response | Error> {
    const { key, signal } = this.#options;
    try {
      return await fetch(address, {
        headers: { authorization: `Bearer ${key}`, accept: 'application/json' },
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
    } catch (error) {
      if (signal.aborted) throw new CliError('interrupted', 'interrupted');
      return error as Error;
    }
  }

  async #wait(answer: Response | Error, tries: number): Promise<void> {
    const header = answer instanceof Response ? answer.headers.get('retry-after') : null;
    const asked = header === null ? undefined : retryAfterMs(header);
    const ms = asked ?? 500 * 2 ** (tries - 1);
    if (ms > waitMaxMs)
      throw new CliError('busy', `${this.url} asks to wait for ${durationText(ms)}: try again then`);
    this.#options.onWait(`${this.url} asks to wait: ${durationText(Math.max(1000, ms))} …`);
    await delay(ms, undefined, { signal: this.#options.signal });
  }

  #unreachable(answer: Response | Error, what: string): CliError {
    if (answer instanceof Response)
      return new CliError('busy', `${what}: ${this.url} answers ${answer.status} each time: try again later`);
    const { name, cause, message } = answer as Error & { cause?: { code?: string } };
    const why =
      name === 'TimeoutError' ? `no answer within ${durationText(timeoutMs)}` : (cause?.code ?? message);
    return new CliError('unreachable', `${what}: ${this.url} cannot be reached: ${why}`);
  }

  async #json(answer: Response): Promise<unknown> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of answer.body ?? []) {
        bytes += chunk.length;
        if (bytes > answerBytesMax) throw new Unreadable('the answer is larger than 16 MB');
        chunks.push(chunk);
      }
    } catch (error) {
      if (error instanceof Unreadable) throw error;
      if (this.#options.signal.aborted) throw new CliError('interrupted', 'interrupted');
      throw new Unreadable('the answer broke off');
    }
    this.#bytes += bytes;
    if (this.#bytes > totalBytesMax)
      throw new CliError(
        'failed',
        'the answers are larger than 40 MB together, which is more than an import takes',
      );
    try {
      return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
    } catch {
      throw new Unreadable('the answer is not JSON');
    }
  }
}

function isFresh(item: unknown, seen: Set<string>): boolean {
  const id = isObject(item) ? item.id : undefined;
  if (typeof id !== 'string' || seen.has(id)) return false;
  seen.add(id);
  return true;
}

/** Throws for a status that another try does not change. */
function refuse(status: number, what: string, url: string): void {
  if (status === 429 || status >= 500) return;
  if (status >= 300 && status < 400)
    throw new CliError('failed', `${what}: ${url} redirects, expected an answer of the API itself`, {
      hint: 'Check --api-url.',
    });
  if (status === 401)
    throw new Unreadable(
      'the key is not accepted for it: it is wrong, revoked, or not the API key of a user',
    );
  if (status === 403) throw new Unreadable(`the key lacks the right to read ${what}`);
  if (status === 404) throw new Unreadable('the API does not have it');
  throw new Unreadable(`the API answers ${status}`);
}

/** Seconds, or a date. */
function retryAfterMs(header: string): number | undefined {
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

/** Throws a usage error for an address that a key must not be sent to. */
function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isHere = url !== undefined && /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname);
  if (url === undefined || !(url.protocol === 'https:' || (url.protocol === 'http:' && isHere)))
    throw usageError('--api-url: expected an https address, or http on this machine');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw usageError('--api-url: expected an address without user, query and fragment');
  return `${url.origin}${url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`;
}
