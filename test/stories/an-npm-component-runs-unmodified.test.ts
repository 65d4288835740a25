/**
 * Sources of @pipedream/gitlab, unmodified. Of the scenarios of published components that need no Internet: gitlab-new-issue
 * (an endpoint, hooks, options by page, unique) and gitlab-new-project (a timer, greatest, the order of ts).
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { PublishedComponents } from '../support/published-components.ts';
import { startGitlab } from '../support/service-standins/gitlab.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';

const token = 'glpat-canary-0123456789';

describe('sources of @pipedream/gitlab', () => {
  let published: PublishedComponents;
  let gitlab: ServiceStandIn;
  /** What GitLab lists as projects after an id, in the order in which it does. */
  let projects: { id: number; name: string; created_at: string }[] = [];

  before(async () => {
    published = await PublishedComponents.prepare();
    gitlab = await startGitlab(published.authority, token, (after) =>
      projects.filter(({ id }) => id > after),
    );
    await published.start({ dialect: 'sqlite', apps: ['gitlab'], connectTo: [gitlab.connectTo] });
  });

  after(async () => {
    try {
      await published?.assertSealed([token]);
    } finally {
      await published?.close();
      await gitlab?.close();
    }
  });

  const account = (credential = token) =>
    published.account('gitlab', { base_api_url: gitlab.host, oauth_access_token: credential });

  test('new-issue is deployed by URL with an account, registers its hook, takes a call, and its event arrives', async () => {
    const component_url = published.urlOf('gitlab', 'sources', 'new-issue');
    const source = await published.service.createSource({
      component_url,
      configured_props: { gitlab: await account(), projectId: 42 },
    });
    assert.equal(source.name_slug, 'new-issue-instant');
    const registered = gitlab.last('POST /api/v4/projects/42/hooks').json() as {
      url: string;
      token: string;
      issues_events: boolean;
    };
    assert.equal(registered.url, source.configured_props.http.endpoint_url);
    assert.equal(registered.issues_events, true);

    const stream = await published.service.stream(source.id);
    const forged = await fetch(registered.url, {
      method: 'POST',
      headers: { 'x-gitlab-token': 'wrong' },
      body: '{}',
    });
    assert.equal(forged.status, 404, 'the component refuses a call without its token');
    const issue = {
      object_kind: 'issue',
      user: { name: 'Ada', username: 'ada' },
      changes: { updated_at: { previous: null } },
      object_attributes: { id: 9001, iid: 3, title: 'It works', created_at: '2026-11-20T10:00:00Z' },
    };
    const call = (body: unknown) =>
      fetch(registered.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-gitlab-token': registered.token },
        body: JSON.stringify(body),
      });
    assert.equal((await call(issue)).status, 200);
    const live = await stream.message(1);
    assert.deepEqual(live.data.event, issue);
    assert.equal((await call(issue)).status, 200, 'a redelivery is acknowledged');
    await call({ ...issue, object_attributes: { ...issue.object_attributes, id: 9002, iid: 4 } });
    assert.equal(
      (await stream.message(2)).data.event.object_attributes.id,
      9002,
      'and dropped as a duplicate',
    );
    stream.close();

    const events = await published.service.events(source.id);
    assert.deepEqual(
      events.map((event) => event.metadata.summary),
      ['New issue by Ada (ada): #4 It works', 'New issue by Ada (ada): #3 It works'],
    );
    const removed = await published.service.api('DELETE', `/v1/sources/${source.id}`);
    assert.equal(removed.status, 204, JSON.stringify(removed.body));
    assert.equal(gitlab.calls.at(-1), 'DELETE /api/v4/projects/42/hooks/77', 'its hook is taken back');
  });

  test('new-issue offers projects by page', async () => {
    const id = await published.save('gitlab', 'sources', 'new-issue');
    const asked = { id, prop_name: 'projectId', configured_props: { gitlab: await account() } };
    const pages = [];
    for (const page of [0, 1, 2]) pages.push((await published.ask('configure', { ...asked, page })).options);
    assert.deepEqual(pages, [[{ label: 'ada/engine', value: 42 }], [{ label: 'ada/notes', value: 43 }], []]);
  });

  test('a wrong credential fails the creation with what GitLab said, and leaves nothing behind', async () => {
    const answer = await published.service.api('POST', '/v1/sources/', {
      component_url: published.urlOf('gitlab', 'sources', 'new-issue'),
      configured_props: { gitlab: await account('expired-token-0123456789'), projectId: 42 },
    });
    assert.equal(answer.status, 400);
    assert.equal(answer.body.code, 'hook_failed');
    assert.match(answer.body.error, /401 Unauthorized/);
    const list = await published.service.api('GET', '/v1/users/me/sources');
    assert.equal(list.body.page_info.total_count, 0);
  });

  test('new-project begins after the newest project, and emits in the order of ts, greater ids alone', async () => {
    const project = (id: number) => ({ id, name: `p${id}`, created_at: `2026-11-20T10:00:${id}Z` });
    projects = [];
    const source = await published.source('gitlab', 'new-project', { gitlab: await account() });
    const stream = await published.service.stream(source.id);
    // The component turns what it gets round, and so emits p46 first. Without the order of ts, no other would follow.
    projects = [44, 45, 46].map(project);
    await published.pollNow(source.id);
    await stream.message(3);
    const [seeding] = gitlab.requests.filter(({ url }) => url.includes('per_page=1'));
    assert.equal(seeding?.url, '/api/v4/projects?owned=true&per_page=1');
    assert.ok(
      gitlab.requests.some(({ url }) => url.includes('id_after=42')),
      'after what activate kept',
    );
    // All again, with one that is new and one that came late.
    projects = [43, 44, 45, 46, 47].map(project);
    await published.pollNow(source.id);
    await stream.message(4);
    assert.deepEqual(
      stream.messages.map(({ data }) => data.event.name),
      ['p44', 'p45', 'p46', 'p47'],
    );
    stream.close();
    assert.deepEqual(
      (await published.service.events(source.id)).map(({ metadata }) => metadata.summary),
      ['New project: p47', 'New project: p46', 'New project: p45', 'New project: p44'],
    );
  });
});
