import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, type TestContext, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { EventBus } from '#events/event-bus.ts';
import type { Health } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { epochSeconds } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { sealObject } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { DeliveryFixture } from '../../test/support/delivery-fixture.ts';
import { HttpReceiver, type ReceiverScript } from '../../test/support/http-receiver.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { theService } from './account-audit-store.ts';
import { changeHealth, type HealthOptions } from './account-health.ts';
import { AccountKeeper } from './account-keeper.ts';
import { type Account, changeAccount, changeAccountAt, findAccount } from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { AccountChecker } from './check-account.ts';
import { keysGrant, replaceCredentials, storeAccount } from './manage-accounts.ts';
import { testAccount } from './probes/test-request.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const canary = 'CANARY-91ab-very-secret';
const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });

interface KeepingOptions {
  clock?: TestClock;
  checkEveryMs?: number;
  store?: Store;
  vault?: Vault;
  health?: Partial<HealthOptions>;
  refresh?: (id: string, seen?: number) => Promise<Account | undefined>;
  random?: () => number;
}

/** Everything that keeps accounts, against a provider of which the test says what it answers. */
class Keeping {
  readonly store: Store;
  readonly clock: TestClock;
  readonly vault: Vault;
  readonly health: HealthOptions;
  readonly checker: AccountChecker;
  readonly keeper: AccountKeeper;
  readonly provider: HttpReceiver;
  hasTest = true;

  constructor(store: Store, provider: HttpReceiver, options: KeepingOptions) {
    this.store = store;
    this.provider = provider;
    this.clock = options.clock ?? new TestClock();
    this.vault = options.vault ?? new Vault(randomBytes(32));
    const { clock, vault } = this;
    const dispatcher = createGuardedDispatcher({ policy });
    this.health = { store, router: noSubscribers, bus: new EventBus(silentLogger), clock, ...options.health };
    const refresher = { refresh: options.refresh ?? (async (id: string) => findAccount(store.read, id)) };
    const checkEveryMs = options.checkEveryMs ?? day;
    this.checker = new AccountChecker({
      ...{ store, vault, clock, refresher, checkEveryMs },
      findApp: async (slug) => this.app(slug),
      test: (account, signal) => testAccount({ dispatcher, policy }, account, signal),
      signer: { header: () => Promise.reject(new Error('no account here is of OAuth 1')) },
      health: this.health,
      random: options.random ?? (() => 0.5),
    });
    this.keeper = new AccountKeeper({
      ...{ store, clock, refresher, checkEveryMs, checker: this.checker, logger: silentLogger },
    });
  }

  app(slug: string): AppDefinition {
    const url = `http://127.0.0.1:${this.provider.port}/${slug}`;
    const http = {
      kind: 'http',
      method: 'GET',
      url,
      headers: { Authorization: 'Bearer {{api_key}}' },
    } as const;
    return {
      ...{ slug, name: 'Stand-in', description: '', categories: [], authType: 'keys', customFields: [] },
      oauth: undefined,
      test: this.hasTest
        ? { ...http, body: undefined, basic: undefined, statuses: [], expect: undefined }
        : undefined,
    };
  }

  create(slug = 'stand_in', more: { ownerId?: string; credentials?: object } = {}): Promise<Account> {
    return this.store.transaction((tx) =>
      storeAccount(tx, this, {
        ownerId: more.ownerId ?? 'o_1',
        userId: 'u_1',
        app: { slug, name: 'Stand-in' },
        name: 'mine',
        credentials: { api_key: canary, ...more.credentials },
        grant: keysGrant,
      }),
    );
  }

  async account(id: string): Promise<Account> {
    const account = await findAccount(this.store.read, id);
    assert.ok(account);
    return account;
  }

  check(id: string): Promise<Account | undefined> {
    return this.checker.check(id, theService);
  }

  async state(id: string): Promise<string | undefined> {
    return (await this.healthOf(id))?.state;
  }

  async healthOf(id: string): Promise<Health | undefined> {
    return (await healthOf(this.store.read, 'account', [id], this.clock.now())).get(id);
  }

  async events(channel: string, emitterId = 'o_1') {
    const events = await readEvents(this.store.read, { emitterId, channel, limit: 100 });
    return events.map(({ event }) => JSON.parse(event));
  }

  async audit() {
    const rows = await this.store.read
      .selectFrom('account_audit')
      .selectAll()
      .orderBy('created_at_ms')
      .execute();
    return rows.filter(({ action }) => action.startsWith('became_'));
  }
}

