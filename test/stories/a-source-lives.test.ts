import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Every hook and run leaves a mark on the default channel, with what the db held before it. */
function lifeComponent(
  name: string,
  extra: { activate?: string; deactivate?: string; deploy?: string } = {},
) {
  return `
export default {
  name: ${JSON.stringify(name)},
  props: {
    db: '$.service.db',
    http: { type: '$.interface.http', customResponse: true },
    mood: { type: 'string', optional: true },
  },
  methods: {
    mark(step) {
      const steps = this.db.get('steps') ?? [];
      this.$emit({ step, before: steps, mood: this.mood ?? null });
      this.db.set('steps', [...steps, step]);
    },
  },
  hooks: {
    async deploy() { this.mark('deploy'); ${extra.deploy ?? ''} },
    async activate() { this.mark('activate'); ${extra.activate ?? ''} },
    async deactivate() { this.mark('deactivate'); ${extra.deactivate ?? ''} },
  },
  run(event) {
    this.http.respond({ status: 200, body: { by: ${JSON.stringify(name)}, mood: this.mood ?? null } });
  },
};`;
}

async function stepsOf(service: ServiceClient, sourceId: string): Promise<string[]> {
  const events = await service.events(sourceId);
  return events.map(({ event }) => `${[...event.before, event.step].join('>')}`).reverse();
}

async function sourceNames(service: ServiceClient): Promise<string[]> {
  const { body } = await service.api('GET', '/v1/users/me/sources/?limit=100');
  return body.data.map((source: { name_slug: string }) => source.name_slug);
}

