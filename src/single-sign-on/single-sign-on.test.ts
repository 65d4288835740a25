import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { readGroupGrant } from '#config/group-grants.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { createApiKey, listApiKeys, revokeApiKey } from '#identity/api-keys.ts';
import { createUser, createWorkspace } from '#identity/create-identity.ts';
import { findSessionCaller, startSession } from '#identity/sessions.ts';
import { findUser } from '#identity/user-store.ts';
import { deleteMember, listMembershipsOf, putMember } from '#identity/workspace-store.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { OAuthProvider } from '../../test/support/oauth-provider.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestBrowser } from '../../test/support/test-browser.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { IdentityProvider } from './identity-provider.ts';
import { type FaultKind, ProviderFault } from './provider-fault.ts';
import { SignInRefusal } from './sign-in-refusal.ts';
import { SingleSignOn, type SingleSignOnOptions } from './single-sign-on.ts';

const publicUrl = 'https://millrace.example';
const lifeMs = 3_600_000;
const place = { userAgent: 'Firefox on Linux', address: '192.0.2.1' };

forEachStore((fixture) => {
  const dispatcher = createGuardedDispatcher({
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
  });
  let clock: TestClock;
  let provider: OAuthProvider;
  /** Users and workspaces whose membership ended. */
  let ended: string[];

  before(async () => {
    provider = await OAuthProvider.start([`${publicUrl}/oidc/callback`]);
  });
  after(async () => {
    await provider.close();
    await dispatcher.close();
  });
  beforeEach(() => {
    clock = new TestClock();
    ended = [];
    provider.decision = { login: 'ada' };
    provider.people.clear();
  });

  function open(
    options: Partial<SingleSignOnOptions> = {},
    groups: string[] = [],
    store: Store = fixture.store,
  ) {
    const settings = {
      issuer: provider.url,
      clientId: provider.clientId,
      clientSecret: provider.clientSecret,
      scopes: 'openid profile email groups',
    };
    return new SingleSignOn({
      ...{ store, clock, lifeMs, logger: silentLogger, issuer: provider.url, name: 'Acme Login' },
      provider: new IdentityProvider({ settings, dispatcher, clock, logger: silentLogger }),
      ...{ groupsClaim: 'groups', grants: groups.map(readGroupGrant), createUsers: 'on', isOnly: false },
      cookieKey: Buffer.alloc(32, 3),
      publicUrl: () => publicUrl,
      admitPerson: () => undefined,
      endMembership: async (_tx, { workspaceId, userId }) => {
        ended.push(`${userId} ${workspaceId}`);
        return [];
      },
      onAccountChange: () => undefined,
      ...options,
    });
  }

  /** Goes to the provider as the user `decision` names: the query that it sends back, and the browser's cookies. */
  async function atProvider(sso: SingleSignOn, request: Partial<Parameters<SingleSignOn['start']>[0]> = {}) {
    const { url, cookie } = await sso.start({ origin: publicUrl, returnTo: '/workflows', ...request });
    const isBack = (next: string) => next.startsWith(publicUrl);
    const visit = await new TestBrowser().visit(url, { stopBefore: isBack });
    assert.ok(isBack(visit.url), `${visit.status} ${visit.text}`);
    return { query: new URL(visit.url).search, cookies: new Map([[cookie.name, cookie.value]]), url };
  }

  async function signIn(sso: SingleSignOn, login = 'ada') {
    provider.decision = { login };
    const { query, cookies } = await atProvider(sso);
    const end = await sso.finish(query, { cookies, place });
    const token = end.session?.token ?? '';
    const caller = await findSessionCaller(fixture.store.read, token, clock.now());
    assert.ok(caller !== undefined);
    const user = await findUser(fixture.store.read, caller.userId);
    assert.ok(user !== undefined);
    return { ...end, token, caller, user };
  }

  async function refused(promise: Promise<unknown>): Promise<SignInRefusal> {
    const error = await promise.then(
      () => assert.fail('it was not refused'),
      (thrown) => thrown,
    );
    assert.ok(error instanceof SignInRefusal, String(error));
    return error;
  }

  const rolesOf = async (userId: string) =>
    Object.fromEntries(
      (await listMembershipsOf(fixture.store.read, userId)).map(({ workspace_id, role }) => [
        workspace_id,
        role,
      ]),
    );

  async function workspace(name: string) {
    const { user } = await createUser(
      fixture.store,
      { username: `owner-of-${name}`, email: `${name}@a.example` },
      clock,
    );
    return createWorkspace(fixture.store, { name, orgname: name, user }, { clock });
  }

  test('the first sign-in creates a user, and later ones find that user by issuer and subject, whatever else changes', async () => {
    const ada = { preferred_username: 'Ada Lovelace', email: 'ada@acme.example', email_verified: true };
    provider.people.set('ada', ada);
    const first = await signIn(open());
    assert.deepEqual(
      [first.returnTo, first.user.username, first.user.email, first.user.is_admin],
      ['/workflows', 'Ada-Lovelace', 'ada@acme.example', 0],
    );
    provider.people.set('ada', { preferred_username: 'countess', email: 'new@acme.example' });
    const second = await signIn(open());
    assert.equal(second.user.id, first.user.id);
    // A new session each time: a token that was there before gains nothing.
    assert.notEqual(second.token, first.token);
    const [identity] = await open().identitiesOf(first.user.id);
    assert.deepEqual(
      [identity?.issuer, identity?.subject, identity?.email],
      [provider.url, 'ada', 'new@acme.example'],
    );
    // What sessions belong to is no API key of the user, who has none and needs none.
    const keys = () => listApiKeys(fixture.store.read, first.user.id, { limit: 10 });
    assert.equal((await keys()).totalCount, 0);
    const { key } = await createApiKey(fixture.store, { userId: first.user.id, name: 'own' }, clock);
    await revokeApiKey(fixture.store, { userId: first.user.id, keyId: key.id }, clock);
    assert.equal((await keys()).totalCount, 0);
    // The same name of another subject is another user.
    provider.people.set('bob', { preferred_username: 'Ada Lovelace' });
    const bob = await signIn(open(), 'bob');
    assert.match(bob.user.username, /^Ada-Lovelace-[0-9a-z]{6}$/);
  });

  test('an e-mail address never joins a user: a verified one that is taken is refused, an unverified one is not stored', async () => {
    await createUser(fixture.store, { username: 'boss', email: 'boss@acme.example' }, clock);
    provider.people.set('eve', { email: 'boss@acme.example', email_verified: true });
    provider.decision = { login: 'eve' };
    const sso = open();
    const { query, cookies } = await atProvider(sso);
    const taken = await refused(sso.finish(query, { cookies, place }));
    assert.equal(taken.code, 'email_taken');
    assert.match(
      taken.message,
      /If it is yours, sign in with an API key and link your account of Acme Login/,
    );
    // Mail goes to the same person however the address is written, so nothing must create a second user.
    provider.people.set('eve', { email: 'Boss@ACME.example', email_verified: true });
    const only = open({ isOnly: true });
    const again = await atProvider(only);
    const cased = await refused(only.finish(again.query, { cookies: again.cookies, place }));
    assert.equal(cased.code, 'email_taken');
    assert.match(cased.message, /If it is yours, ask the operator to set MILLRACE_OIDC_ONLY=off until/);
    for (const values of [
      { username: 'other', email: 'BOSS@acme.example' },
      { username: 'BOSS', email: 'other@acme.example' },
    ])
      await assert.rejects(createUser(fixture.store, values, clock), { code: 'conflict' });
    for (const unverified of [{ email_verified: false }, {}, { email_verified: 'true' }]) {
      provider.people.set('eve', { email: 'boss@acme.example', preferred_username: 'eve', ...unverified });
      const eve = await signIn(open(), 'eve');
      assert.deepEqual([eve.user.username, eve.user.email], ['eve', 'eve@no-verified-email.invalid']);
    }
  });

  test('the operator sets which accounts become users: none, those with a mapped group, or all', async () => {
    provider.people.set('ada', { groups: ['devs'] });
    const attempt = async (createUsers: 'off' | 'groups', groups: string[]) => {
      const sso = open({ createUsers }, groups);
      const { query, cookies } = await atProvider(sso);
      return sso.finish(query, { cookies, place });
    };
    assert.equal((await refused(attempt('off', ['devs=team:member']))).code, 'no_user');
    assert.equal((await refused(attempt('groups', ['ops=team:member']))).code, 'no_user');
    const { session } = await attempt('groups', ['devs=team:member']);
    assert.ok(session !== undefined);
    provider.decision = { login: 'bob' };
    const admitPerson = () => {
      throw new CallerError('sandbox_required', 'the kernel level of the sandbox does not work here');
    };
    const sso = open({ admitPerson });
    const { query, cookies } = await atProvider(sso);
    const barred = await refused(sso.finish(query, { cookies, place }));
    assert.deepEqual([barred.code, barred.reason], ['not_admitted', 'sandbox_required']);
    assert.match(barred.message, /kernel level of the sandbox/);
  });

  test('groups give roles at each sign-in and take them away again; what was given by hand stays', async () => {
    const [main, ops, hand] = [await workspace('main'), await workspace('ops'), await workspace('hand')];
    const groups = [
      ...['devs=main:viewer', 'leads=main:admin', 'ops=ops:member', 'ops=instance-admin'],
      ...[`devs=${hand.id}:viewer`, 'devs=gone:member'],
    ];
    const as = async (...names: string[]) => {
      provider.people.set('ada', { groups: names });
      const { user } = await signIn(open({}, groups));
      return { user, roles: await rolesOf(user.id) };
    };
    const first = await as('devs', 'ops', 'unmapped');
    const { id } = first.user;
    assert.deepEqual(first.roles, { [main.id]: 'viewer', [ops.id]: 'member', [hand.id]: 'viewer' });
    assert.equal(first.user.is_admin, 1);
    // The highest role of several groups.
    assert.equal((await as('devs', 'leads', 'ops')).roles[main.id], 'admin');
    // An admin changes one of them by hand: from then on it is theirs.
    const put = (workspaceId: string, role: 'member') =>
      fixture.store.transaction((tx) =>
        putMember(tx, fixture.store, { workspaceId, userId: id, role }, clock.now()),
      );
    await put(hand.id, 'member');
    const third = await as('devs');
    assert.deepEqual(third.roles, { [main.id]: 'viewer', [hand.id]: 'member' });
    assert.equal(third.user.is_admin, 0);
    assert.deepEqual(ended, [`${id} ${ops.id}`]);
    // Taken away also from the last admin of a workspace, and by hand it comes back while the group lasts.
    await as('leads');
    const owner = first.user.id;
    await fixture.store.transaction((tx) => deleteMember(tx, fixture.store, main.id, owner));
    assert.deepEqual((await as('devs')).roles, { [main.id]: 'viewer', [hand.id]: 'member' });
    const last = await as();
    assert.deepEqual(last.roles, { [hand.id]: 'member' });
    assert.deepEqual(ended, [`${id} ${ops.id}`, `${id} ${main.id}`]);
  });

  test('an admin of the instance by hand stays one, whatever the groups', async () => {
    const { user, secret } = await createUser(
      fixture.store,
      { username: 'root', email: 'root@a.example', isAdmin: true },
      clock,
    );
    const sso = open({}, ['ops=instance-admin']);
    await link(sso, secret);
    for (const groups of [['ops'], []]) {
      provider.people.set('ada', { groups });
      const signedIn = await signIn(sso);
      assert.deepEqual([signedIn.user.id, signedIn.caller.isAdmin], [user.id, true]);
    }
  });

  async function link(sso: SingleSignOn, apiKey: string) {
    const { caller } = await startSession(fixture.store, { apiKey, lifeMs }, clock);
    const link = { userId: caller.userId, sessionId: caller.sessionId ?? '' };
    const { query, cookies } = await atProvider(sso, { link });
    return sso.finish(query, { cookies, place });
  }

  test('a user links an account, signs in with it, and unlinks it, which ends its sessions and what its groups gave', async () => {
    const main = await workspace('main');
    const { user, secret } = await createUser(
      fixture.store,
      { username: 'ann', email: 'ann@a.example' },
      clock,
    );
    const other = await createUser(fixture.store, { username: 'ben', email: 'ben@a.example' }, clock);
    provider.people.set('ada', { groups: ['devs'], email: 'ben@a.example', email_verified: true });
    const sso = open({ createUsers: 'off' }, ['devs=main:member', 'devs=instance-admin']);
    assert.deepEqual(await link(sso, secret), {
      ...{ returnTo: '/workflows', userId: user.id, session: undefined },
    });
    const signedIn = await signIn(sso);
    assert.deepEqual([signedIn.user.id, signedIn.user.is_admin], [user.id, 1]);
    // Linking again changes nothing; the account of one user is not another's, and a user has one.
    await link(sso, secret);
    assert.equal((await refused(link(sso, other.secret))).code, 'identity_taken');
    provider.decision = { login: 'carl' };
    assert.equal((await refused(link(sso, secret))).code, 'identity_exists');
    const [identity, ...more] = await sso.identitiesOf(user.id);
    assert.ok(identity !== undefined && more.length === 0);
    await assert.rejects(sso.unlink(other.user.id, identity.id), { code: 'not_found' });
    await sso.unlink(user.id, identity.id);
    assert.equal(await findSessionCaller(fixture.store.read, signedIn.token, clock.now()), undefined);
    assert.deepEqual([await rolesOf(user.id), ended], [{}, [`${user.id} ${main.id}`]]);
    assert.equal((await findUser(fixture.store.read, user.id))?.is_admin, 0);
    // A user who was created by the provider has no other way in.
    const only = await signIn(open(), 'dora');
    const [doras] = await sso.identitiesOf(only.user.id);
    await assert.rejects(sso.unlink(only.user.id, doras?.id ?? ''), { code: 'conflict' });
  });

  test('nothing is linked for a user who signed out meanwhile', async () => {
    const { secret, user } = await createUser(
      fixture.store,
      { username: 'ann', email: 'ann@a.example' },
      clock,
    );
    const sso = open();
    const { caller } = await startSession(fixture.store, { apiKey: secret, lifeMs }, clock);
    const { query, cookies } = await atProvider(sso, {
      link: { userId: user.id, sessionId: caller.sessionId ?? '' },
    });
    await fixture.store.transaction((tx) => tx.deleteFrom('sessions').execute());
    assert.equal((await refused(sso.finish(query, { cookies, place }))).code, 'session_over');
    assert.deepEqual(await sso.identitiesOf(user.id), []);
  });

  test('a sign-in that began on one node ends on another, once, in the browser that began it, within ten minutes', async () => {
    const [a, b] = [open(), open({}, [], await openOther())];
    const { query, cookies, url } = await atProvider(a);
    const asked = new URL(url).searchParams;
    assert.deepEqual(
      [asked.get('code_challenge_method'), asked.get('response_type'), asked.get('redirect_uri')],
      ['S256', 'code', `${publicUrl}/oidc/callback`],
    );
    const [[name, value] = ['', '']] = cookies;
    const [text = ''] = value.split('.');
    const forgedText = Buffer.from(
      Buffer.from(text, 'base64url').toString().replace('/workflows', '//evil'),
    ).toString('base64url');
    const mac = value.slice(text.length);
    const state = new URLSearchParams(query).get('state') ?? '';
    for (const [what, hostile, jar] of [
      ['another browser', query, new Map()],
      ['no state', '?code=x', cookies],
      ['another state', query.replace(state, 'x'.repeat(43)), cookies],
      ['a changed cookie', query, new Map([[name, forgedText + mac]])],
      ['a cookie without its seal', query, new Map([[name, text]])],
    ] as const) {
      assert.equal(
        (await refused(b.finish(hostile, { cookies: jar, place }))).code,
        'not_started_here',
        what,
      );
    }
    // The answer of another sign-in of the same provider: its code does not go with this state, nonce and verifier.
    const victim = await atProvider(a);
    const mixed = new URLSearchParams(query);
    mixed.set('code', new URLSearchParams(victim.query).get('code') ?? '');
    assert.equal((await refused(b.finish(`?${mixed}`, { cookies, place }))).code, 'provider_refused');
    const { returnTo, session } = await b.finish(query, { cookies, place });
    assert.ok(returnTo === '/workflows' && session !== undefined);
    for (const node of [a, b])
      assert.equal((await refused(node.finish(query, { cookies, place }))).code, 'provider_refused');
    const late = await atProvider(a);
    clock.step(10 * 60_000);
    assert.equal(
      (await refused(b.finish(late.query, { cookies: late.cookies, place }))).code,
      'not_started_here',
    );
  });

  /** The store as another node has it; SQLite has one. */
  const openOther = async () => (fixture.dialect === 'postgres' ? fixture.open() : fixture.store);

  test('an answer counts once even where the provider takes its code twice', async () => {
    let answered = 0;
    const generous = {
      claims: async () => {
        answered += 1;
        return { iss: provider.url, sub: 'ada' };
      },
      authorizationUrl: async (_uri: string, { state }: { state: string }) =>
        `${provider.url}/?state=${state}`,
    } as unknown as IdentityProvider;
    const [a, b] = [open({ provider: generous }), open({ provider: generous }, [], await openOther())];
    const { url, cookie } = await a.start({ origin: publicUrl, returnTo: '/' });
    const cookies = new Map([[cookie.name, cookie.value]]);
    const ends = await Promise.allSettled(
      [1, 2, 3, 4].map((n) => (n % 2 ? a : b).finish(new URL(url).search, { cookies, place })),
    );
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(answered, 4);
    const codes = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason.code] : []));
    assert.deepEqual(codes, ['used_already', 'used_already', 'used_already']);
  });

  test('a provider that cannot be used is told apart from one that does not answer at the moment', async () => {
    const provider = (kind: FaultKind) => {
      const fail = () => Promise.reject(new ProviderFault(kind, 'for the log'));
      return { authorizationUrl: fail } as unknown as IdentityProvider;
    };
    const message = async (kind: FaultKind, options: Partial<SingleSignOnOptions> = {}) => {
      const started = open({ provider: provider(kind), ...options }).start({
        origin: undefined,
        returnTo: '/',
      });
      const error: unknown = await started.catch((thrown) => thrown);
      assert.ok(error instanceof UnavailableError);
      return error.message;
    };
    assert.equal(
      await message('unavailable'),
      'Acme Login does not answer at the moment: try again in a minute; until then you can sign in with an API key',
    );
    assert.equal(
      await message('untrusted', { isOnly: true }),
      'Acme Login gives answers that this service cannot use, and trying again does not help: tell the operator, who finds the reason under Instance, Running and in the log; until then admins of the instance can sign in with an API key',
    );
  });

  test('the way back is a path of this service only, and starts at its public URL', async () => {
    const sso = open();
    for (const returnTo of [
      ...['https://evil.example', '//evil.example', '/\\evil.example', '/\t/evil.example', 'workflows', ''],
      ...['/..//evil.example', '/a\r\nset-cookie: x=y', `/${'x'.repeat(500)}`, '/é'],
    ]) {
      await assert.rejects(
        sso.start({ origin: publicUrl, returnTo }),
        (error: CallerError) => error.code === 'invalid_parameter' && error.details.parameter === 'return_to',
        returnTo,
      );
    }
    await assert.rejects(sso.start({ origin: 'http://10.0.0.7:8080', returnTo: '/' }), {
      code: 'conflict',
      message: /works at https:\/\/millrace\.example only.*MILLRACE_PUBLIC_URL/,
    });
    const { returnTo } = await (async () => {
      const { query, cookies } = await atProvider(sso, { returnTo: '/runs/r_1?tab=a%20b&c=//d' });
      return sso.finish(query, { cookies, place });
    })();
    assert.equal(returnTo, '/runs/r_1?tab=a%20b&c=//d');
  });
});
