import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import type { Db } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { createApiKey, findKey, listApiKeys, noteUse, revokeApiKey } from './api-keys.ts';
import { isStillValid } from './api-tokens.ts';
import { createUser } from './create-identity.ts';
import { findSessionCaller, listSessions, noteSessionUse, startSession } from './sessions.ts';

/** The same database, with every statement that is asked of it. */
function watched(db: Db): { db: Db; statements: string[] } {
  const statements: string[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      // The shape without values: the work is the same for every caller.
      statements.push(JSON.stringify(node, (name, value) => (name === 'value' ? '?' : value)));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return { db: db.withPlugin(plugin), statements };
}

forEachStore((fixture) => {
  const clock = new TestClock();

  test('a missing, an unknown and a revoked key cost the same work as one that is right', async () => {
    const { store } = fixture;
    const { user, secret } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const spare = await createApiKey(store, { userId: user.id, name: 'spare' }, clock);
    await revokeApiKey(store, { userId: user.id, keyId: spare.key.id }, clock);
    const work = new Map<string, string[]>();
    for (const [name, key, isKnown] of [
      ['right', secret, true],
      ['missing', undefined, false],
      ['unknown', 'no-such-key-0123456789', false],
      ['nearly right', `${secret.slice(0, -1)}!`, false],
      ['revoked', spare.secret, false],
    ] as const) {
      const { db, statements } = watched(store.read);
      const caller = await findKey(db, key, clock.now());
      assert.equal(caller !== undefined, isKnown, name);
      work.set(name, statements);
    }
    const right = work.get('right');
    assert.equal(right?.length, 1);
    for (const [name, statements] of work) assert.deepEqual(statements, right, name);
  });

  test('a key is in the store only as its hash', async () => {
    const { store } = fixture;
    const { user, secret } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const { rows } = await listApiKeys(store.read, user.id, { limit: 10 });
    assert.equal(rows.length, 1);
    const whole = await store.read.selectFrom('api_keys').selectAll().execute();
    assert.equal(whole.length, 1);
    assert.ok(!JSON.stringify(whole).includes(secret));
    assert.ok(!('key_hash' in (rows[0] ?? {})), 'and the hash is never shown');
    const found = await findKey(store.read, secret, clock.now());
    assert.deepEqual(found?.caller, { userId: user.id, isAdmin: false, keyId: rows[0]?.id, scopes: null });
  });

  test('the use of a key is noted, at most once a minute', async () => {
    const { store } = fixture;
    const { user, secret } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const use = async (nowMs: number) => {
      const found = await findKey(store.read, secret, clock.now());
      assert.ok(found);
      const { caller, lastUsedAtMs } = found;
      await noteUse(store, { keyId: caller.keyId, lastUsedAtMs }, nowMs);
      return (await listApiKeys(store.read, user.id, { limit: 1 })).rows[0]?.last_used_at_ms;
    };
    const start = clock.now();
    assert.equal(await use(start), start);
    assert.equal(await use(start + 59_999), start);
    assert.equal(await use(start + 60_000), start + 60_000);
  });

  test('a key is refused from its end on, to the millisecond, and is listed all the same', async () => {
    const { store } = fixture;
    const { user } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const endMs = clock.now() + 1000;
    const values = { userId: user.id, name: 'short', expiresAtMs: endMs };
    const { key, secret } = await createApiKey(store, values, clock);
    assert.equal((await findKey(store.read, secret, endMs - 1))?.refusal, undefined);
    assert.equal((await findKey(store.read, secret, endMs))?.refusal, 'expired');
    const caller = { userId: user.id, isAdmin: false, keyId: key.id };
    assert.equal(await isStillValid(store.read, caller, endMs - 1), true);
    assert.equal(await isStillValid(store.read, caller, endMs), false);
    assert.equal((await listApiKeys(store.read, user.id, { limit: 10 })).totalCount, 2);
  });

  test('a session ends with its key, and its use is recorded with the address, at most once a minute', async () => {
    const { store } = fixture;
    const { user } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const startMs = clock.now();
    const values = { userId: user.id, name: 'short', expiresAtMs: startMs + 1000 };
    const { secret } = await createApiKey(store, values, clock);
    const place = { userAgent: 'Firefox on Linux', address: '192.0.2.1' };
    const { token, expiresAtMs, caller } = await startSession(
      store,
      { apiKey: secret, lifeMs: 3_600_000, place },
      clock,
    );
    assert.equal(expiresAtMs, startMs + 1000);
    assert.equal(await findSessionCaller(store.read, token, expiresAtMs), undefined);
    const sessionId = caller.sessionId ?? '';
    const use = async (afterMs: number, address: string) => {
      await noteSessionUse(store, { sessionId, lastUsedAtMs: startMs, address }, startMs + afterMs);
      const { rows } = await listSessions(store.read, user.id, startMs, { limit: 1 });
      return [rows[0]?.last_used_at_ms, rows[0]?.address];
    };
    assert.deepEqual(await use(59_999, '192.0.2.2'), [startMs, '192.0.2.1']);
    assert.deepEqual(await use(60_000, '192.0.2.2'), [startMs + 60_000, '192.0.2.2']);
    // An expired one is not listed.
    assert.equal((await listSessions(store.read, user.id, expiresAtMs, { limit: 1 })).totalCount, 0);
  });
});