async function ask(service: ServiceClient, source: { configured_props: { http: { endpoint_url: string } } }) {
  const response = await fetch(service.url + new URL(source.configured_props.http.endpoint_url).pathname);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

forEachSharedService((fixture) => {
  test('a source is made from code, from a saved component, from a URL with its relative imports, or from a key', async () => {
    const { service } = fixture;
    await using files = await HttpReceiver.start({
      answer: ({ url }) => {
        if (url === '/repo/sources/hello.mjs')
          return {
            body: "import { greet } from '../common/greet.mjs';\nexport default { name: 'From URL', hooks: { deploy() { this.$emit(greet()); } }, run() {} };",
          };
        if (url === '/repo/common/greet.mjs')
          return { body: "import { who } from './who.mjs';\nexport const greet = () => ({ hello: who });" };
        if (url === '/repo/common/who.mjs') return { body: "export const who = 'world';" };
        return { status: 404 };
      },
    });
    const fromUrl = await service.createSource({ component_url: `${files.url}/repo/sources/hello.mjs` });
    assert.deepEqual((await service.events(fromUrl.id))[0].event, { hello: 'world' });

    const code = `export default { name: 'Saved', version: '1.2.3', props: { word: 'string' }, hooks: { deploy() { this.$emit({ word: this.word }); } }, run() {} };`;
    const component = (await service.api('POST', '/v1/components', { component_code: code })).body.data;
    assert.match(component.id, /^sc_/);
    assert.match(component.code_hash, /^[0-9a-f]{64}$/);
    assert.deepEqual(component.configurable_props, [{ name: 'word', type: 'string' }]);
    const fromId = await service.createSource({
      component_id: component.id,
      component_code: 'ignored: the id wins',
      configured_props: { word: 'yes' },
    });
    assert.equal(fromId.component_id, component.id);
    assert.deepEqual((await service.events(fromId.id))[0].event, { word: 'yes' });
    const fromSameCode = await service.createSource({
      component_code: code,
      configured_props: { word: 'no' },
    });
    assert.equal(fromSameCode.component_id, component.id, 'the same code is the same component');

    const fromKey = await service.createSource({ key: 'http-new-requests' });
    assert.match(
      fromKey.configured_props.http?.endpoint_url ?? fromKey.configured_props.httpInterface?.endpoint_url,
      /\/in\//,
    );
    const none = await service.api('POST', '/v1/sources', { name: 'nothing' });
    assert.deepEqual(
      [none.status, none.body.code, none.body.details.parameter],
      [400, 'missing_parameter', 'component_code'],
    );
    const unknown = await service.api('POST', '/v1/sources', { component_id: 'sc_unknown' });
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'not_found']);
  });

  test('names come from the component or the caller, and slugs that are taken get a number', async () => {
    const { service } = fixture;
    const code = `export default { name: 'Grüße aus Köln!', run() {} };`;
    // One after the other: creations at the same moment may leave numbers out.
    const made: Awaited<ReturnType<typeof service.createSource>>[] = [];
    for (const _ of [1, 2, 3]) made.push(await service.createSource({ component_code: code }));
    assert.deepEqual(
      made.map((source) => source.name_slug),
      ['grusse-aus-koln', 'grusse-aus-koln-2', 'grusse-aus-koln-3'],
    );
    for (const source of made) assert.equal(source.name, source.name_slug, 'two of one component differ');
    const named = await service.createSource({ component_code: code, name: 'My News' });
    assert.deepEqual([named.name, named.name_slug], ['My News', 'my-news']);
    assert.equal(
      (await service.createSource({ component_code: code, name: 'My News' })).name_slug,
      'my-news-2',
    );
    const slugged = await service.createSource({ component_code: code, name_slug: 'Grüße' });
    assert.deepEqual([slugged.name, slugged.name_slug], ['grusse-aus-koln', 'grusse']);
    const nameless = await service.createSource({ component_code: 'export default { run() {} };' });
    assert.notEqual(nameless.name_slug, '');
  });

  test('deploy runs before activate on one db, and what they emit can be read', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: lifeComponent('ordered') });
    assert.deepEqual(await stepsOf(service, source.id), ['deploy', 'deploy>activate']);
  });

  for (const hook of ['deploy', 'activate'] as const) {
    test(`a ${hook} hook that throws fails the creation with its error and leaves nothing behind`, async () => {
      const { service } = fixture;
      await using outside = await HttpReceiver.start();
      const answer = await service.api('POST', '/v1/sources', {
        component_code: `
export default {
  name: 'Fails in ${hook}',
  props: { http: '$.interface.http', timer: { type: '$.interface.timer', default: { intervalSeconds: 15 } } },
  hooks: { async ${hook}() {
    await fetch('${outside.url}/' + encodeURIComponent(this.http.endpoint));
    console.log('about to fail');
    throw new Error('the vendor said no');
  } },
  async run() { await fetch('${outside.url}/ran'); },
};`,
      });
      assert.deepEqual([answer.status, answer.body.code], [400, 'hook_failed']);
      assert.match(answer.body.error, /the vendor said no/);
      assert.equal(answer.body.details.hook, hook);
      assert.equal(answer.body.details.logs[0].message, 'about to fail');
      assert.ok(!(await sourceNames(service)).includes(`fails-in-${hook}`));
      const endpoint = decodeURIComponent((await outside.waitForRequest(1)).url.slice(1));
      assert.equal((await fetch(endpoint, { method: 'POST' })).status, 404);
      assert.deepEqual(
        outside.requests.map(({ url }) => url === '/ran'),
        [false],
        'its timer never fired',
      );
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      assert.ok(metrics.length > 0);
    });
  }

  test('an update runs deactivate with the old code, swaps, runs activate with the new one, and keeps id, db and endpoint', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: lifeComponent('first'),
      configured_props: { mood: 'old' },
    });
    assert.deepEqual((await ask(service, source)).body, { by: 'first', mood: 'old' });
    const answer = await service.api('PUT', `/v1/sources/${source.id}`, {
      component_code: lifeComponent('second'),
      configured_props: { mood: 'new' },
    });
    assert.equal(answer.status, 200);
    const updated = answer.body.data;
    assert.equal(updated.id, source.id);
    assert.notEqual(updated.component_id, source.component_id);
    assert.equal(updated.configured_props.http.endpoint_url, source.configured_props.http.endpoint_url);
    assert.deepEqual((await ask(service, source)).body, { by: 'second', mood: 'new' });
    assert.deepEqual((await stepsOf(service, source.id)).slice(2), [
      'deploy>activate>deactivate',
      'deploy>activate>deactivate>activate',
    ]);
    const moods = (await service.events(source.id)).slice(0, 2).map(({ event }) => event.mood);
    assert.deepEqual(moods, ['new', 'old'], 'deactivate still saw the old props');
  });

  test('new code without the props of the old one drops their values instead of refusing them', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: lifeComponent('dropping'),
      configured_props: { mood: 'old' },
    });
    const answer = await service.api('PUT', `/v1/sources/${source.id}`, {
      component_code: `export default { name: 'bare', props: { http: '$.interface.http' }, run() {} };`,
    });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.deepEqual(Object.keys(answer.body.data.configured_props), ['http']);
    const given = await service.api('PUT', `/v1/sources/${source.id}`, { configured_props: { mood: 'x' } });
    assert.deepEqual([given.status, given.body.details.parameter], [400, 'configured_props.mood']);
  });

  test('an update whose activate fails puts the old code and props back, running', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: lifeComponent('stable'),
      configured_props: { mood: 'old' },
    });
    const answer = await service.api('PUT', `/v1/sources/${source.id}`, {
      component_code: lifeComponent('broken', { activate: "throw new Error('cannot start');" }),
      configured_props: { mood: 'new' },
    });
    assert.deepEqual([answer.status, answer.body.code], [400, 'hook_failed']);
    assert.match(answer.body.error, /cannot start/);
    const after = (await service.api('GET', `/v1/sources/${source.id}`)).body.data;
    assert.deepEqual(
      [after.active, after.component_id, after.configured_props.mood],
      [true, source.component_id, 'old'],
    );
    assert.deepEqual((await ask(service, source)).body, { by: 'stable', mood: 'old' });
  });

  test('a run under way when its source is changed or paused continues to its end, once, and is answered', async () => {
    const { service } = fixture;
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await using outside = await HttpReceiver.start({
      answer: async ({ url }) => {
        await gates[Number(url.slice(1))]?.promise;
        return { body: 'go on' };
      },
    });
    const slow = (version: number) => `
export default {
  name: 'slow', props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
  hooks: { deploy() { this.db.set('kept', 'from deploy'); } },
  async run() {
    const answer = await (await fetch('${outside.url}/${version}')).text();
    this.$emit('version ${version}, ' + this.db.get('kept'));
    this.db.set('version', ${version});
    this.http.respond({ status: 200, body: { version: ${version}, answer } });
  },
};`;
    const source = await service.createSource({ component_code: slow(0) });
    const first = ask(service, source);
    await outside.waitForRequest(1);
    const changed = await service.api('PUT', `/v1/sources/${source.id}`, { component_code: slow(1) });
    assert.equal(changed.status, 200);
    const second = ask(service, source);
    gates[0]?.resolve();
    assert.deepEqual(await first, { status: 200, body: { version: 0, answer: 'go on' } });
    await outside.waitForRequest(2);
    assert.equal((await service.api('PUT', `/v1/sources/${source.id}`, { active: false })).status, 200);
    gates[1]?.resolve();
    assert.deepEqual(await second, { status: 200, body: { version: 1, answer: 'go on' } });
    const events = await waitFor(async () => {
      const stored = await service.events(source.id);
      return stored.length === 2 && stored;
    });
    assert.deepEqual(
      events.map(({ event }) => event),
      ['version 1, from deploy', 'version 0, from deploy'],
    );
    assert.equal(outside.requests.length, 2, 'neither ran twice');
  });

  test('an inactive source has no endpoint and no timers, and comes back with both', async () => {
    const { service } = fixture;
    await using ticks = await HttpReceiver.start();
    const source = await service.createSource({
      component_code: `
export default {
  name: 'pausing', props: { http: '$.interface.http', timer: '$.interface.timer' },
  hooks: { activate() { this.$emit('activate'); }, deactivate() { this.$emit('deactivate'); } },
  async run(event) { if (event.timestamp) await fetch('${ticks.url}'); },
};`,
      // Each activation ticks at once. No other tick comes meanwhile, also on a busy machine.
      configured_props: { timer: { intervalSeconds: 3600 } },
    });
    await ticks.waitForRequest(1);
    const put = (body: object) => service.api('PUT', `/v1/sources/${source.id}`, body);
    const paused = await put({ active: false });
    assert.deepEqual([paused.status, paused.body.data.active], [200, false]);
    assert.equal((await ask(service, source)).status, 404);
    assert.equal((await put({ active: false })).status, 200, 'pausing twice is the same as once');
    assert.equal(ticks.requests.length, 1);
    const back = await put({ active: true });
    assert.equal(back.body.data.active, true);
    assert.deepEqual(await ask(service, source), { status: 200, body: { success: true } });
    await ticks.waitForRequest(2);
    const hooks = (await service.events(source.id)).map(({ event }) => event).reverse();
    assert.deepEqual(hooks, ['activate', 'deactivate', 'activate']);
    assert.equal((await put({ active: false })).body.data.active, false);
    assert.equal((await put({})).body.data.active, true, 'active is true when it is left out');
  });

  test('a new name runs no hooks', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: lifeComponent('nameless') });
    const renamed = (await service.api('PUT', `/v1/sources/${source.id}`, { name: 'Renamed' })).body.data;
    assert.deepEqual([renamed.name, renamed.active], ['Renamed', true]);
    assert.equal((await service.events(source.id)).length, 2);
    const other = await service.createSource({ component_code: lifeComponent('nameless') });
    const taken = await service.api('PUT', `/v1/sources/${other.id}`, { name_slug: source.name_slug });
    assert.deepEqual([taken.status, taken.body.details.parameter], [409, 'name_slug']);
  });

  test('deleting runs deactivate and takes the source, its endpoint and its events away', async () => {
    const { service } = fixture;
    await using vendor = await HttpReceiver.start();
    const source = await service.createSource({
      component_code: lifeComponent('short-lived', {
        deactivate: `await fetch('${vendor.url}/unsubscribed');`,
      }),
    });
    const gone = await service.api('DELETE', `/v1/sources/${source.id}`);
    assert.deepEqual([gone.status, gone.body], [204, undefined]);
    assert.equal((await vendor.waitForRequest(1)).url, '/unsubscribed');
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['PUT', ''],
      ['GET', '/event_summaries'],
      ['GET', '/logs'],
    ] as const) {
      const answer = await service.api(
        method,
        `/v1/sources/${source.id}${path}`,
        method === 'PUT' ? {} : undefined,
      );
      assert.deepEqual([method, answer.status, answer.body.code], [method, 404, 'not_found']);
    }
    assert.equal((await ask(service, source)).status, 404);
    assert.ok(!(await sourceNames(service)).includes('short-lived'));
  });

  test('sources can be deleted while requests stream into them', async () => {
    const { service } = fixture;
    const code = `export default { name: 'busy', props: { http: '$.interface.http', db: '$.service.db' }, run() { this.$emit(1); this.db.set('n', 1); } };`;
    const sources = await Promise.all(
      Array.from({ length: 4 }, () => service.createSource({ component_code: code })),
    );
    await Promise.all(
      sources.map(async (source) => {
        const statuses: number[] = [];
        let isThere = true;
        const senders = Array.from({ length: 8 }, async () => {
          while (isThere) statuses.push((await ask(service, source)).status);
        });
        await waitFor(() => statuses.length > 30);
        const gone = await service.api('DELETE', `/v1/sources/${source.id}`);
        isThere = false;
        await Promise.all(senders);
        assert.equal(gone.status, 204);
        assert.ok(
          statuses.every((status) => status === 200 || status === 404),
          String([...new Set(statuses)]),
        );
      }),
    );
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  });

  test('a deactivate hook that fails keeps the source, unless the caller ignores hook errors', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: lifeComponent('clinging', { deactivate: "throw new Error('still subscribed');" }),
    });
    const refused = await service.api('DELETE', `/v1/sources/${source.id}`);
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.details.hook],
      [400, 'hook_failed', 'deactivate'],
    );
    assert.match(refused.body.error, /still subscribed/);
    assert.equal((await ask(service, source)).status, 200);
    const paused = await service.api('PUT', `/v1/sources/${source.id}`, { active: false });
    assert.deepEqual([paused.status, paused.body.code], [400, 'hook_failed']);
    assert.equal((await service.api('GET', `/v1/sources/${source.id}`)).body.data.active, true);
    const gone = await service.api('DELETE', `/v1/sources/${source.id}?ignore_hook_errors=true`);
    assert.equal(gone.status, 204);
    assert.equal((await service.api('GET', `/v1/sources/${source.id}`)).status, 404);
  });

  test('a source with a secret prop and an account: the secret is never answered, and a deleted account can be replaced', async () => {
    const { service } = fixture;
    const account = async (token: string) =>
      (await service.api('POST', '/v1/accounts', { app: 'gitlab', credentials: { token } })).body.data.id;
    const first = await account('first-account-token');
    const source = await service.createSource({
      component_code: `
export default {
  name: 'entrusted',
  props: { gitlab: { type: 'app', app: 'gitlab' }, password: { type: 'string', secret: true } },
  hooks: {
    async activate() { this.$emit([this.gitlab.$auth.token.length, this.password.length]); },
    async deactivate() {},
  },
  run() {},
};`,
      configured_props: { gitlab: { authProvisionId: first }, password: 'open sesame' },
    });
    assert.equal(source.configured_props.password, '••••••••');
    const copied = await service.api('POST', '/v1/sources', {
      ...{ component_id: source.component_id, configured_props: source.configured_props },
    });
    assert.deepEqual(
      [copied.status, copied.body.details.parameter],
      [400, 'configured_props.password'],
      'there is no value that the mask could keep',
    );
    assert.equal((await service.api('DELETE', `/v1/accounts/${first}?force=true`)).status, 204);
    const refused = await service.api('DELETE', `/v1/sources/${source.id}`);
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.details.hook],
      [400, 'hook_failed', 'deactivate'],
    );
    const put = (body: object) => service.api('PUT', `/v1/sources/${source.id}`, body);
    assert.equal((await put({ active: false })).status, 200);
    const missing = await put({ configured_props: source.configured_props });
    assert.deepEqual([missing.status, missing.body.details.parameter], [404, 'configured_props.gitlab']);
    const repaired = await put({
      configured_props: {
        ...source.configured_props,
        gitlab: { authProvisionId: await account('the second account token') },
      },
    });
    assert.equal(repaired.status, 200, JSON.stringify(repaired.body));
    const lengths = (await service.events(source.id)).map(({ event }) => event);
    assert.deepEqual(lengths, [
      ['the second account token'.length, 'open sesame'.length],
      ['first-account-token'.length, 'open sesame'.length],
    ]);
    assert.equal((await service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
  });

  test('additionalProps adds props, changes static ones in place, and may be where the interface comes from', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `
export default {
  name: 'dynamic',
  props: {
    kind: { type: 'string', reloadProps: true },
    word: { type: 'string', hidden: true, optional: true },
  },
  additionalProps(previous) {
    previous.word.hidden = false;
    return this.kind === 'instant'
      ? { http: { type: '$.interface.http', customResponse: true }, count: { type: 'integer', default: 3 } }
      : { timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } } };
  },
  run(event) { this.http?.respond({ status: 200, body: { count: this.count, word: this.word, endpoint: this.http.endpoint } }); },
};`,
      configured_props: { kind: 'instant', word: 'hey' },
    });
    const endpoint = source.configured_props.http.endpoint_url;
    assert.deepEqual((await ask(service, source)).body, { count: 3, word: 'hey', endpoint });
    const wrong = await service.api('PUT', `/v1/sources/${source.id}`, {
      configured_props: { kind: 'instant', count: 'many' },
    });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, 'configured_props.count']);
    const polling = await service.api('PUT', `/v1/sources/${source.id}`, {
      configured_props: { kind: 'polling' },
    });
    assert.deepEqual(polling.body.data.configured_props, {
      kind: 'polling',
      timer: { cron: null, interval_seconds: 60 },
    });
    assert.equal((await ask(service, source)).status, 404);
    const unknownType = await service.api('POST', '/v1/sources', {
      component_code: `export default { name: 'odd', additionalProps: () => ({ x: { type: 'strnig' } }), run() {} };`,
    });
    assert.deepEqual([unknownType.status, unknownType.body.code], [400, 'invalid_component']);
    assert.match(unknownType.body.error, /"x".*strnig/);
    const throwing = await service.api('POST', '/v1/sources', {
      component_code: `export default { name: 'odd', additionalProps() { throw new Error('no such project'); }, run() {} };`,
    });
    assert.deepEqual([throwing.status, throwing.body.code], [400, 'hook_failed']);
    assert.match(throwing.body.error, /no such project/);
  });

  test('the endpoint answers with the new code while its activate hook still runs', async () => {
    const { service } = fixture;
    // A vendor that verifies an endpoint before it accepts the subscription.
    await using vendor = await HttpReceiver.start({
      answer: async (request) => {
        const verified = await fetch(`${(request.json() as { endpoint: string }).endpoint}?challenge=1`);
        return { status: verified.status, body: await verified.text() };
      },
    });
    const verifying = (word: string, customResponse: boolean) => `
export default {
  name: 'verifying', props: { http: { type: '$.interface.http', customResponse: ${customResponse} }, db: '$.service.db' },
  hooks: { async activate() {
    this.db.set('token', '${word}');
    const response = await fetch('${vendor.url}', { method: 'POST', body: JSON.stringify({ endpoint: this.http.endpoint }) });
    this.$emit(await response.text());
  } },
  run(event) { this.http.respond({ status: 200, body: '${word}' + (event.query.challenge ?? '') }); },
};`;
    const source = await service.createSource({ component_code: verifying('one', true) });
    await service.api('PUT', `/v1/sources/${source.id}`, { component_code: verifying('two', false) });
    await service.api('PUT', `/v1/sources/${source.id}`, { component_code: verifying('three', true) });
    const answers = (await service.events(source.id)).map(({ event }) => event).reverse();
    assert.deepEqual(answers, ['one1', '{"success":true}', 'three1']);
  });
});
