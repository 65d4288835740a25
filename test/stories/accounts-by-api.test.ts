import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type ApiAnswer, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

interface Person {
  id: string;
  key: string;
}

const secret = 'canary-0123456789';
const absent = 'apn_000000000000';

/** Emits how long the token is, with every request to its endpoint. */
const source = `export default { name: 'S', props: { vault: { type: 'app', app: 'acme_vault' }, http: '$.interface.http' },
  run() { this.$emit({ length: this.vault.$auth.token.length }); } };`;
const step = `export default { props: { vault: { type: 'app', app: 'acme_vault' } },
  run() { return this.vault.$auth.token.length; } };`;

async function done(answer: Promise<ApiAnswer>, status = 200) {
  const { status: got, body } = await answer;
  assert.equal(got, status, JSON.stringify(body));
  return body?.data;
}

/** A workspace of the suite's user, with users in each role, one that was removed, and a stranger. */
class Team {
  readonly service: ServiceClient;
  readonly workspace: string;
  readonly admin: Person;
  readonly maker: Person;
  readonly member: Person;
  readonly viewer: Person;
  readonly former: Person;
  readonly stranger: Person;

  private constructor(service: ServiceClient, workspace: string, people: TeamPeople) {
    this.service = service;
    this.workspace = workspace;
    this.admin = people.admin;
    this.maker = people.maker;
    this.member = people.member;
    this.viewer = people.viewer;
    this.former = people.former;
    this.stranger = people.stranger;
  }

  static async make(service: ServiceClient): Promise<Team> {
    const { id } = await done(service.api('GET', '/v1/users/me'));
    const workspace = await done(service.api('POST', '/v1/workspaces', { name: 'Team' }));
    const [maker, member, viewer, former, stranger] = [
      await service.createUser('holder'),
      await service.createUser('holder'),
      await service.createUser('holder'),
      await service.createUser('holder'),
      await service.createUser('holder'),
    ];
    const team = new Team(service, workspace.id, {
      ...{ admin: { id, key: service.key }, maker, member, viewer, former, stranger },
    });
    await team.add(maker, 'member');
    await team.add(member, 'member');
    await team.add(viewer, 'viewer');
    await team.add(former, 'admin');
    await team.remove(former);
    return team;
  }

  add({ id }: Person, role: string) {
    return done(this.service.api('POST', `/v1/workspaces/${this.workspace}/members`, { user_id: id, role }));
  }

  remove({ id }: Person) {
    return done(this.service.api('DELETE', `/v1/workspaces/${this.workspace}/members/${id}`), 204);
  }

  ask({ key }: Person, method: string, path: string, body?: unknown): Promise<ApiAnswer> {
    return this.service.api(method, path, body, { key });
  }

  /** An account of the workspace, or with `personal` of who makes it. */
  async account(maker: Person, { personal = false }: { personal?: boolean } = {}): Promise<string> {
    const body = { app: 'acme_vault', name: 'Work', credentials: { token: secret } };
    const path = personal ? '/v1/accounts' : `/v1/accounts?org_id=${this.workspace}`;
    return (await done(this.ask(maker, 'POST', path, body))).id;
  }

  /** A source of the workspace that uses the account. */
  async source(maker: Person, account: string) {
    const configured_props = { vault: { authProvisionId: account } };
    const body = { component_code: source, configured_props };
    const made = await done(this.ask(maker, 'POST', `/v1/sources?org_id=${this.workspace}`, body));
    return { ...made, endpoint_url: made.configured_props.http.endpoint_url };
  }

  /** A workflow of the workspace whose only step uses the account. */
  async workflow(maker: Person, account: string) {
    return done(
      this.ask(maker, 'POST', `/v1/workflows?org_id=${this.workspace}`, {
        steps: [{ namespace: 'a', code: step, props: { vault: { authProvisionId: account } } }],
        triggers: [{ type: 'http' }],
        settings: { name: 'W', auto_deploy: true },
      }),
    );
  }
}
interface TeamPeople {
  admin: Person;
  maker: Person;
  member: Person;
  viewer: Person;
  former: Person;
  stranger: Person;
}

