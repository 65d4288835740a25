import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { findSealedAccount } from '#accounts/account-store.ts';
import { parseApp } from '#accounts/apps/parse-app.ts';
import { putClient } from '#accounts/oauth/manage-oauth-clients.ts';
import { OAuth1Flow } from '#accounts/oauth/oauth1-flow.ts';
import { createTokenEndpoint } from '#accounts/oauth/token-endpoint.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { insertApiKey } from '#identity/api-key-store.ts';
import type { Caller } from '#identity/permissions.ts';
import { insertUser } from '#identity/user-store.ts';
import { newSecret } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import { openObject } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { OAuthProvider } from '../../../test/support/oauth-provider.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestBrowser } from '../../../test/support/test-browser.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { AccountConnector } from './connect-account.ts';
import { type ConnectStep, formTokenOf } from './connect-flow.ts';
import { ConnectProvider, type ProviderAnswer } from './connect-provider.ts';

const publicUrl = 'https://millrace.example';

forEachStore((fixture) => {
  describe('links that connect accounts', () => {
    const dispatcher = createGuardedDispatcher({
      policy: new AddressPolicy({ allow: ['public', 'local'], deny: () => [] }),
    });
    const vault = new Vault(Buffer.alloc(32, 1));
    let clock: TestClock;
    let provider: OAuthProvider;
    let connector: AccountConnector;
    let clientId: string;
    let caller: Caller;
    let userId: string;

    before(async () => {
      provider = await OAuthProvider.start([`${publicUrl}/connect/callback`]);
    });
    after(async () => {
      await provider.close();
      await dispatcher.destroy();
    });
    beforeEach(async () => {
      clock = new TestClock(Date.now());
      connector = connectorOn();
      await fixture.store.transaction(async (tx) => {
        const user = await insertUser(tx, { username: 'ada', email: 'ada@example.com', isAdmin: false }, 1);
        const key = await insertApiKey(tx, { userId: user.id, name: 'links', secret: newSecret() }, 1);
        caller = { userId: user.id, isAdmin: false, keyId: key.id };
        userId = user.id;
        const { clientId: id, clientSecret } = provider;
        const app = parseApp(provider.app('hub'));
        const client = { ownerId: userId, userId, app, clientId: id, clientSecret, scopes: undefined };
        clientId = (await putClient(tx, { vault, clock }, client)).id;
      });
    });

    /** A process of the service. */
    function connectorOn(store = fixture.store): AccountConnector {
      const made: AccountConnector = new AccountConnector({
        store,
        vault,
        clock,
        logger: silentLogger,
        findApp: async (slug) => (slug === 'hub' ? parseApp(provider.app('hub')) : undefined),
        requireApp: async () => parseApp(provider.app('hub')),
        publicUrl: () => publicUrl,
        onChange: () => {},
        provider: new ConnectProvider({
          tokens: createTokenEndpoint({ dispatcher, clock }),
          oauth1: new OAuth1Flow({ dispatcher, clock }),
          redirectUri: () => made.redirectUri(),
        }),
      });
      return made;
    }

    async function begin(): Promise<string> {
      const request = { caller, ownerId: userId, app: 'hub', accountId: undefined, name: null };
      const rest = { redirectUrl: undefined, fields: {}, scopes: undefined };
      const { url } = await connector.begin({ ...request, ...rest });
      return url.slice(`${publicUrl}/connect/`.length);
    }

    const noCookies = new Map<string, string>();

    /** A browser that opens the link, agrees, and goes to the provider: what it comes back with. */
    async function atProvider(
      link: string,
      on: () => AccountConnector = () => connector,
    ): Promise<{ cookies: Map<string, string>; answer: ProviderAnswer }> {
      const page = await on().open(link, noCookies);
      assert.ok(page.kind === 'form' && page.cookie !== undefined);
      assert.deepEqual(page.asked, []);
      const cookies = new Map([[page.cookie.name, page.cookie.value]]);
      const agreed = new URLSearchParams({ form_token: page.formToken });
      const step: ConnectStep = await on().submit(link, cookies, agreed);
      assert.ok(step.kind === 'provider');
      const visit = await new TestBrowser().visit(step.url, {
        stopBefore: (url) => url.startsWith(publicUrl),
      });
      return { cookies, answer: Object.fromEntries(new URL(visit.url).searchParams) };
    }

    test('are good for ten minutes, the stay at the provider included', async () => {
      const link = await begin();
      clock.step(10 * 60_000);
      await assert.rejects(connector.open(link, noCookies), { name: 'ConnectRefusal', status: 404 });
      const late = await atProvider(await begin());
      clock.step(10 * 60_000);
      await assert.rejects(connector.callback(late.answer, late.cookies), {
        name: 'ConnectRefusal',
        status: 404,
      });
      assert.equal((await fixture.store.read.selectFrom('accounts').select('id').execute()).length, 0);
      // Those that are over go with the next one.
      clock.step(1);
      await begin();
      assert.equal((await fixture.store.read.selectFrom('connect_flows').select('id').execute()).length, 1);
    });

    test('of one owner that are unused are a thousand at most', async () => {
      await begin();
      const row = await fixture.store.read.selectFrom('connect_flows').selectAll().executeTakeFirstOrThrow();
      const copy = (n: number) => ({ ...row, id: `cf_${n}`, link_hash: `link ${n}`, state_hash: null });
      await fixture.store.transaction(async (tx) => {
        for (let n = 1; n < 1_000; n += 1) await tx.insertInto('connect_flows').values(copy(n)).execute();
      });
      await assert.rejects(begin(), { code: 'conflict' });
      clock.step(10 * 60_000);
      await begin();
    });

    test('may be answered by another process at every step', async () => {
      const { answer, cookies } = await atProvider(await begin(), connectorOn);
      const both = await Promise.allSettled([
        connectorOn().callback(answer, cookies),
        connectorOn().callback(answer, cookies),
      ]);
      assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
      const done = both.find((one) => one.status === 'fulfilled');
      assert.equal(done?.value.kind, 'connected');
    });

    test('may be opened by many, and are of the browser that agrees first, also when two do at the same moment', async () => {
      const link = await begin();
      const agree = async () => {
        const page = await connector.open(link, noCookies);
        assert.ok(page.kind === 'form' && page.cookie !== undefined);
        const cookies = new Map([[page.cookie.name, page.cookie.value]]);
        return () => connector.submit(link, cookies, new URLSearchParams({ form_token: page.formToken }));
      };
      const [one, other, late] = [await agree(), await agree(), await agree()];
      const both = await Promise.allSettled([one(), other()]);
      assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
      await assert.rejects(late(), { name: 'ConnectRefusal', status: 403 });
      await assert.rejects(connector.open(link, noCookies), { name: 'ConnectRefusal', status: 403 });
    });

    test('continue only with the cookie of the browser that agreed, and a wrong one uses nothing up', async () => {
      const link = await begin();
      const { answer, cookies } = await atProvider(link);
      const other = await atProvider(await begin());
      const [[name = '', value = ''] = []] = cookies;
      const [[otherName = '', otherValue = ''] = []] = other.cookies;
      assert.ok(name !== '' && name !== otherName && value !== otherValue);
      const wrongCookies: [string, Map<string, string>][] = [
        ['none', noCookies],
        ['an empty value', new Map([[name, '']])],
        ['any value', new Map([[name, 'x'.repeat(value.length)]])],
        ['more than the value', new Map([[name, `${value}x`]])],
        ['the value in another case', new Map([[name, value.toLowerCase()]])],
        ['the token of its forms', new Map([[name, formTokenOf(value)]])],
        ['the cookie of another link', other.cookies],
        ['the value of another link', new Map([[name, otherValue]])],
        ['its value under another name', new Map([[otherName, value]])],
      ];
      const refused = { name: 'ConnectRefusal', status: 403 };
      for (const [what, wrong] of wrongCookies) {
        await assert.rejects(connector.callback(answer, wrong), refused, `answer with ${what}`);
        await assert.rejects(connector.open(link, wrong), refused, `link with ${what}`);
        const form = new URLSearchParams({ form_token: formTokenOf(wrong.get(name) ?? '') });
        await assert.rejects(connector.submit(link, wrong, form), refused, `form with ${what}`);
      }
      // The cookie alone is no form of this page either.
      for (const form_token of ['', value, formTokenOf(otherValue)]) {
        const form = new URLSearchParams({ form_token });
        await assert.rejects(connector.submit(link, cookies, form), refused);
      }
      assert.equal((await fixture.store.read.selectFrom('accounts').select('id').execute()).length, 0);
      assert.equal((await connector.callback(answer, cookies)).kind, 'connected');
      assert.equal((await connector.callback(other.answer, other.cookies)).kind, 'connected');
    });

    test('keep nothing in clear, and nothing sealed once they are used', async () => {
      const link = await begin();
      const row = () => fixture.store.read.selectFrom('connect_flows').selectAll().executeTakeFirstOrThrow();
      const { answer, cookies } = await atProvider(link);
      const flow = await row();
      const secrets = await openObject(fixture.store.read, vault, { ...flow, ownerId: userId });
      const { verifier, nonce } = secrets.keep as Record<string, string>;
      for (const secret of [link, [...cookies.values()][0], answer.state, verifier, nonce]) {
        assert.ok(secret !== undefined && secret.length >= 32);
        assert.ok(!JSON.stringify(flow).includes(secret));
      }
      await connector.callback(answer, cookies);
      assert.equal((await row()).sealed, '');
    });

    test('leave an audit, an account that is refreshed in time, and what was granted', async () => {
      const { answer, cookies } = await atProvider(await begin());
      const step = await connector.callback(answer, cookies);
      assert.ok(step.kind === 'connected');
      const account = await findSealedAccount(fixture.store.read, step.account.id);
      assert.ok(account !== undefined);
      assert.equal(account.oauth_client_id, clientId);
      assert.equal(account.grant_type, 'authorization_code');
      assert.equal(account.expires_at_ms, clock.now() + 3600_000);
      assert.equal(account.next_refresh_at_ms, clock.now() + 3240_000);
      const [entry] = await fixture.store.read.selectFrom('account_audit').selectAll().execute();
      assert.deepEqual([entry?.action, entry?.user_id, entry?.key_id], ['connected', userId, null]);
      assert.deepEqual(Object.keys(JSON.parse(entry?.details ?? '{}')), ['grant', 'scopes']);
    });

    test('of a user who was removed connect nothing', async () => {
      const { answer, cookies } = await atProvider(await begin());
      await fixture.store.transaction((tx) =>
        tx
          .deleteFrom('users')
          .where('id', '=', userId)
          .execute()
          .then(() => {}),
      );
      const step = await connector.callback(answer, cookies);
      assert.ok(step.kind === 'failed');
      assert.equal(step.failure.code, 'not_allowed');
    });

    test('of a user who was disabled, or whose key was revoked or expired, change nothing', async () => {
      const begun = async () => atProvider(await begin());
      const { answer, cookies } = await begun();
      const step = await connector.callback(answer, cookies);
      assert.ok(step.kind === 'connected');
      const accountId = step.account.id;
      const again = async () => {
        const { url } = await connector.begin({
          ...{ caller, ownerId: userId, app: undefined, accountId, name: null },
          ...{ redirectUrl: undefined, fields: {}, scopes: undefined },
        });
        return atProvider(url.slice(`${publicUrl}/connect/`.length));
      };
      const set = (table: 'users' | 'api_keys', changes: object) =>
        fixture.store.transaction(async (tx) => {
          await tx.updateTable(table).set(changes).where('id', 'in', [userId, caller.keyId]).execute();
        });
      const sealed = async () => (await findSealedAccount(fixture.store.read, accountId))?.sealed;
      const before = await sealed();
      for (const [table, ended, restored] of [
        ['users', { disabled_at_ms: clock.now() }, { disabled_at_ms: null }],
        ['api_keys', { revoked_at_ms: clock.now() }, { revoked_at_ms: null }],
        ['api_keys', { expires_at_ms: clock.now() }, { expires_at_ms: null }],
      ] as const) {
        for (const link of [await begun(), await again()]) {
          await set(table, ended);
          const refused = await connector.callback(link.answer, link.cookies);
          assert.ok(refused.kind === 'failed', JSON.stringify(ended));
          assert.equal(refused.failure.code, 'not_allowed');
          await set(table, restored);
        }
      }
      assert.equal(await sealed(), before);
      const { length } = await fixture.store.read.selectFrom('accounts').select('id').execute();
      assert.equal(length, 1);
    });

    test('a client that was changed refreshes its accounts at once, but not those it has nothing for', async () => {
      const connect = async () => {
        const { answer, cookies } = await atProvider(await begin());
        const step = await connector.callback(answer, cookies);
        assert.ok(step.kind === 'connected');
        return step.account;
      };
      const [refreshable, ending, endless] = [await connect(), await connect(), await connect()];
      const set = (id: string, changes: object) =>
        fixture.store.transaction((tx) =>
          tx
            .updateTable('accounts')
            .set(changes)
            .where('id', '=', id)
            .execute()
            .then(() => {}),
        );
      // No refresh token: looked at when it ends.
      await set(ending.id, { next_refresh_at_ms: ending.expires_at_ms });
      await set(endless.id, { next_refresh_at_ms: null, expires_at_ms: null });
      clock.step(1_000);
      await fixture.store.transaction((tx) =>
        putClient(
          tx,
          { vault, clock },
          {
            ownerId: userId,
            userId,
            app: parseApp(provider.app('hub')),
            clientId: 'another',
            clientSecret: 'secret',
            scopes: null,
          },
        ),
      );
      const due = async (id: string) => (await findSealedAccount(fixture.store.read, id))?.next_refresh_at_ms;
      assert.equal(await due(refreshable.id), clock.now());
      assert.equal(await due(ending.id), ending.expires_at_ms);
      assert.equal(await due(endless.id), null);
    });
  });
});
