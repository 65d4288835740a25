import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { createApiKey, revokeApiKey } from './api-keys.ts';
import { isStillValid } from './api-tokens.ts';
import { createUser } from './create-identity.ts';
import { endSession, findSessionCaller, startSession } from './sessions.ts';

forEachStore((fixture) => {
  const clock = new TestClock();
  const lifeMs = 3_600_000;

  async function signedIn() {
    const { store } = fixture;
    const { user, secret } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const spare = await createApiKey(store, { userId: user.id, name: 'spare' }, clock);
    const session = await startSession(store, { apiKey: spare.secret, lifeMs }, clock);
    return { store, user, secret, spare, session };
  }

  test('a session stands for the user of its key, and the store has neither the key nor the cookie', async () => {
    const { store, user, spare, session } = await signedIn();
    const caller = await findSessionCaller(store.read, session.token, clock.now());
    assert.deepEqual(caller, {
      userId: user.id,
      isAdmin: false,
      keyId: spare.key.id,
      sessionId: session.caller.sessionId,
      scopes: null,
      lastUsedAtMs: clock.now(),
    });
    const rows = JSON.stringify(await store.read.selectFrom('sessions').selectAll().execute());
    assert.ok(!rows.includes(session.token) && !rows.includes(spare.secret));
  });

  test('a session ends when its time is over, when it is ended, and when its key is revoked', async () => {
    const { store, user, spare, session } = await signedIn();
    const is = async (token: string) =>
      (await findSessionCaller(store.read, token, clock.now())) !== undefined;
    assert.equal(await is(session.token), true);
    assert.equal(await isStillValid(store.read, session.caller, clock.now()), true);
    assert.equal(await isStillValid(store.read, session.caller, session.expiresAtMs), false);
    assert.equal(await findSessionCaller(store.read, session.token, session.expiresAtMs), undefined);
    const other = await startSession(store, { apiKey: spare.secret, lifeMs }, clock);
    await endSession(store, { userId: user.id, sessionId: other.caller.sessionId ?? '' });
    assert.deepEqual([await is(other.token), await is(session.token)], [false, true]);
    await revokeApiKey(store, { userId: user.id, keyId: spare.key.id }, clock);
    assert.equal(await is(session.token), false);
    assert.equal(await isStillValid(store.read, session.caller, clock.now()), false);
    await assert.rejects(startSession(store, { apiKey: spare.secret, lifeMs }, clock), {
      code: 'unauthorized',
    });
  });

  test('expired sessions are removed with the next one, and a key has a hundred at most', async () => {
    const { store, secret, spare } = await signedIn();
    for (let n = 0; n < 101; n += 1) await startSession(store, { apiKey: spare.secret, lifeMs }, clock);
    const count = async () => (await store.read.selectFrom('sessions').select('id').execute()).length;
    assert.equal(await count(), 100);
    clock.step(lifeMs);
    await startSession(store, { apiKey: secret, lifeMs }, clock);
    assert.equal(await count(), 1);
  });
});
