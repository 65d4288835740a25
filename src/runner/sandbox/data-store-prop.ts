import { hostCallBodyBytesMax } from '#runner/protocol.ts';
import type { HostCallFunction } from './host-calls.ts';
import { toJsonText } from './json-text.ts';
import { jsonParse } from './primordials.ts';

/** `this.<prop>` of type `data_store`: a store of JSON values by key that outlives the run and is shared. */
export interface DataStore extends AsyncIterable<[key: string, value: unknown]> {
  /** Resolves to `undefined` when there is no such key. */
  get(key: string): Promise<unknown>;
  /** `ttl` is in seconds. Without it the key stays until it is deleted. */
  set(key: string, value: unknown, options?: { ttl?: number | null }): Promise<void>;
  /** `seconds` from now, or null for no expiry. Has no effect on a missing key. */
  setTtl(key: string, seconds: number | null): Promise<void>;
  /** Adds to a number, and returns the sum. A missing key counts as 0. Of changes at the same time none is lost. */
  increment(key: string, amount?: number): Promise<number>;
  /** Adds a value at the end of an array, or text after text, and returns the whole. A missing key becomes an array. */
  append(key: string, value: unknown): Promise<unknown>;
  has(key: string): Promise<boolean>;
  delete(key: string): Promise<void>;
  keys(): Promise<string[]>;
  clear(): Promise<void>;
}

/**
 * `value` is `{ id: "ds_…" }` or the id; without one it is the owner's store `default`, which the service knows. Every
 * method rejects with an Error that begins with `this.<name>`: a key that is no text, a ttl that is not positive, a value
 * no JSON can be made of, or a `value` that names no store.
 */
export function makeDataStore(name: string, value: unknown, hostCall: HostCallFunction): DataStore {
  const isDefault = value === undefined || value === null;
  const store = storeIdOf(value);
  const where = `this.${name}`;
  const request = (op: string, header: object = {}, body?: string): ReturnType<HostCallFunction> => {
    if (store === undefined && !isDefault)
      throw new Error(`${where}: expected the id of a data store, found ${describe(value)}`);
    return hostCall('data_store', { store, op, ...header }, body);
  };
  const keyed = (method: string, key: unknown): { key: string } => {
    if (typeof key === 'string' && key !== '') return { key };
    throw new TypeError(
      `${where}.${method}: a key is a text that is not empty, found ${key === '' ? "''" : describe(key)}`,
    );
  };
  const textOf = (method: string, key: string, given: unknown): string => {
    const text = toJsonText(given, hostCallBodyBytesMax, `${where}.${method}: the value of ${key}`);
    if (text !== undefined) return text;
    throw new TypeError(
      `${where}.${method}: the value of ${key} is ${describe(given)}, which JSON does not have`,
    );
  };
  return {
    async get(key) {
      const { header, body } = await request('get', keyed('get', key));
      return header.found === true ? jsonParse(body.toString('utf8')) : undefined;
    },
    async set(key, given, options) {
      const header = keyed('set', key);
      const text = textOf('set', key, given);
      await request('set', { ...header, ttl: checkTtl(`${where}.set`, options?.ttl) }, text);
    },
    async increment(key, amount = 1) {
      const header = keyed('increment', key);
      if (typeof amount !== 'number' || !Number.isFinite(amount))
        throw new TypeError(`${where}.increment: the amount is a number, found ${describe(amount)}`);
      const { body } = await request('increment', { ...header, amount });
      return jsonParse(body.toString('utf8')) as number;
    },
    async append(key, given) {
      const { body } = await request('append', keyed('append', key), textOf('append', key, given));
      return jsonParse(body.toString('utf8'));
    },
    async setTtl(key, seconds) {
      await request('set_ttl', { ...keyed('setTtl', key), ttl: checkTtl(`${where}.setTtl`, seconds) });
    },
    async has(key) {
      return (await request('has', keyed('has', key))).header.found === true;
    },
    async delete(key) {
      await request('delete', keyed('delete', key));
    },
    async keys() {
      const all: string[] = [];
      for await (const page of pages(request, 'keys')) for (const key of page) all.push(key as string);
      return all;
    },
    async clear() {
      await request('clear');
    },
    async *[Symbol.asyncIterator]() {
      for await (const page of pages(request, 'entries')) yield* page as [string, unknown][];
    },
  };
}

/** An answer holds a page of a store. The next page begins after the key `next`. */
async function* pages(
  request: (op: string, header?: object) => ReturnType<HostCallFunction>,
  op: 'keys' | 'entries',
): AsyncGenerator<unknown[]> {
  let after: unknown;
  do {
    const { header, body } = await request(op, after === undefined ? {} : { after });
    yield jsonParse(body.toString('utf8')) as unknown[];
    // A page that begins where the page before it began would cause an endless loop.
    if (header.next === after) return;
    after = header.next;
  } while (typeof after === 'string');
}

function storeIdOf(value: unknown): string | undefined {
  const id = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value;
  return typeof id === 'string' && id !== '' ? id : undefined;
}

function checkTtl(where: string, seconds: unknown): number | null {
  if (seconds === undefined || seconds === null) return null;
  if (typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0) return seconds;
  throw new TypeError(`${where}: ttl is a positive number of seconds or null, found ${describe(seconds)}`);
}

function describe(value: unknown): string {
  if (value === null || value === undefined || typeof value === 'number') return String(value);
  return Array.isArray(value) ? 'an array' : typeof value;
}