async function post(url: string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: '{}' });
  await answer.arrayBuffer();
}

/** The n newest events on a channel of a source. */
async function eventsOf(service: ServiceClient, id: string, channel: string, count: number) {
  const query = channel === '' ? '' : `&event_name=${channel}`;
  return waitFor(
    async () => {
      const events = await service.events(id, query);
      return events.length >= count && events.map(({ event }) => event);
    },
    { what: `${count} events of ${id} on ${channel || 'its default channel'}` },
  );
}

// An app that the catalogue does not have: its accounts are tested nowhere.
forEachSharedService((fixture) => {
  let team: Team;
  before(async () => {
    team = await Team.make(fixture.service);
  });

  test('an account is returned without its credentials, and with them only on request', async () => {
    const id = await team.account(team.maker);
    const metadata = await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}`));
    const { created_at, updated_at, checked_at, app, healthy, error, user_id, owner_id, health, ...rest } =
      metadata;
    assert.deepEqual([user_id, owner_id], [team.maker.id, team.workspace]);
    assert.deepEqual(rest, {
      id,
      name: 'Work',
      dead: false,
      authorized_scopes: null,
      last_refreshed_at: null,
      next_refresh_at: null,
    });
    assert.equal(typeof healthy, 'boolean');
    // It may have been tested already.
    assert.ok(['untested', 'failing'].includes(health.state), health.state);
    assert.ok(error === null || typeof error === 'string');
    assert.match(app.id, /^app_/);
    assert.equal(app.name_slug, 'acme_vault');
    for (const time of [created_at, updated_at]) assert.equal(new Date(time).toISOString(), time);
    for (const value of ['1', 'true']) {
      const whole = await done(
        team.ask(team.maker, 'GET', `/v1/accounts/${id}?include_credentials=${value}`),
      );
      assert.equal(whole.credentials.token, secret);
      assert.equal(whole.expires_at, null);
    }
    for (const value of ['0', 'false']) {
      const none = await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}?include_credentials=${value}`));
      assert.ok(!('credentials' in none) && !('expires_at' in none));
    }
    const narrow = await done(
      team.ask(team.maker, 'GET', `/v1/accounts/${id}?include_credentials=1&include=id,name`),
    );
    assert.deepEqual(narrow, { id, name: 'Work' });
  });

  test('a list is narrowed to one owner, and to none whose accounts the caller may not see', async () => {
    const shared = await team.account(team.maker);
    const personal = await team.account(team.maker, { personal: true });
    const ids = async (person: Person, query: string): Promise<string[]> =>
      (await done(team.ask(person, 'GET', `/v1/accounts?limit=100&${query}`))).map(
        (one: { id: string }) => one.id,
      );
    const ofWorkspace = await ids(team.maker, `owner_id=${team.workspace}`);
    assert.ok(ofWorkspace.includes(shared) && !ofWorkspace.includes(personal));
    const own = await ids(team.maker, `owner_id=${team.maker.id}`);
    assert.ok(own.includes(personal) && !own.includes(shared));
    assert.deepEqual(await ids(team.stranger, `owner_id=${team.workspace}`), []);
    assert.deepEqual(await ids(team.admin, `owner_id=${team.maker.id}`), []);
    assert.deepEqual(await ids(team.maker, `org_id=${team.workspace}&owner_id=${team.maker.id}`), []);
  });

  test('the list has credentials of the accounts that the caller may read, and of no others', async () => {
    const mine = await team.account(team.maker);
    const others = await team.account(team.member);
    const personal = await team.account(team.maker, { personal: true });
    const list = async (person: Person, query = '') =>
      done(team.ask(person, 'GET', `/v1/accounts?limit=100&app=acme_vault&include_credentials=1${query}`));
    const tokens = async (person: Person) =>
      new Map(
        (await list(person)).map((one: { id: string; credentials?: { token: string } }) => [
          one.id,
          one.credentials?.token,
        ]),
      );
    const seen = await tokens(team.maker);
    assert.deepEqual(
      [mine, others, personal].map((id) => seen.get(id)),
      [secret, undefined, secret],
    );
    assert.ok(seen.has(others), 'a member sees that it is there');
    const bySight = await tokens(team.viewer);
    assert.ok(bySight.has(mine) && !bySight.has(personal));
    assert.deepEqual([...new Set(bySight.values())], [undefined]);
    const byAdmin = await tokens(team.admin);
    assert.deepEqual(
      [mine, others, personal].map((id) => byAdmin.get(id)),
      [secret, secret, undefined],
    );
    assert.deepEqual(await list(team.maker, '&oauth_app_id=oa_000000000000'), []);
    const plain = await done(team.ask(team.maker, 'GET', '/v1/accounts?limit=100'));
    assert.ok(!JSON.stringify(plain).includes(secret));
    const ofTeam = await done(
      team.ask(team.viewer, 'GET', `/v1/workspaces/${team.workspace}/accounts?query=acme_vault&limit=100`),
    );
    assert.ok(ofTeam.some(({ id }: { id: string }) => id === mine));
  });

  test('who created it and admins read and change it, members use it, viewers see it', async () => {
    const id = await team.account(team.maker);
    const requests: [string, string, unknown?][] = [
      ['GET', `/v1/accounts/${id}?include_credentials=1`],
      ['GET', `/v1/accounts/${id}/audit`],
      ['PUT', `/v1/accounts/${id}`, { name: 'Renamed' }],
      ['PUT', `/v1/accounts/${id}`, { credentials: { token: secret } }],
      ['DELETE', `/v1/accounts/${id}`],
    ];
    for (const person of [team.member, team.viewer]) {
      for (const path of [`/v1/accounts/${id}`, `/v1/accounts/${id}/uses`])
        await done(team.ask(person, 'GET', path));
      for (const [method, path, body] of requests) {
        const answer = await team.ask(person, method, path, body);
        assert.deepEqual([answer.status, answer.body.code], [403, 'forbidden'], `${method} ${path}`);
        assert.match(answer.body.error, /only who created it.*and admins of the workspace/);
      }
    }
    for (const person of [team.maker, team.admin])
      for (const [method, path, body] of requests.slice(0, -1))
        await done(team.ask(person, method, path, body));
    const used = await team.source(team.member, id);
    await team.workflow(team.member, id);
    await post(used.endpoint_url);
    assert.deepEqual(await eventsOf(fixture.service, used.id, '', 1), [{ length: secret.length }]);
    // A viewer puts it nowhere, not even into something of their own.
    const configured_props = { vault: { authProvisionId: id } };
    const own = await team.ask(team.viewer, 'POST', '/v1/sources', {
      component_code: source,
      configured_props,
    });
    assert.deepEqual([own.status, own.body.details.parameter], [404, 'configured_props.vault']);
    const inTeam = await team.ask(team.viewer, 'POST', `/v1/sources?org_id=${team.workspace}`, {
      component_code: source,
      configured_props,
    });
    assert.equal(inTeam.status, 403);
    const workflow = await team.ask(team.viewer, 'POST', '/v1/workflows', {
      steps: [{ namespace: 'a', code: step, props: configured_props }],
    });
    assert.deepEqual([workflow.status, workflow.body.details.parameter], [400, 'steps[0].props.vault']);
  });

  test('for strangers, former members and users of other workspaces it is as if it had never been', async () => {
    const id = await team.account(team.maker);
    const personal = await team.account(team.maker, { personal: true });
    const requests: [string, string, unknown?][] = [
      ['GET', ''],
      ['GET', '?include_credentials=1'],
      ['GET', '/uses'],
      ['GET', '/audit'],
      ['PUT', '', { name: 'mine' }],
      ['PUT', '', { credentials: { token: 'mine' } }],
      ['DELETE', ''],
      ['DELETE', '?force=true'],
    ];
    const answerTo = async (
      person: Person,
      asked: string,
      [method, path, body]: (typeof requests)[number],
    ) => {
      const answer = await team.ask(person, method, `/v1/accounts/${asked}${path}`, body);
      return { status: answer.status, body: JSON.stringify(answer.body).replaceAll(asked, '<id>') };
    };
    for (const person of [team.stranger, team.former, team.admin]) {
      for (const request of requests) {
        const none = await answerTo(person, absent, request);
        assert.equal(none.status, 404);
        assert.deepEqual(await answerTo(person, personal, request), none);
        if (person !== team.admin) assert.deepEqual(await answerTo(person, id, request), none);
      }
      if (person === team.admin) continue;
      const list = await done(team.ask(person, 'GET', '/v1/accounts?include_credentials=1'));
      assert.deepEqual(list, []);
      const audit = await team.ask(person, 'GET', `/v1/workspaces/${team.workspace}/audit`);
      assert.equal(audit.status, 404);
    }
    assert.equal((await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}`))).name, 'Work');
  });

  test('an account in use is deleted only with force, and says what uses it', async () => {
    const { service } = fixture;
    const id = await team.account(team.maker);
    const used = await team.source(team.member, id);
    const flow = await team.workflow(team.member, id);
    await post(used.endpoint_url);
    await eventsOf(service, used.id, '', 1);
    await post(flow.triggers[0].endpoint_url);
    await service.runInState(flow.id, 'succeeded');

    const uses = await done(team.ask(team.viewer, 'GET', `/v1/accounts/${id}/uses`));
    assert.deepEqual(uses.sources, [{ id: used.id, name: used.name, active: true }]);
    assert.deepEqual(uses.workflows, [{ id: flow.id, name: 'W', active: true }]);
    assert.deepEqual(uses.more, { sources: 0, workflows: 0 });
    const today = new Date().toISOString().slice(0, 10);
    const usedBy = uses.used.map(({ id: by, name, uses: times }: AccountUse) => [by, name, times > 0]);
    assert.deepEqual(
      usedBy.sort(),
      [
        [used.id, used.name, true],
        [flow.id, 'W', true],
      ].sort(),
    );
    for (const { day, first_used_at, last_used_at } of uses.used as AccountUse[]) {
      assert.ok(day <= today && first_used_at <= last_used_at && last_used_at.startsWith(day));
    }

    const refused = await team.ask(team.maker, 'DELETE', `/v1/accounts/${id}`);
    assert.deepEqual([refused.status, refused.body.code], [409, 'account_in_use']);
    assert.match(refused.body.error, /1 active source and 1 active workflow.*force=true/);
    assert.deepEqual(refused.body.details, {
      parameter: 'force',
      sources: [{ id: used.id, name: used.name }],
      workflows: [{ id: flow.id, name: 'W' }],
      more: { sources: 0, workflows: 0 },
    });
    await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}`));
    await done(team.ask(team.maker, 'DELETE', `/v1/accounts/${id}?force=true`), 204);
    assert.equal((await team.ask(team.maker, 'GET', `/v1/accounts/${id}`)).status, 404);

    await post(used.endpoint_url);
    const [failure] = await eventsOf(service, used.id, '$errors', 1);
    const clear = new RegExp(`no account "${id}" for prop vault \\(app acme_vault\\): it was deleted`);
    assert.match(JSON.stringify(failure).replaceAll('\\"', '"'), clear);
    await post(flow.triggers[0].endpoint_url);
    const run = await service.runInState(flow.id, 'failed');
    assert.match(run.error.msg, clear);
    const { body } = await service.api(
      'GET',
      `/v1/workflows/${flow.id}/$errors/event_summaries?expand=event`,
    );
    assert.match(body.data[0].event.error.msg, clear);
  });

  test('an account that nothing active uses is deleted at once', async () => {
    const id = await team.account(team.maker);
    const used = await team.source(team.member, id);
    await done(team.ask(team.member, 'PUT', `/v1/sources/${used.id}`, { active: false }));
    const flow = await team.workflow(team.member, id);
    // Only its first version uses the account.
    await done(
      team.ask(team.member, 'POST', `/v1/workflows/${flow.id}/deployments`, {
        steps: [{ namespace: 'b', code: 'export default { run() {} };' }],
      }),
    );
    await done(team.ask(team.maker, 'DELETE', `/v1/accounts/${id}`), 204);
  });

  test('who is removed from a workspace takes their own accounts out of what it runs; those of the workspace stay', async () => {
    const { service } = fixture;
    const leaver = await service.createUser('holder');
    await team.add(leaver, 'member');
    const personal = await team.account(leaver, { personal: true });
    const shared = await team.account(leaver);
    const ownSource = await team.source(leaver, personal);
    const sharedSource = await team.source(leaver, shared);
    const flow = await team.workflow(leaver, personal);
    for (const { id, endpoint_url } of [ownSource, sharedSource]) {
      await post(endpoint_url);
      assert.deepEqual(await eventsOf(service, id, '', 1), [{ length: secret.length }]);
    }
    await post(flow.triggers[0].endpoint_url);
    await service.runInState(flow.id, 'succeeded');
    const uses = await done(team.ask(leaver, 'GET', `/v1/accounts/${personal}/uses`));
    assert.deepEqual([uses.sources.length, uses.workflows.length], [1, 1]);

    await team.remove(leaver);
    const clear = new RegExp(
      `no account "${personal}" for prop vault \\(app acme_vault\\).*may no longer be used here`,
    );
    await post(ownSource.endpoint_url);
    const [failure] = await eventsOf(service, ownSource.id, '$errors', 1);
    assert.match(JSON.stringify(failure).replaceAll('\\"', '"'), clear);
    assert.equal((await service.events(ownSource.id)).length, 1);
    await post(flow.triggers[0].endpoint_url);
    const run = await service.runInState(flow.id, 'failed');
    assert.match(run.error.msg, clear);
    await post(sharedSource.endpoint_url);
    assert.equal((await eventsOf(service, sharedSource.id, '', 2)).length, 2);
    await done(team.ask(team.admin, 'GET', `/v1/accounts/${shared}?include_credentials=1`));

    // The account is still theirs, and is used by nothing; coming back does not put it in again.
    assert.deepEqual(
      await done(team.ask(leaver, 'GET', `/v1/accounts/${personal}/uses`)).then(inUse),
      [0, 0],
    );
    await team.add(leaver, 'member');
    await post(ownSource.endpoint_url);
    await eventsOf(service, ownSource.id, '$errors', 2);
    await done(team.ask(leaver, 'DELETE', `/v1/accounts/${personal}`), 204);
  });

  test('the audit says who created, read, changed and deleted an account, and with which key', async () => {
    const id = await team.account(team.maker);
    await done(team.ask(team.admin, 'GET', `/v1/accounts/${id}?include_credentials=1`));
    await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}`));
    await done(team.ask(team.maker, 'PUT', `/v1/accounts/${id}`, { name: 'Renamed' }));
    await done(team.ask(team.admin, 'PUT', `/v1/accounts/${id}`, { credentials: { token: `${secret}-2` } }));
    await done(team.ask(team.maker, 'GET', '/v1/accounts?limit=100&include_credentials=1'));
    await team.ask(team.member, 'GET', `/v1/accounts/${id}?include_credentials=1`);
    const people = [
      ['created', team.maker.id],
      ['read_credentials', team.admin.id],
      ['updated', team.maker.id],
      ['credentials_replaced', team.admin.id],
      ['read_credentials', team.maker.id],
    ];
    interface Entry {
      account_id: string;
      action: string;
      user_id: string;
      key_id: string;
      created_at: string;
      details: unknown;
    }
    const ofPeople = (entries: Entry[]) =>
      entries
        .filter(({ account_id, user_id }) => account_id === id && user_id !== null)
        .map(({ action, user_id }) => [action, user_id])
        .reverse();
    const entries = await done(team.ask(team.maker, 'GET', `/v1/accounts/${id}/audit?limit=100`));
    assert.deepEqual(ofPeople(entries), people);
    for (const entry of entries.filter(({ user_id }: Entry) => user_id !== null))
      assert.match(entry.key_id, /^key_/);
    const renamed = entries.find(({ action }: Entry) => action === 'updated');
    assert.deepEqual(renamed.details, { name: { from: 'Work', to: 'Renamed' } });
    await done(team.ask(team.admin, 'DELETE', `/v1/accounts/${id}`), 204);

    const path = `/v1/workspaces/${team.workspace}/audit?limit=100`;
    const all = await done(team.ask(team.admin, 'GET', path));
    assert.deepEqual(ofPeople(all), [...people, ['deleted', team.admin.id]]);
    assert.ok(!JSON.stringify(all).includes('canary'));
    const deleted = await done(team.ask(team.admin, 'GET', `${path}&action=deleted`));
    assert.ok(deleted.length > 0 && deleted.every(({ action }: Entry) => action === 'deleted'));
    const byAdmin = await done(team.ask(team.admin, 'GET', `${path}&user_id=${team.admin.id}`));
    assert.deepEqual(
      byAdmin,
      all.filter(({ user_id }: Entry) => user_id === team.admin.id),
    );
    assert.ok(byAdmin.length > 0 && byAdmin.length < all.length);
    const pages = await team.ask(team.admin, 'GET', `/v1/workspaces/${team.workspace}/audit?limit=2`);
    const next = await done(
      team.ask(
        team.admin,
        'GET',
        `/v1/workspaces/${team.workspace}/audit?limit=2&after=${pages.body.page_info.end_cursor}`,
      ),
    );
    assert.deepEqual([...pages.body.data, ...next], all.slice(0, 4));
    const member = await team.ask(team.member, 'GET', path);
    assert.deepEqual([member.status, member.body.code], [403, 'forbidden']);
    const left = await done(team.ask(team.admin, 'GET', `/v1/accounts/${id}/audit?action=deleted`));
    assert.equal(left.length, 1);
    assert.equal((await team.ask(team.maker, 'GET', `/v1/accounts/${id}/audit`)).status, 404);
    const unknown = await team.ask(team.admin, 'GET', `${path}&action=nonsense`);
    assert.deepEqual([unknown.status, unknown.body.details.parameter], [400, 'action']);
  });

  test('an account that was connected again by hand is read and used with what it has now', async () => {
    const { service } = fixture;
    const id = await team.account(team.maker);
    const used = await team.source(team.member, id);
    await post(used.endpoint_url);
    await eventsOf(service, used.id, '', 1);
    const longer = `${secret}-and-more`;
    await done(team.ask(team.maker, 'PUT', `/v1/accounts/${id}`, { credentials: { token: longer } }));
    await post(used.endpoint_url);
    const [newest] = await eventsOf(service, used.id, '', 2);
    assert.deepEqual(newest, { length: longer.length });
  });
});

interface AccountUse {
  id: string;
  name: string;
  day: string;
  uses: number;
  first_used_at: string;
  last_used_at: string;
}

function inUse(uses: { sources: unknown[]; workflows: unknown[] }): number[] {
  return [uses.sources.length, uses.workflows.length];
}
