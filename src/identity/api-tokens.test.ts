import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { deleteExpiredTokens, deleteTokensBeyond, insertToken } from './api-client-store.ts';
import { createClient, listClients, revokeClient, rotateClientSecret } from './api-clients.ts';
import {
  acceptsToken,
  findTokenCaller,
  isStillValid,
  issueToken,
  looksLikeToken,
  noteClientUse,
  revokeToken,
} from './api-tokens.ts';
import { createUser, createWorkspace } from './create-identity.ts';
import { type Caller, homeOf, ownersOf, resolveOwner } from './permissions.ts';

/** The same database, with the shape of every statement that is asked of it. */
function watched(db: Db): { db: Db; statements: string[] } {
  const statements: string[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      statements.push(JSON.stringify(node, (name, value) => (name === 'value' ? '?' : value)));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return { db: db.withPlugin(plugin), statements };
}

const isCode = (code: string) => (error: unknown) => error instanceof CallerError && error.code === code;

forEachStore((fixture) => {
  /** A workspace with its admin and a client. */
  async function withClient() {
    const { store } = fixture;
    const clock = new TestClock();
    const { user } = await createUser(store, { username: 'ann', email: 'ann@example.com' }, clock);
    const workspace = await createWorkspace(store, { name: 'Team', user }, { clock });
    const admin: Caller = { userId: user.id, isAdmin: false, keyId: 'key_1' };
    const { client, secret } = await createClient(
      store,
      admin,
      { workspaceId: workspace.id, name: 'reports' },
      clock,
    );
    const credentials = { id: client.id, secret };
    return { store, clock, admin, user, workspaceId: workspace.id, client, credentials };
  }

  test('a token stands for its client in its workspace, and for nothing else', async () => {
    const { store, clock, admin, workspaceId, client, credentials } = await withClient();
    const { token, createdAtMs, expiresAtMs } = await issueToken(store, credentials, clock);
    assert.ok(looksLikeToken(token));
    assert.deepEqual([createdAtMs, expiresAtMs], [clock.now(), clock.now() + 3_600_000]);
    const caller = await findTokenCaller(store.read, token, clock.now());
    assert.ok(caller);
    assert.deepEqual([caller.userId, caller.isAdmin, caller.workspaceId], [client.id, false, workspaceId]);
    assert.equal(homeOf(caller), workspaceId);
    const owners = await ownersOf(store.read, caller);
    assert.deepEqual(owners.ids, [workspaceId]);
    assert.ok(owners.mayWrite(workspaceId) && !owners.mayAdminister(workspaceId));
    for (const named of [undefined, workspaceId])
      assert.equal(await resolveOwner(store.read, caller, named), workspaceId);
    for (const named of [admin.userId, client.id, 'o_other'])
      await assert.rejects(resolveOwner(store.read, caller, named), isCode('not_found'), named);
    await assert.rejects(listClients(store.read, caller, workspaceId, { limit: 1 }), isCode('forbidden'));
  });

  test('a token lives for an hour', async () => {
    const { store, clock, workspaceId, credentials } = await withClient();
    const { token } = await issueToken(store, credentials, clock);
    const caller = await findTokenCaller(store.read, token, clock.now());
    assert.ok(caller);
    clock.step(3_599_999);
    assert.ok(await findTokenCaller(store.read, token, clock.now()));
    assert.ok(await isStillValid(store.read, caller, clock.now()));
    clock.step(1);
    assert.equal(await findTokenCaller(store.read, token, clock.now()), undefined);
    assert.equal(await isStillValid(store.read, caller, clock.now()), false);
    assert.equal(await acceptsToken(store.read, token, { workspaceId, nowMs: clock.now() }), false);
  });

  test('an unknown, an expired and a good token cost the same work, and so do right and wrong secrets', async () => {
    const { store, clock, admin, workspaceId, client, credentials } = await withClient();
    const { token: expired } = await issueToken(store, credentials, clock);
    clock.step(3_600_000);
    const { token } = await issueToken(store, { ...credentials }, clock);
    const spare = await createClient(store, admin, { workspaceId, name: 'spare' }, clock);
    await revokeClient(store, admin, { workspaceId, clientId: spare.client.id }, clock);
    const work: string[][] = [];
    for (const [given, isKnown] of [
      [token, true],
      [expired, false],
      [`mat_${'x'.repeat(32)}`, false],
    ] as const) {
      const { db, statements } = watched(store.read);
      assert.equal((await findTokenCaller(db, given, clock.now())) !== undefined, isKnown);
      work.push(statements);
    }
    assert.equal(work[0]?.length, 1);
    for (const statements of work) assert.deepEqual(statements, work[0]);

    const refusals: string[][] = [];
    for (const [id, secret] of [
      [client.id, `${credentials.secret}x`],
      [client.id, ''],
      ['oac_nothing', credentials.secret],
      [spare.client.id, spare.secret],
    ] as const) {
      const { db, statements } = watched(store.read);
      const refused = issueToken({ ...store, read: db }, { id, secret }, clock);
      await assert.rejects(refused, isCode('invalid_client'));
      refusals.push(statements);
    }
    assert.equal(refusals[0]?.length, 1);
    for (const statements of refusals) assert.deepEqual(statements, refusals[0]);
  });

  test('secrets and tokens are in the store only as hashes', async () => {
    const { store, clock, credentials } = await withClient();
    const { token } = await issueToken(store, credentials, clock);
    const stored = JSON.stringify([
      await store.read.selectFrom('api_clients').selectAll().execute(),
      await store.read.selectFrom('api_tokens').selectAll().execute(),
    ]);
    assert.match(stored, /oac_.+tok_/);
    for (const secret of [token, token.slice(4), credentials.secret]) assert.ok(!stored.includes(secret));
  });

  test('a new secret ends the old one; tokens stay unless they are to end too', async () => {
    const { store, clock, admin, workspaceId, client, credentials } = await withClient();
    const { token } = await issueToken(store, credentials, clock);
    const subject = { workspaceId, clientId: client.id };
    const first = await rotateClientSecret(store, admin, { ...subject, endTokens: false }, clock);
    assert.equal(first.client.secret_hint, first.secret.slice(-4));
    await assert.rejects(issueToken(store, credentials, clock), isCode('invalid_client'));
    assert.ok(await findTokenCaller(store.read, token, clock.now()));
    await issueToken(store, { id: client.id, secret: first.secret }, clock);
    const second = await rotateClientSecret(store, admin, { ...subject, endTokens: true }, clock);
    assert.notEqual(second.secret, first.secret);
    assert.equal(await findTokenCaller(store.read, token, clock.now()), undefined);
  });

  test('a client that is removed ends with its tokens, also those that are asked for at that moment', async () => {
    const { store, clock, admin, workspaceId, client, credentials } = await withClient();
    const early = await issueToken(store, credentials, clock);
    const asked = Array.from({ length: 5 }, () => issueToken(store, credentials, clock));
    const removed = revokeClient(store, admin, { workspaceId, clientId: client.id }, clock);
    const tokens = (await Promise.allSettled(asked)).flatMap((one) =>
      one.status === 'fulfilled' ? [one.value.token] : [],
    );
    await removed;
    for (const token of [early.token, ...tokens])
      assert.equal(await findTokenCaller(store.read, token, clock.now()), undefined);
    assert.deepEqual(await store.read.selectFrom('api_tokens').selectAll().execute(), []);
    await assert.rejects(issueToken(store, credentials, clock), isCode('invalid_client'));
    const again = revokeClient(store, admin, { workspaceId, clientId: client.id }, clock);
    await assert.rejects(again, isCode('not_found'));
    assert.deepEqual((await listClients(store.read, admin, workspaceId, { limit: 10 })).rows, []);
  });

  test('a token is revoked by its own client only', async () => {
    const { store, clock, admin, workspaceId, credentials } = await withClient();
    const { token } = await issueToken(store, credentials, clock);
    const other = await createClient(store, admin, { workspaceId, name: 'other' }, clock);
    await revokeToken(store, { id: other.client.id, secret: other.secret }, token);
    assert.ok(await findTokenCaller(store.read, token, clock.now()), 'it is not theirs');
    await assert.rejects(
      revokeToken(store, { ...credentials, secret: 'wrong' }, token),
      isCode('invalid_client'),
    );
    await revokeToken(store, credentials, 'no such token');
    await revokeToken(store, credentials, token);
    assert.equal(await findTokenCaller(store.read, token, clock.now()), undefined);
  });

  test('expired tokens go with new ones, and of too many the oldest', async () => {
    const { store, clock, workspaceId, client, credentials } = await withClient();
    const insert = (name: string, expiresAtMs: number) =>
      store.transaction((tx) =>
        insertToken(tx, {
          ...{ id: `tok_${name}`, client_id: client.id, workspace_id: workspaceId, token_hash: name },
          ...{ created_at_ms: 1, expires_at_ms: expiresAtMs },
        }),
      );
    const ids = async () =>
      (await store.read.selectFrom('api_tokens').select('id').orderBy('expires_at_ms').execute()).map(
        ({ id }) => id,
      );
    for (const n of [1, 2, 3]) await insert(`old${n}`, n);
    await store.transaction((tx) => deleteExpiredTokens(tx, 3, 2));
    assert.deepEqual(await ids(), ['tok_old3'], 'a bounded number a time, oldest first');
    await issueToken(store, credentials, clock);
    assert.equal((await ids()).includes('tok_old3'), false);
    const later = clock.now() + 10_000_000;
    for (const n of [1, 2, 3]) await insert(`new${n}`, later + n);
    await store.transaction((tx) => deleteTokensBeyond(tx, client.id, 2));
    assert.deepEqual(await ids(), ['tok_new2', 'tok_new3']);
    await store.transaction((tx) => deleteTokensBeyond(tx, client.id, 2));
    assert.deepEqual(await ids(), ['tok_new2', 'tok_new3']);
  });

  test('the use of a client is noted, at most once a minute', async () => {
    const { store, clock, admin, workspaceId, client } = await withClient();
    const start = clock.now();
    const use = async (lastUsedAtMs: number, nowMs: number) => {
      await noteClientUse(store, { clientId: client.id, lastUsedAtMs }, nowMs);
      return (await listClients(store.read, admin, workspaceId, { limit: 1 })).rows[0]?.last_used_at_ms;
    };
    assert.equal(await use(0, start), start);
    assert.equal(await use(start, start + 59_999), start);
    assert.equal(await use(start, start + 60_000), start + 60_000);
  });

  test('a workspace has a bounded number of clients', async () => {
    const { store, clock, admin, workspaceId } = await withClient();
    const create = () => createClient(store, admin, { workspaceId, name: 'one more' }, clock);
    for (let n = 1; n < 100; n += 1) await create();
    await assert.rejects(create(), isCode('conflict'));
  });
});
