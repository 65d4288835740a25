import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makeDataStore } from './data-store-prop.ts';
import type { HostCallFunction } from './host-calls.ts';

/** A data store as the service keeps it, with pages of two entries. */
function fakeStore(): { hostCall: HostCallFunction; asked: Record<string, unknown>[] } {
  const held = new Map<string, string>();
  const asked: Record<string, unknown>[] = [];
  const answer = (header: Record<string, unknown>, body = ''): { header: typeof header; body: Buffer } => ({
    header,
    body: Buffer.from(body),
  });
  const page = (header: Record<string, unknown>): { keys: string[]; next: object } => {
    const keys = [...held.keys()].sort().filter((key) => key > String(header.after ?? ''));
    return { keys: keys.slice(0, 2), next: keys.length > 2 ? { next: keys[1] } : {} };
  };
  const hostCall: HostCallFunction = async (kind, given, body) => {
    assert.equal(kind, 'data_store');
    const header = given as Record<string, unknown>;
    assert.equal(header.store, 'ds_1');
    asked.push(header);
    const key = String(header.key);
    switch (header.op) {
      case 'get':
        return answer({ found: held.has(key) }, held.get(key));
      case 'set':
        held.set(key, String(body));
        return answer({});
      case 'has':
        return answer({ found: held.has(key) });
      case 'delete':
        held.delete(key);
        return answer({});
      case 'clear':
        held.clear();
        return answer({});
      case 'keys':
        return answer(page(header).next as Record<string, unknown>, JSON.stringify(page(header).keys));
      case 'entries': {
        const { keys, next } = page(header);
        const entries = keys.map((it) => [it, JSON.parse(held.get(it) ?? 'null')]);
        return answer(next as Record<string, unknown>, JSON.stringify(entries));
      }
      default:
        return answer({});
    }
  };
  return { hostCall, asked };
}

describe('this.<prop> of type data_store', () => {
  test('sets, gets, has and deletes JSON values; a missing key is undefined', async () => {
    const { hostCall } = fakeStore();
    const store = makeDataStore('data', { id: 'ds_1' }, hostCall);
    assert.equal(await store.get('a'), undefined);
    for (const value of [{ list: [1, null] }, 'text', 0, null, false]) {
      await store.set('a', value);
      assert.deepEqual(await store.get('a'), value);
    }
    assert.equal(await store.has('a'), true);
    await store.delete('a');
    assert.equal(await store.has('a'), false);
  });

  test('takes an id as text, and a ttl in seconds with a value or later', async () => {
    const { hostCall, asked } = fakeStore();
    const store = makeDataStore('data', 'ds_1', hostCall);
    await store.set('a', 1, { ttl: 60 });
    await store.set('b', 1);
    await store.setTtl('a', 5);
    await store.setTtl('a', null);
    assert.deepEqual(
      asked.map(({ op, ttl }) => [op, ttl]),
      [
        ['set', 60],
        ['set', null],
        ['set_ttl', 5],
        ['set_ttl', null],
      ],
    );
  });

  test('lists all keys and iterates over all entries on any number of pages', async () => {
    const { hostCall } = fakeStore();
    const store = makeDataStore('data', 'ds_1', hostCall);
    assert.deepEqual(await store.keys(), []);
    for (const key of ['e', 'd', 'c', 'b', 'a']) await store.set(key, { key });
    assert.deepEqual(await store.keys(), ['a', 'b', 'c', 'd', 'e']);
    const seen: unknown[] = [];
    for await (const [key, value] of store) seen.push([key, value]);
    assert.deepEqual(seen.at(-1), ['e', { key: 'e' }]);
    assert.equal(seen.length, 5);
    await store.clear();
    assert.deepEqual(await store.keys(), []);
  });

  test('rejects an invalid key, ttl or value without a host call', async () => {
    const { hostCall, asked } = fakeStore();
    const store = makeDataStore('data', 'ds_1', hostCall);
    const wrong: [() => Promise<unknown>, RegExp][] = [
      [() => store.get(7 as unknown as string), /^this\.data\.get: a key is a text .* found 7$/],
      [() => store.set('', 1), /^this\.data\.set: a key is a text that is not empty, found ''$/],
      [() => store.has(undefined as unknown as string), /found undefined/],
      [() => store.set('a', undefined), /value of a is undefined, which JSON does not have/],
      [() => store.set('a', () => 1), /value of a is function/],
      [() => store.set('a', 'x'.repeat(2_000_000)), /value of a is larger than 1 MB/],
      [
        () => store.set('a', 1, { ttl: 0 }),
        /^this\.data\.set: ttl is a positive number of seconds or null, found 0$/,
      ],
      [() => store.setTtl('a', -1), /^this\.data\.setTtl: ttl .* found -1$/],
      [() => store.setTtl('a', '60' as unknown as number), /found string/],
    ];
    for (const [call, message] of wrong) await assert.rejects(call, { message });
    assert.deepEqual(asked, []);
  });

  test('without a value uses the store that the service knows as default', async () => {
    for (const value of [undefined, null]) {
      const asked: object[] = [];
      const hostCall: HostCallFunction = async (_kind, header) => {
        asked.push(header);
        return { header: { found: false }, body: Buffer.alloc(0) };
      };
      await makeDataStore('data', value, hostCall).get('a');
      assert.equal(JSON.stringify(asked), '[{"op":"get","key":"a"}]');
    }
  });

  test('with a value that names no store rejects at every use', async () => {
    const { hostCall } = fakeStore();
    for (const value of ['', {}, { id: 3 }]) {
      const store = makeDataStore('data', value, hostCall);
      const expected = /^this\.data: expected the id of a data store, found /;
      await assert.rejects(store.get('a'), { message: expected });
      await assert.rejects(store.keys(), { message: expected });
    }
  });
});
