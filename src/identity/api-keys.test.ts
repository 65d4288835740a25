import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import type { Db } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { createApiKey, findCaller, listApiKeys, noteUse, revokeApiKey } from './api-keys.ts';
import { createUser } from './create-identity.ts';

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
      const caller = await findCaller(db, key);
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
    const caller = await findCaller(store.read, secret);
    assert.deepEqual(caller, { userId: user.id, isAdmin: false, keyId: rows[0]?.id, lastUsedAtMs: 0 });
  });

  test('the use of a key is noted, at most once a minute', async () => {
    const { store } = fixture;
    const { user, secret } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const use = async (nowMs: number) => {
      const caller = await findCaller(store.read, secret);
      assert.ok(caller);
      await noteUse(store, caller, nowMs);
      return (await listApiKeys(store.read, user.id, { limit: 1 })).rows[0]?.last_used_at_ms;
    };
    const start = clock.now();
    assert.equal(await use(start), start);
    assert.equal(await use(start + 59_999), start);
    assert.equal(await use(start + 60_000), start + 60_000);
  });
});
