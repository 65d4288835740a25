import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher, type GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { EventBus } from '#events/event-bus.ts';
import { Deferred } from '#lib/deferred.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { Vault } from '#vault/vault.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { TokenServer } from '../../test/support/token-server.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { AccountCredentials } from './account-credentials.ts';
import { changeHealth } from './account-health.ts';
import {
  type Account,
  changeAccount,
  findAccount,
  giveBackLease,
  takeRefreshLease,
} from './account-store.ts';
import { deleteAccount, replaceCredentials, storeAccount } from './manage-accounts.ts';
import { createTokenEndpoint } from './oauth/token-endpoint.ts';
import { AccountRefresher } from './refresh-account.ts';
import { refreshTimes } from './refresh-times.ts';

const bus = new EventBus(silentLogger);
const vault = new Vault(Buffer.alloc(32, 7));
const ownerId = 'o_owner';
const hourMs = 3_600_000;

forEachStore((fixture) => {
  let server: TokenServer;
  let clock: TestClock;
  let dispatcher: GuardedDispatcher;
  const changes: string[] = [];

  beforeEach(async () => {
    server = await TokenServer.start();
    clock = new TestClock();
    dispatcher = createGuardedDispatcher({ policy: new AddressPolicy({ allow: ['local'], deny: () => [] }) });
    changes.length = 0;
  });
  afterEach(async () => {
    await dispatcher.destroy();
    await server.close();
  });

  /** As one process has it: what is shared is the store, and the provider. */
  function process(name: string, store: Store) {
    const refresher = new AccountRefresher({
      store,
      vault,
      clock,
      leaseClock: { nowMs: async () => clock.now() },
      logger: silentLogger,
      node: name,
      tokens: createTokenEndpoint({ dispatcher, clock }),
      findApp: async (slug) => server.app(slug),
      findClient: async (id) => ({
        id,
        clientId: 'client',
        clientSecret: 'client-secret-1',
        scopes: undefined,
      }),
      changeHealth: (tx, account, health) =>
        changeHealth({ store, router: noSubscribers, bus, clock }, tx, account, health),
      onChange: (id) => changes.push(id),
    });
    const credentials = new AccountCredentials({
      store,
      vault,
      clock,
      refresher,
      signers: { withSignerUri: (_account, opened) => opened },
      recordUse: async () => {},
    });
    return { refresher, credentials };
  }

  const connect = (
    store: Store,
    more: { expiresInSeconds?: number; withoutRefreshToken?: boolean; uid?: string } = {},
  ) => {
    const { accessToken, refreshToken } = server.grant();
    const { expiresInSeconds = 3600, withoutRefreshToken = false, uid = 'someone' } = more;
    const times = refreshTimes({ expiresInSeconds, canRefresh: !withoutRefreshToken }, clock.now());
    return store.transaction((tx) =>
      storeAccount(
        tx,
        { vault, clock },
        {
          ownerId,
          userId: 'u_owner',
          app: { slug: 'example', name: 'Example' },
          name: null,
          credentials: {
            oauth_access_token: accessToken,
            ...(!withoutRefreshToken && { oauth_refresh_token: refreshToken }),
            oauth_client_id: 'client',
            oauth_uid: uid,
          },
          grant: { type: 'authorization_code', oauthClientId: 'oa_1', scopes: ['read'], ...times },
        },
      ),
    );
  };
  const now = async (store: Store, account: Account) => {
    const found = await findAccount(store.read, account.id);
    assert.ok(found);
    return found;
  };

  test('a token is given out as it is while it is good, and a new one when it is about to end', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    const first = await credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal(first.credentials.oauth_access_token, 'access-token-number-1');
    // A tenth of its life before the end, at most ten minutes.
    assert.equal(first.freshUntilMs, clock.now() + 0.9 * hourMs);
    clock.step(0.9 * hourMs);
    const second = await credentials.use(account.id, [ownerId], 'dc_1');
    assert.deepEqual(second.credentials, {
      oauth_access_token: 'access-token-number-2',
      oauth_refresh_token: 'refresh-token-number-2',
      oauth_client_id: 'client',
      oauth_uid: 'someone',
    });
    const { expires_at_ms, last_refreshed_at_ms, version, healthy } = await now(store, account);
    assert.deepEqual(
      { expires_at_ms, last_refreshed_at_ms, version, healthy },
      { expires_at_ms: clock.now() + hourMs, last_refreshed_at_ms: clock.now(), version: 2, healthy: 1 },
    );
    assert.deepEqual(changes, [account.id]);
    assert.equal(server.refreshes, 1);
  });

  test('whose an account is, is learned by a refresh where it is not known, and never changed by one', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store, { uid: '' });
    const uidAfterRefresh = async () => {
      clock.step(hourMs);
      return (await credentials.use(account.id, [ownerId], 'dc_1')).credentials.oauth_uid;
    };
    server.user = undefined;
    assert.equal(await uidAfterRefresh(), '');
    server.user = 'ada';
    assert.equal(await uidAfterRefresh(), 'ada');
    server.user = 'eve';
    assert.equal(await uidAfterRefresh(), 'ada');
  });

  test('50 uses at once, in two processes, of a token that ends make one refresh', async () => {
    const { store } = fixture;
    const a = process('node_a', store);
    const b = process('node_b', fixture.dialect === 'sqlite' ? store : await fixture.open());
    const account = await connect(store);
    clock.step(hourMs);
    const used = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        (index % 2 === 0 ? a : b).credentials.use(account.id, [ownerId], 'dc_1'),
      ),
    );
    assert.deepEqual(
      [...new Set(used.map(({ credentials }) => credentials.oauth_access_token))],
      ['access-token-number-2'],
    );
    assert.deepEqual({ refreshes: server.refreshes, replays: server.replays }, { refreshes: 1, replays: 0 });
  });

  test('refresh tokens that are good once are followed, refresh after refresh', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    for (let round = 2; round < 6; round += 1) {
      clock.step(hourMs);
      const used = await credentials.use(account.id, [ownerId], 'dc_1');
      assert.equal(used.credentials.oauth_access_token, `access-token-number-${round}`);
    }
    assert.equal(server.replays, 0);
  });

  for (const [what, failure] of [
    ['hangs up', 'hang up'],
    ['answers 503', { status: 503, body: 'over there' }],
    ['answers garbage', { status: 200, body: '<html>not a token</html>' }],
    ['answers half a token', { status: 200, body: { token_type: 'Bearer' } }],
  ] as const) {
    test(`a provider that ${what} is asked again later; the token is used until it ends`, async () => {
      const { store } = fixture;
      const { credentials } = process('node_a', store);
      const account = await connect(store);
      clock.step(0.95 * hourMs);
      server.failure = failure;
      const still = await credentials.use(account.id, [ownerId], 'dc_1');
      assert.equal(still.credentials.oauth_access_token, 'access-token-number-1');
      const failed = await now(store, account);
      assert.deepEqual(
        { healthy: failed.healthy, dead: failed.dead, failures: failed.refresh_failures },
        { healthy: 1, dead: 0, failures: 1 },
      );
      assert.ok(failed.error !== null && failed.error !== '');
      assert.doesNotMatch(failed.error, /token-number|client-secret/);
      // However many ask, the provider is left alone until the next time comes.
      const requests = server.receiver.requests.length;
      await credentials.use(account.id, [ownerId], 'dc_1');
      assert.equal(server.receiver.requests.length, requests);

      clock.step(0.05 * hourMs);
      await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), {
        code: 'account_not_refreshed',
        message: new RegExp(`^the access token of account ${account.id} \\(Example\\) has ended: `),
      });
      assert.deepEqual(
        { ...(await now(store, account)), error: null },
        { ...(await now(store, account)), error: null, healthy: 0, dead: 0, version: 1 },
      );
      // A reader gets what there is.
      const read = await credentials.read(account.id, [ownerId]);
      assert.equal(read.credentials.oauth_refresh_token, 'refresh-token-number-1');

      server.failure = undefined;
      clock.step(hourMs);
      const healed = await credentials.use(account.id, [ownerId], 'dc_1');
      assert.match(String(healed.credentials.oauth_access_token), /access-token-number-[23]/);
      const well = await now(store, account);
      assert.deepEqual(
        { healthy: well.healthy, dead: well.dead, error: well.error, failures: well.refresh_failures },
        { healthy: 1, dead: 0, error: null, failures: 0 },
      );
    });
  }

  test('a provider that is away for hours is asked again every quarter of an hour', async () => {
    const { store } = fixture;
    const { refresher } = process('node_a', store);
    const account = await connect(store);
    clock.step(hourMs);
    server.failure = { status: 503, body: {} };
    const waits: number[] = [];
    for (let failures = 1; failures <= 8; failures += 1) {
      const failed = await refresher.refresh(account.id);
      waits.push(((failed?.next_refresh_at_ms ?? 0) - clock.now()) / 1000);
    }
    assert.deepEqual(waits, [5, 15, 60, 300, 900, 900, 900, 900]);
    server.failure = { status: 401, body: { error: 'invalid_client' } };
    const refused = await refresher.refresh(account.id);
    assert.equal(refused?.next_refresh_at_ms, clock.now() + hourMs);
  });

  test('a provider that says how long to wait is left alone for that long', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(0.95 * hourMs);
    server.failure = { status: 429, headers: { 'retry-after': '120' }, body: {} };
    await credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal((await now(store, account)).next_refresh_at_ms, clock.now() + 120_000);
  });

  test('invalid_grant makes an account dead, and deletes nothing', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(hourMs);
    server.failure = {
      status: 400,
      body: { error: 'invalid_grant', error_description: 'revoked: refresh-token-number-1' },
    };
    await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), {
      code: 'account_dead',
      message: new RegExp(`account ${account.id} \\(Example\\) has to be connected again: .*invalid_grant`),
    });
    const dead = await now(store, account);
    assert.deepEqual(
      { healthy: dead.healthy, dead: dead.dead, version: dead.version, next: dead.next_refresh_at_ms },
      { healthy: 0, dead: 1, version: 1, next: null },
    );
    assert.doesNotMatch(dead.error ?? '', /token-number/);
    const { credentials: kept } = await credentials.read(account.id, [ownerId]);
    assert.equal(kept.oauth_refresh_token, 'refresh-token-number-1');
    assert.equal(server.receiver.requests.length, 1);
  });

  test('a holder of the token of an account that is found dead asks again, and gets the error', async () => {
    const { store } = fixture;
    const { refresher, credentials } = process('node_a', store);
    const account = await connect(store);
    await credentials.use(account.id, [ownerId], 'dc_1');
    server.failure = { status: 503, body: {} };
    await refresher.refresh(account.id);
    assert.deepEqual(changes, [], 'it may work again in a moment');
    server.failure = { status: 400, body: { error: 'invalid_grant' } };
    await refresher.refresh(account.id);
    assert.deepEqual(changes, [account.id]);
    await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), { code: 'account_dead' });
  });

  test('a client that is refused makes an account unhealthy, not dead: the grant may still be good', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(0.95 * hourMs);
    server.failure = { status: 401, body: { error: 'invalid_client' } };
    // The token has not ended, so it is still used.
    await credentials.use(account.id, [ownerId], 'dc_1');
    const ill = await now(store, account);
    assert.deepEqual({ healthy: ill.healthy, dead: ill.dead }, { healthy: 0, dead: 0 });
    assert.match(ill.error ?? '', /invalid_client/);
  });

  test('a token that ends and cannot be refreshed makes the account dead when it ends', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store, { withoutRefreshToken: true });
    clock.step(hourMs - 1);
    await credentials.use(account.id, [ownerId], 'dc_1');
    clock.step(1);
    await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), {
      code: 'account_dead',
      message: /gave no refresh token/,
    });
    assert.equal(server.receiver.requests.length, 0);
  });

  test('who connects the account again during a refresh wins', async () => {
    const { store } = fixture;
    const { refresher, credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(hourMs);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const refreshing = refresher.refresh(account.id);
    await server.receiver.waitForRequest();
    await store.transaction((tx) =>
      replaceCredentials(tx, { vault, clock }, account, {
        credentials: { oauth_access_token: 'the-new-one', oauth_refresh_token: 'its-refresh-token' },
        grant: {
          type: 'authorization_code',
          oauthClientId: 'oa_1',
          scopes: null,
          expiresAtMs: clock.now() + hourMs,
          nextRefreshAtMs: clock.now() + hourMs,
        },
      }),
    );
    gate.resolve();
    await refreshing;
    const { credentials: kept } = await credentials.use(account.id, [ownerId], 'dc_1');
    assert.deepEqual(kept, { oauth_access_token: 'the-new-one', oauth_refresh_token: 'its-refresh-token' });
  });

  test('a refusal that comes when the account was connected again does not touch it', async () => {
    const { store } = fixture;
    const { refresher } = process('node_a', store);
    const account = await connect(store);
    clock.step(hourMs);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    server.failure = { status: 400, body: { error: 'invalid_grant' } };
    const refreshing = refresher.refresh(account.id);
    await server.receiver.waitForRequest();
    await store.transaction((tx) =>
      replaceCredentials(tx, { vault, clock }, account, {
        credentials: { oauth_access_token: 'the-new-one' },
        grant: {
          type: 'authorization_code',
          oauthClientId: 'oa_1',
          scopes: null,
          expiresAtMs: null,
          nextRefreshAtMs: null,
        },
      }),
    );
    gate.resolve();
    await refreshing;
    const { healthy, dead, error, version } = await now(store, account);
    assert.deepEqual({ healthy, dead, error, version }, { healthy: 1, dead: 0, error: null, version: 2 });
  });

  test('an account that is deleted during its refresh stays deleted', async () => {
    const { store } = fixture;
    const { refresher } = process('node_a', store);
    const account = await connect(store);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const refreshing = refresher.refresh(account.id);
    await server.receiver.waitForRequest();
    await store.transaction((tx) => deleteAccount(tx, account.id, [ownerId]));
    gate.resolve();
    assert.equal(await refreshing, undefined);
    assert.equal(await findAccount(store.read, account.id), undefined);
  });

  test('a process that dies in a refresh holds up the next one until its lease ends, and loses nothing', async () => {
    const { store } = fixture;
    const account = await connect(store);
    clock.step(hourMs);
    // It leaves the lease, and perhaps a request whose answer was not read.
    await store.transaction((tx) =>
      changeAccount(tx, account.id, { lease_node: 'node_dead', lease_until_ms: clock.now() + 30_000 }),
    );
    const { credentials } = process('node_a', store);
    const using = credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal(server.receiver.requests.length, 0);
    clock.step(30_000);
    const used = await using;
    assert.equal(used.credentials.oauth_access_token, 'access-token-number-2');
  });

  test('a lease is not taken by a process that looked at the clock a moment before its holder', async () => {
    const { store } = fixture;
    const account = await connect(store);
    const take = (node: string, nowMs: number) =>
      store.transaction((tx) => takeRefreshLease(tx, account, { node, nowMs, untilMs: nowMs + 30_000 }));
    const nowMs = clock.now();
    assert.equal(await take('node_a', nowMs + 5), true);
    assert.equal(await take('node_b', nowMs), false);
    assert.equal(await take('node_b', nowMs + 30_004), false);
    // Its clock is put right, back by hours.
    assert.equal(await take('node_b', nowMs - hourMs), true);
    assert.equal(await take('node_a', nowMs - hourMs + 30_000), true, 'it ended');
  });

  test('a lease is for the credentials that its taker has read, and only its holder gives it back', async () => {
    const { store } = fixture;
    const account = await connect(store);
    const take = (node: string, version: number) => {
      const lease = { node, nowMs: clock.now(), untilMs: clock.now() + 30_000 };
      return store.transaction((tx) => takeRefreshLease(tx, { id: account.id, version }, lease));
    };
    assert.equal(await take('node_a', account.version - 1), false, 'the credentials changed meanwhile');
    assert.equal(await take('node_a', account.version), true);
    await store.transaction((tx) => giveBackLease(tx, account.id, 'node_b'));
    assert.equal(await take('node_b', account.version), false);
    await store.transaction((tx) => giveBackLease(tx, account.id, 'node_a'));
    assert.equal(await take('node_b', account.version), true);
  });

  test('a provider that is slow holds no caller up while the token is good', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(0.95 * hourMs);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const early = await credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal(early.credentials.oauth_access_token, 'access-token-number-1');
    // Not at once, or each run of a busy source would wait.
    assert.equal(early.freshUntilMs, clock.now() + 15_000);
    clock.step(0.05 * hourMs);
    const late = credentials.use(account.id, [ownerId], 'dc_1');
    gate.resolve();
    assert.equal((await late).credentials.oauth_access_token, 'access-token-number-2');
    assert.equal(server.refreshes, 1);
  });

  test('tokens of a process that slept through its lease are accepted when they arrive after all', async () => {
    const { store } = fixture;
    const a = process('node_a', store);
    const b = process('node_b', store);
    const account = await connect(store);
    clock.step(hourMs);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const sleeping = a.refresher.refresh(account.id);
    await server.receiver.waitForRequest();
    // Its request has spent the refresh token, so the other process is refused with it.
    clock.step(30_000);
    const second = b.refresher.refresh(account.id);
    await server.receiver.waitForRequest(2);
    gate.resolve();
    await Promise.all([sleeping, second]);
    const { healthy, dead, error } = await now(store, account);
    assert.deepEqual({ healthy, dead, error }, { healthy: 1, dead: 0, error: null });
    const used = await b.credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal(used.credentials.oauth_access_token, 'access-token-number-2');
    assert.deepEqual({ refreshes: server.refreshes, replays: server.replays }, { refreshes: 1, replays: 1 });
  });

  test('a refusal after a process that may only sleep is final when that brings nothing for a minute', async () => {
    const { store } = fixture;
    const { refresher } = process('node_a', store);
    const account = await connect(store);
    await store.transaction((tx) =>
      changeAccount(tx, account.id, { lease_node: 'node_asleep', lease_until_ms: clock.now() }),
    );
    clock.step(0.95 * hourMs);
    server.failure = { status: 400, body: { error: 'invalid_grant' } };
    await refresher.refresh(account.id);
    const first = await now(store, account);
    assert.deepEqual(
      { healthy: first.healthy, dead: first.dead, next: first.next_refresh_at_ms },
      { healthy: 1, dead: 0, next: clock.now() + 60_000 },
    );
    clock.step(60_000);
    await refresher.refresh(account.id);
    assert.equal((await now(store, account)).dead, 1);
  });

  test('credentials that cannot be opened hold no caller up: the lease is given back', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    clock.step(hourMs);
    await store.transaction((tx) => changeAccount(tx, account.id, { sealed: 'v1.0000000000000000.damaged' }));
    for (const _ of [1, 2])
      await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), { code: 'sealed_value_damaged' });
    assert.equal(server.receiver.requests.length, 0);
  });

  test('tokens that came while the store was away are kept until it is back; the provider is not asked again', async () => {
    const { store } = fixture;
    let isAway = false;
    const flaky = Object.create(store, {
      transaction: {
        value: (work: Parameters<Store['transaction']>[0]) =>
          isAway
            ? Promise.reject(new UnavailableError('storage_full', 'the disk is full'))
            : store.transaction(work),
      },
    }) as Store;
    const { refresher, credentials } = process('node_a', flaky);
    const account = await connect(store);
    clock.step(hourMs);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const using = credentials.use(account.id, [ownerId], 'dc_1');
    await server.receiver.waitForRequest();
    isAway = true;
    gate.resolve();
    await assert.rejects(using, { code: 'storage_full' });
    // Callers that ask meanwhile are refused, and no spent token is sent.
    await assert.rejects(credentials.use(account.id, [ownerId], 'dc_1'), { code: 'storage_full' });
    const gainedAtMs = clock.now();
    clock.step(60_000);
    isAway = false;
    await waitFor(async () => (await now(store, account)).version === 2, { what: 'the tokens to be stored' });
    const used = await credentials.use(account.id, [ownerId], 'dc_1');
    assert.equal(used.credentials.oauth_refresh_token, 'refresh-token-number-2');
    // The token lives from when it was given.
    assert.equal((await now(store, account)).expires_at_ms, gainedAtMs + hourMs);
    assert.deepEqual({ refreshes: server.refreshes, replays: server.replays }, { refreshes: 1, replays: 0 });
    await refresher.stop(1_000);
  });

  test('a process that stops in a refresh waits until what comes of it is stored', async () => {
    const { store } = fixture;
    const { refresher } = process('node_a', store);
    const account = await connect(store);
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const refreshing = refresher.refresh(account.id);
    await server.receiver.waitForRequest();
    const stopping = refresher.stop(10_000);
    gate.resolve();
    await stopping;
    assert.equal((await now(store, account)).version, 2);
    await refreshing;
  });

  test('accounts of others, and those that never were, are not there', async () => {
    const { store } = fixture;
    const { credentials } = process('node_a', store);
    const account = await connect(store);
    for (const id of [account.id, 'apn_neverwas0000']) {
      const missing = { code: 'not_found', message: `no account "${id}"` };
      await assert.rejects(credentials.use(id, ['o_other'], 'dc_1'), missing);
      await assert.rejects(credentials.read(id, ['o_other']), missing);
    }
  });
});
