import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { EventBus } from '#events/event-bus.ts';
import { databaseTimeMs } from '#jobs/node-store.ts';
import { must } from '#lib/assert.ts';
import { Deferred } from '#lib/deferred.ts';
import { silentLogger } from '#lib/logger.ts';
import { Vault } from '#vault/vault.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { TokenServer } from '../../test/support/token-server.ts';
import { AccountService } from './account-service.ts';
import { changeAccount } from './account-store.ts';
import { storeAccount } from './manage-accounts.ts';
import { putClient } from './oauth/manage-oauth-clients.ts';

const ownerId = 'o_owner';
const userId = 'u_owner';
const leaseMs = 30_000;

forEachStore((fixture) => {
  /** The parts of accounts on this store, and an account whose token has ended, in the time of `clock`. */
  async function serviceWithAccount(clock: TestClock) {
    const { store } = fixture;
    const server = await TokenServer.start();
    const vault = new Vault(Buffer.alloc(32, 7));
    const policy = new AddressPolicy({ allow: ['local'], deny: () => [] });
    const dispatcher = createGuardedDispatcher({ policy });
    const app = server.app('example');
    const service = new AccountService({
      ...{ store, vault, clock, dispatcher, policy, router: noSubscribers },
      ...{ logger: silentLogger, bus: new EventBus(silentLogger), node: 'node_1' },
      ...{ apps: { find: async () => app }, publicUrl: () => 'http://127.0.0.1', onChange: () => {} },
      ...{ checkHours: 0, auditDays: 1 },
    });
    const { accessToken, refreshToken } = server.grant();
    const { id } = await store.transaction(async (tx) => {
      const tools = { vault, clock };
      const secrets = { clientId: 'client', clientSecret: 'client-secret-1', scopes: undefined };
      const client = await putClient(tx, tools, { ownerId, userId, app, ...secrets });
      const credentials = { oauth_access_token: accessToken, oauth_refresh_token: refreshToken };
      const times = { expiresAtMs: clock.now(), nextRefreshAtMs: clock.now() };
      return storeAccount(tx, tools, {
        ...{ ownerId, userId, app, name: null, credentials },
        grant: { type: 'authorization_code', oauthClientId: client.id, scopes: ['read'], ...times },
      });
    });
    const lease = () =>
      store.read
        .selectFrom('accounts')
        .select(['lease_node', 'lease_until_ms'])
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
    return {
      ...{ server, service, id, lease },
      async [Symbol.asyncDispose]() {
        await service.stop(1_000);
        await dispatcher.destroy();
        await server.close();
      },
    };
  }

  test('a refresh leases its account in the time that all nodes of the store share', async () => {
    const clock = new TestClock(Date.now() + 86_400_000);
    await using accounts = await serviceWithAccount(clock);
    const { server, service, id, lease } = accounts;
    const leaseTimeMs = async () =>
      fixture.dialect === 'postgres' ? databaseTimeMs(fixture.store.read) : clock.now();
    const gate = new Deferred<void>();
    server.gate = gate.promise;
    const beforeMs = await leaseTimeMs();
    const using = service.credentials.use(id, [ownerId], 'dc_1');
    await server.receiver.waitForRequest();
    const { lease_node, lease_until_ms } = await lease();
    const afterMs = await leaseTimeMs();
    gate.resolve();
    await using;
    assert.equal(lease_node, 'node_1');
    const leasedAtMs = must(lease_until_ms, 'the end of the lease') - leaseMs;
    assert.ok(beforeMs <= leasedAtMs && leasedAtMs <= afterMs, `${beforeMs} ${leasedAtMs} ${afterMs}`);
    assert.deepEqual(await lease(), { lease_node: null, lease_until_ms: null });
  });

  test('a node that starts ends the leases of other nodes only when it has the store for itself', async () => {
    const clock = new TestClock();
    await using accounts = await serviceWithAccount(clock);
    const { service, id, lease } = accounts;
    const held = { lease_node: 'node_other', lease_until_ms: clock.now() + leaseMs };
    await fixture.store.transaction((tx) => changeAccount(tx, id, held));
    await service.start({ keeps: false });
    const isShared = fixture.dialect === 'postgres';
    assert.deepEqual(await lease(), isShared ? held : { lease_node: null, lease_until_ms: null });
  });
});