async function keeping(
  t: TestContext,
  store: Store,
  answer: ReceiverScript,
  options: KeepingOptions = {},
): Promise<Keeping> {
  const provider = await HttpReceiver.start({ answer });
  const kept = new Keeping(store, provider, options);
  t.after(async () => {
    kept.checker.stop();
    await kept.keeper.stop(1_000);
    await provider.close();
  });
  return kept;
}

forEachStore((fixture) => {
  describe('what a test does to an account', () => {
    test('one that works is healthy, and tested again after a day, give or take a tenth', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 200 }, { random: () => 1 });
      const { id } = await kept.create();
      const nowMs = kept.clock.now();
      const account = await kept.check(id);
      assert.deepEqual(
        [account?.healthy, account?.error, account?.checked_at_ms, account?.next_check_at_ms],
        [1, null, nowMs, nowMs + 1.1 * day],
      );
      assert.deepEqual(await kept.audit(), []);
      assert.equal(await kept.state(id), 'healthy');
    });

    test('one that is refused is unhealthy, says why without secrets, and is tested again later and later', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 401 }, { random: () => 0 });
      const { id } = await kept.create();
      const waits: number[] = [];
      for (let n = 0; n < 8; n += 1) {
        const account = await kept.check(id);
        assert.equal(account?.healthy, 0);
        assert.match(account.error ?? '', /^GET http:\/\/127\.0\.0\.1:\d+\/stand_in answered 401$/);
        waits.push(((account.next_check_at_ms ?? 0) - kept.clock.now()) / minute);
        kept.clock.step(hour);
      }
      assert.deepEqual(waits, [1, 5, 30, 120, 360, 1440, 1440, 1440]);
      const [told, ...more] = await kept.events('account_unhealthy');
      assert.deepEqual(more, []);
      assert.deepEqual(told, {
        account: {
          id,
          name: 'mine',
          app: { id: told.account.app.id, name_slug: 'stand_in', name: 'Stand-in' },
        },
        healthy: false,
        dead: false,
        error: (await kept.account(id)).error,
        at: '2027-01-15T08:00:00.000Z',
      });
      assert.deepEqual(
        (await kept.audit()).map(({ action }) => action),
        ['became_unhealthy'],
      );
    });

    test('an account that works again is healthy, and that is reported once', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 200 });
      const { id } = await kept.create();
      kept.provider.answerOnce({ status: 401 });
      for (let n = 0; n < 3; n += 1) {
        await kept.check(id);
        kept.clock.step(1);
      }
      assert.equal((await kept.account(id)).healthy, 1);
      assert.equal((await kept.account(id)).error, null);
      assert.equal((await kept.events('account_unhealthy')).length, 1);
      assert.deepEqual(
        (await kept.events('account_healthy')).map(({ healthy, error }) => [healthy, error]),
        [[true, null]],
      );
      assert.deepEqual(
        (await kept.audit()).map(({ action }) => action),
        ['became_unhealthy', 'became_healthy'],
      );
    });

    test('a provider that cannot be asked says nothing about an account, until it is the third time in a row', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 503 });
      const { id } = await kept.create();
      const since = epochSeconds(kept.clock.now());
      const healthy: (number | undefined)[] = [];
      assert.equal(await kept.state(id), 'untested');
      const health: (Health | undefined)[] = [];
      for (let n = 0; n < 3; n += 1) {
        healthy.push((await kept.check(id))?.healthy);
        health.push(await kept.healthOf(id));
        kept.clock.step(minute);
      }
      assert.deepEqual(healthy, [1, 1, 0]);
      // A failed request is no evidence that the account works, and is reported with time, reason and count.
      assert.deepEqual(
        health.map((one) => [one?.state, one?.since, one?.failures]),
        [
          ['waiting', since, 1],
          ['waiting', since, 2],
          ['failing', since, 3],
        ],
      );
      const { error } = await kept.account(id);
      assert.match(error ?? '', /answered 503/);
      assert.equal(health[0]?.reason, `its last test or refresh could not be made: ${error}`);
      assert.equal(health[2]?.reason, error);
      kept.provider.answerAlways({ status: 200 });
      await kept.check(id);
      assert.equal(await kept.state(id), 'healthy');
      kept.provider.answerAlways({ status: 503 });
      assert.equal((await kept.check(id))?.healthy, 1);
      assert.match((await kept.account(id)).error ?? '', /answered 503/);
      assert.equal(await kept.state(id), 'waiting', 'and nothing else than its error says');
    });

    test('without a test in the catalogue it stays healthy, and is not looked at again', async (t) => {
      const kept = await keeping(t, fixture.store, {});
      kept.hasTest = false;
      const { id } = await kept.create();
      const account = await kept.check(id);
      assert.deepEqual(
        [account?.healthy, account?.next_check_at_ms, account?.checked_at_ms],
        [1, null, null],
      );
      assert.equal(await kept.state(id), 'untested');
    });

    test('a dead one is not tested', async (t) => {
      const kept = await keeping(t, fixture.store, {});
      const { id } = await kept.create();
      await fixture.store.transaction((tx) => changeAccount(tx, id, { dead: 1, healthy: 0 }));
      assert.equal((await kept.check(id))?.dead, 1);
      assert.equal(kept.provider.requests.length, 0);
    });

    test('a test of old credentials says nothing about those that took their place', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 200 });
      const account = await kept.create();
      kept.provider.answerOnce(async () => {
        await fixture.store.transaction((tx) =>
          replaceCredentials(tx, kept, account, {
            credentials: { api_key: 'the-new-one' },
            grant: keysGrant,
          }),
        );
        return { status: 401 };
      });
      assert.equal((await kept.check(account.id))?.healthy, 1);
      assert.deepEqual(
        kept.provider.requests.map(({ headers }) => headers.authorization),
        [`Bearer ${canary}`, 'Bearer the-new-one'],
      );
      assert.deepEqual(await kept.events('account_unhealthy'), []);
    });

    for (const hasTest of [true, false])
      test(`an account that was unhealthy and got other credentials is reported when it is checked, ${hasTest ? 'and works' : 'without a test too'}`, async (t) => {
        const kept = await keeping(t, fixture.store, { status: 200 });
        kept.provider.answerOnce({ status: 401 });
        const { id } = await kept.create();
        const ill = await kept.check(id);
        assert.ok(ill);
        kept.clock.step(1);
        kept.hasTest = hasTest;
        await fixture.store.transaction((tx) =>
          replaceCredentials(tx, kept, ill, { credentials: { api_key: 'another' }, grant: keysGrant }),
        );
        for (let n = 0; n < 3; n += 1) {
          await kept.check(id);
          kept.clock.step(1);
        }
        assert.equal((await kept.events('account_healthy')).length, 1);
        assert.equal((await kept.events('account_unhealthy')).length, 1);
      });

    test('a refused access token is refreshed once, and tested again', async (t) => {
      let refreshes = 0;
      const kept: Keeping = await keeping(
        t,
        fixture.store,
        ({ headers }) => ({ status: headers.authorization === 'Bearer fresh-token' ? 200 : 401 }),
        {
          refresh: async (id, seen) => {
            refreshes += 1;
            const account = await kept.account(id);
            assert.equal(account.version, seen);
            const value = {
              api_key: refreshes === 1 ? 'fresh-token' : 'bad-token',
              oauth_refresh_token: 'r',
            };
            await fixture.store.transaction(async (tx) => {
              const sealed = await sealObject(tx, kept, { ownerId: 'o_1', id, value });
              await changeAccountAt(tx, account, { sealed, version: account.version + 1 });
            });
            return kept.account(id);
          },
        },
      );
      const { id } = await kept.create('stand_in', { credentials: { oauth_refresh_token: 'r-1' } });
      await fixture.store.transaction((tx) => changeAccount(tx, id, { grant_type: 'authorization_code' }));
      assert.equal((await kept.check(id))?.healthy, 1);
      assert.deepEqual([refreshes, kept.provider.requests.length], [1, 2]);
      kept.provider.answerAlways({ status: 401 });
      assert.equal((await kept.check(id))?.healthy, 0);
      assert.deepEqual([refreshes, kept.provider.requests.length], [2, 4]);
    });
  });

  describe('two witnesses', () => {
    test('a refresh that succeeds does not make well what a test refuses', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 401 });
      const { id } = await kept.create();
      const account = await kept.check(id);
      assert.ok(account);
      const well = { healthy: true, dead: false, error: null };
      await fixture.store.transaction((tx) => changeHealth(kept.health, tx, account, well));
      assert.equal((await kept.account(id)).healthy, 0);
      assert.deepEqual(await kept.events('account_healthy'), []);
    });

    test('a test that succeeds does not make well what cannot be refreshed', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 200 });
      const { id } = await kept.create();
      await fixture.store.transaction((tx) => changeAccount(tx, id, { refresh_failures: 1 }));
      const account = await kept.account(id);
      const ill = { healthy: false, dead: false, error: 'the client was refused' };
      await fixture.store.transaction((tx) => changeHealth(kept.health, tx, account, ill));
      assert.deepEqual(await kept.check(id).then((now) => [now?.healthy, now?.error]), [
        0,
        'the client was refused',
      ]);
      await fixture.store.transaction((tx) => changeAccount(tx, id, { refresh_failures: 0 }));
      assert.equal((await kept.check(id))?.healthy, 1);
    });

    test('an account that is dead for good is no longer refreshed or tested, and that is reported', async (t) => {
      const kept = await keeping(t, fixture.store, {});
      const account = await kept.create();
      const dead = { healthy: true, dead: true, error: 'invalid_grant' };
      for (let n = 0; n < 2; n += 1)
        await fixture.store.transaction((tx) => changeHealth(kept.health, tx, account, dead));
      const now = await kept.account(account.id);
      assert.deepEqual(
        [now.healthy, now.dead, now.next_check_at_ms, now.next_refresh_at_ms],
        [0, 1, null, null],
      );
      assert.deepEqual(
        (await kept.events('account_unhealthy')).map((told) => told.dead),
        [true],
      );
    });

    test('many that find the same simultaneously report it once', async (t) => {
      const kept = await keeping(t, fixture.store, {});
      const account = await kept.create();
      const ill = { healthy: false, dead: false, error: 'no' };
      await Promise.all(
        Array.from({ length: 8 }, () =>
          fixture.store.transaction((tx) => changeHealth(kept.health, tx, account, ill)),
        ),
      );
      assert.equal((await kept.events('account_unhealthy')).length, 1);
      assert.equal((await kept.audit()).length, 1);
    });
  });

  test('a webhook that is subscribed to a workspace hears of each change exactly once, and no secret', async (t) => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    const hook = await HttpReceiver.start();
    t.after(() => hook.close());
    const { clock, bus, vault } = delivery;
    const { id: listenerId } = await delivery.webhook(`http://127.0.0.1:${hook.port}/`, { ownerId: 'o_1' });
    for (const eventName of ['account_unhealthy', 'account_healthy'])
      await delivery.subscribe(listenerId, { emitterId: 'o_1', ownerId: 'o_1', eventName });
    const router = delivery.service.finder;
    const kept = await keeping(t, fixture.store, { status: 200 }, { clock, vault, health: { router, bus } });
    kept.provider.answerOnce({ status: 401 }, { status: 401 });
    const { id } = await kept.create('stand_in', { credentials: { oauth_uid: canary } });
    await kept.create('stand_in', { ownerId: 'o_2' });
    for (let n = 0; n < 4; n += 1) await kept.check(id);
    await hook.waitForRequest(2);
    await delivery.idle();
    assert.deepEqual(
      hook.requests.map(({ headers, json }) => [
        headers['x-pd-emitter-id'],
        (json() as { healthy: boolean }).healthy,
      ]),
      [
        ['o_1', false],
        ['o_1', true],
      ],
    );
    const stored = [
      await fixture.store.read.selectFrom('accounts').selectAll().execute(),
      await fixture.store.read.selectFrom('account_audit').selectAll().execute(),
      await fixture.store.read.selectFrom('events').selectAll().execute(),
      hook.requests.map(({ body }) => body.toString()),
    ];
    assert.doesNotMatch(JSON.stringify(stored), /CANARY/);
  });

  describe('the keeper', () => {
    test('tests what is due, on one of two nodes, and nothing before its time', async (t) => {
      const clock = new TestClock();
      const kept = await keeping(t, fixture.store, { status: 200 }, { clock });
      const otherStore = fixture.dialect === 'postgres' ? await fixture.open() : fixture.store;
      const other = await keeping(t, otherStore, {}, { clock, vault: kept.vault });
      // The same provider.
      Object.assign(other, { provider: kept.provider });
      const ids: string[] = [];
      for (let n = 0; n < 20; n += 1) ids.push((await kept.create(`app_${n % 5}`)).id);
      kept.keeper.start();
      other.keeper.start();
      await waitFor(
        async () =>
          (await Promise.all(ids.map((id) => kept.account(id)))).every((one) => one.checked_at_ms !== null),
        { what: 'all to be tested' },
      );
      await kept.keeper.stop(1_000);
      await other.keeper.stop(1_000);
      assert.equal(kept.provider.requests.length, 20);
    });

    test('a slow provider holds up no other account, and stopping waits for nothing that hangs', async (t) => {
      const kept = await keeping(t, fixture.store, ({ url }) =>
        url === '/slow' ? new Promise(() => {}) : { status: 200 },
      );
      for (let n = 0; n < 30; n += 1) await kept.create('slow', { ownerId: `o_${n}` });
      const { id } = await kept.create('quick', { ownerId: 'o_quick' });
      kept.keeper.start();
      await waitFor(async () => (await kept.account(id)).checked_at_ms !== null, { what: 'the quick one' });
      const slow = () => kept.provider.requests.filter(({ url }) => url === '/slow').length;
      await waitFor(() => slow() >= 2);
      assert.equal(slow(), 2);
      kept.checker.stop();
      await kept.keeper.stop(5_000);
    });

    test('providers that hang hold up no refresh at another one', async (t) => {
      const hanging = Promise.withResolvers<undefined>();
      const kept: Keeping = await keeping(
        t,
        fixture.store,
        {},
        {
          checkEveryMs: 0,
          refresh: async (id) => {
            const account = await kept.account(id);
            if (account.app_slug !== 'quick') return hanging.promise;
            await fixture.store.transaction((tx) =>
              changeAccountAt(tx, account, { next_refresh_at_ms: kept.clock.now() + hour }),
            );
            return kept.account(id);
          },
        },
      );
      const dueAtMs = kept.clock.now() - 5;
      const due = ({ id }: Account, ms: number) =>
        fixture.store.transaction((tx) => changeAccount(tx, id, { next_refresh_at_ms: ms }));
      for (const slug of ['slow_one', 'slow_two', 'slow_three'])
        for (let n = 0; n < 6; n += 1) await due(await kept.create(slug, { ownerId: `o_${n}` }), dueAtMs);
      const quick = await kept.create('quick');
      await due(quick, dueAtMs + 1);
      kept.keeper.start();
      await waitFor(async () => ((await kept.account(quick.id)).next_refresh_at_ms ?? 0) > dueAtMs + 1, {
        what: 'the refresh at the quick one',
      });
      hanging.resolve(undefined);
      await kept.keeper.stop(5_000);
    });

    test('refreshes what is due; what could not even be tried is not due at once again', async (t) => {
      const asked: string[] = [];
      const kept: Keeping = await keeping(
        t,
        fixture.store,
        {},
        {
          checkEveryMs: 0,
          refresh: async (id, seen) => {
            asked.push(id);
            const account = await kept.account(id);
            if (account.app_slug === 'broken') throw new Error('the key is gone');
            assert.equal(account.version, seen);
            await fixture.store.transaction((tx) =>
              changeAccountAt(tx, account, { next_refresh_at_ms: kept.clock.now() + hour }),
            );
            return kept.account(id);
          },
        },
      );
      const [due, broken, later] = [await kept.create(), await kept.create('broken'), await kept.create()];
      const nowMs = kept.clock.now();
      await fixture.store.transaction(async (tx) => {
        await changeAccount(tx, due.id, { next_refresh_at_ms: nowMs - 5 });
        await changeAccount(tx, broken.id, { next_refresh_at_ms: nowMs - 6 });
        await changeAccount(tx, later.id, { next_refresh_at_ms: nowMs + 1 });
      });
      kept.keeper.start();
      await waitFor(async () => ((await kept.account(broken.id)).next_refresh_at_ms ?? 0) > nowMs, {
        what: 'the broken one to be put off',
      });
      await waitFor(async () => ((await kept.account(due.id)).next_refresh_at_ms ?? 0) > nowMs, {
        what: 'the refresh',
      });
      await kept.keeper.stop(1_000);
      assert.deepEqual(asked.toSorted(), [due.id, broken.id].toSorted());
      // Nothing is tested unasked.
      assert.equal(kept.provider.requests.length, 0);
      assert.equal((await kept.account(due.id)).checked_at_ms, null);
    });

    test('what a clock that was ahead has planned is due when the clock is set back', async (t) => {
      const kept = await keeping(t, fixture.store, { status: 200 });
      const { id } = await kept.create();
      await kept.check(id);
      kept.clock.step(-30 * day);
      kept.keeper.start();
      const nowMs = kept.clock.now();
      await waitFor(async () => (await kept.account(id)).checked_at_ms === nowMs, { what: 'the test' });
    });
  });
});
