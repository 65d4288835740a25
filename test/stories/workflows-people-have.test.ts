/**
 * Workflows in the shape that they have when they come from elsewhere: keys of actions, props as a form has saved them (choices with their
 * labels, disabled and empty rows of a request, values that were cleared), expressions over several lines, steps that are switched off.
 * Those that start on a timer or send mail: workflows-people-have-with-mail.test.ts.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';
import { endpointOf, exportsOf, postJson, setVariables } from '../support/workflow-stories.ts';

/** Answers requests with what its steps say. */
const answered = [{ type: 'http', props: { custom_response: true } }];

forEachSharedService((fixture) => {
  /** The services of others that the workflows call. */
  let world: HttpReceiver;
  before(async () => {
    world = await HttpReceiver.start();
    await setVariables(fixture.service, { WORLD_URL: world.url, SHOP: 'Millers & Sons' });
    await setVariables(
      fixture.service,
      { WORLD_TOKEN: 'token-0123456789', WORLD_PASSWORD: 'open sesame' },
      true,
    );
  });
  after(() => world.close());
  afterEach(() => {
    world.requests.splice(0);
    world.answerAlways({});
  });

  test('a contact form: a filter, a request with a token, and the response of an action', async () => {
    const { service } = fixture;
    world.answerAlways({ status: 201, body: { id: 17, state: 'created' } });
    const workflow = await service.createWorkflow({
      settings: { name: 'Contact form' },
      triggers: answered,
      steps: [
        {
          namespace: 'End_if_no_mail',
          component: 'filter-continue-based-on-condition',
          props: {
            messageOnContinue: null,
            messageOnEnd: 'no address in {{JSON.stringify(Object.keys(event.body))}}',
            initialValue: '{{steps.trigger.event.body.email}}',
            condition: { __lv: { label: '[Boolean] Is true', value: 'TRUE' } },
            secondValue: null,
          },
        },
        {
          namespace: 'createContact',
          component: 'http-custom-request',
          props: {
            httpRequest: {
              auth: { type: 'bearer', username: '', password: '', token: '{{process.env.WORLD_TOKEN}}' },
              body: {
                type: 'raw',
                mode: 'raw',
                contentType: 'application/json',
                fields: [{ name: '', value: '' }],
                raw: `{{JSON.stringify({
                  name: steps.trigger.event.body.name.replace(/<.*?>/g, '').trim(),
                  email: steps.trigger.event.body.email.toLowerCase(),
                  source: \`form of \${process.env.SHOP}\`,
                  received: new Date(Date.now()).getFullYear() > 2000
                })}}`,
              },
              headers: [
                { name: 'accept', value: 'application/json' },
                { name: 'x-debug', value: '1', disabled: true },
                { name: '', value: '' },
              ],
              params: [
                { name: 'list', value: '{{steps.trigger.event.query.list ?? "default"}}' },
                { name: 'dry_run', value: 'true', disabled: true },
              ],
              method: 'POST',
              tab: 'auth',
              url: '{{process.env.WORLD_URL}}/contacts',
            },
          },
        },
        {
          namespace: 'return_http_response',
          component: 'http-return-http-response',
          props: {
            resStatusCode: 200,
            resHeaders: { 'x-contact': '{{steps.createContact.$return_value.id}}' },
            resBody: 'Thank you, {{steps.trigger.event.body.name.split(" ")[0]}}!',
          },
        },
      ],
    });
    const sent = { name: 'Ada <b>Lovelace</b> ', email: 'Ada@Example.com' };
    const answer = await postJson(`${endpointOf(workflow)}?list=news`, sent);
    assert.deepEqual(
      [answer.status, answer.headers.get('x-contact'), await answer.text()],
      [200, '17', 'Thank you, Ada!'],
    );
    const [request, ...others] = world.requests;
    assert.deepEqual(others, []);
    assert.deepEqual([request?.method, request?.url], ['POST', '/contacts?list=news']);
    assert.equal(request?.headers.authorization, 'Bearer token-0123456789');
    assert.deepEqual([request?.headers.accept, request?.headers['x-debug']], ['application/json', undefined]);
    assert.deepEqual(request?.json(), {
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      source: 'form of Millers & Sons',
      received: true,
    });
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.deepEqual(exportsOf(run).createContact?.$return_value, { id: 17, state: 'created' });
    assert.doesNotMatch(JSON.stringify(run), /token-0123456789/);

    const unanswered = await postJson(endpointOf(workflow), { name: 'Bob' });
    assert.equal(unanswered.status, 400, await unanswered.text());
    const ended = await service.runInState(workflow.id, 'succeeded');
    assert.equal(ended.reason, 'no address in ["name"]');
    assert.equal(world.requests.length, 1);
  });

  test('photos of an album: basic authentication, and a body that was meant to be an expression stays the text it is', async () => {
    const { service } = fixture;
    world.answerAlways({ body: [{ file: 'a.png' }, { file: 'b.png' }] });
    const returned = (resBody: unknown) =>
      service.createWorkflow({
        triggers: answered,
        steps: [
          {
            namespace: 'get_photos',
            component: 'http-custom-request',
            props: {
              httpRequest: {
                auth: {
                  type: 'basic',
                  username: 'gallery',
                  password: '{{process.env.WORLD_PASSWORD}}',
                  token: '',
                },
                body: { type: 'fields', contentType: 'application/json', fields: [] },
                headers: [{ name: 'User-Agent', value: 'gallery/1' }],
                params: [
                  {
                    name: 'album',
                    value: `{{
                  steps.trigger.event.query.album
                    .toLowerCase()
                    .replaceAll(' ', '-')
                }}`,
                  },
                ],
                method: 'GET',
                tab: 'params',
                url: '{{process.env.WORLD_URL}}/photos',
              },
            },
          },
          {
            namespace: 'return_http_response',
            component: 'http-return-http-response',
            props: { resStatusCode: 200, resHeaders: { 'Content-Type': 'application/json' }, resBody },
          },
        ],
      });
    const asText = '{ "photos": steps.get_photos.$return_value }';
    const url = `${endpointOf(await returned(asText))}?album=Summer%20of%2026`;
    assert.equal(await (await fetch(url)).text(), asText);
    const [request] = world.requests;
    assert.equal(request?.url, '/photos?album=summer-of-26');
    assert.equal(request?.headers['user-agent'], 'gallery/1');
    const credentials = Buffer.from('gallery:open sesame').toString('base64');
    assert.equal(request?.headers.authorization, `Basic ${credentials}`);

    const fixed = `${endpointOf(await returned('{ "photos": {{steps.get_photos.$return_value}} }'))}?album=x`;
    const answer = await fetch(fixed);
    assert.equal(answer.headers.get('content-type'), 'application/json');
    assert.deepEqual(await answer.json(), { photos: [{ file: 'a.png' }, { file: 'b.png' }] });
  });

  test('a cache in a data store: the second request does not reach the slow service', async () => {
    const { service } = fixture;
    const made = await service.api('POST', '/v1/data_stores', { name: 'rates cache' });
    world.answerAlways(() => ({ body: { rate: world.requests.length } }));
    const workflow = await service.createWorkflow({
      triggers: answered,
      steps: [
        {
          namespace: 'cached',
          props: {
            cache: { storeId: made.body.data.id },
            key: 'rate-{{steps.trigger.event.path.slice(1).toUpperCase()}}',
            now: '{{Date.now()}}',
          },
          code: `import axios from 'axios';
            export default defineComponent({
              props: {
                cache: { type: 'data_store' },
                key: { type: 'string' },
                now: { type: 'integer', optional: true },
              },
              async run({ steps, $ }) {
                const known = await this.cache.get(this.key);
                if (known !== undefined && this.now - known.at < 600_000) {
                  $.export('hit', true);
                  return known.rate;
                }
                const { data } = await axios.get(process.env.WORLD_URL + steps.trigger.event.path);
                await this.cache.set(this.key, { rate: data.rate, at: this.now });
                $.export('hit', false);
                return data.rate;
              },
            });`,
        },
        {
          namespace: 'respond',
          code: `export default defineComponent({
            async run({ steps, $ }) {
              await $.respond({ status: 200, headers: {}, body: { rate: steps.cached.$return_value, cached: steps.cached.hit } });
            },
          });`,
        },
      ],
    });
    const ask = async (path: string) => (await fetch(endpointOf(workflow) + path)).json();
    assert.deepEqual(await ask('/eur'), { rate: 1, cached: false });
    assert.deepEqual(await ask('/eur'), { rate: 1, cached: true });
    assert.deepEqual(await ask('/usd'), { rate: 2, cached: false });
    const entries = await service.api('GET', `/v1/data_stores/${made.body.data.id}/entries`);
    assert.deepEqual(
      entries.body.data.map(({ key, value }: { key: string; value: { rate: number } }) => [key, value.rate]),
      [
        ['rate-EUR', 1],
        ['rate-USD', 2],
      ],
    );
  });

  test('a code step with an account: its token reaches the service, and no record of the run', async () => {
    const { service } = fixture;
    const account = await service.api('POST', '/v1/accounts', {
      app: 'my_library',
      credentials: { oauth_access_token: 'library-token-987' },
    });
    assert.equal(account.status, 200, JSON.stringify(account.body));
    world.answerAlways({ body: { items: [{ title: 'The Mill' }, { title: 'The Race' }] } });
    const workflow = await service.createWorkflow({
      triggers: answered,
      steps: [
        {
          namespace: 'list_loans',
          props: {
            my_library: { authProvisionId: account.body.data.id },
            limit: '{{Math.min(steps.trigger.event.query.n, 50)}}',
          },
          code: `import { axios } from '@pipedream/platform';
            export default defineComponent({
              props: {
                my_library: { type: 'app', app: 'my_library' },
                limit: { type: 'integer', default: 10 },
              },
              async run({ $ }) {
                const { items } = await axios($, {
                  url: process.env.WORLD_URL + '/loans',
                  params: { limit: this.limit },
                  headers: { Authorization: \`Bearer \${this.my_library.$auth.oauth_access_token}\` },
                });
                $.export('titles', items.map((item) => item.title));
                return items.length;
              },
            });`,
        },
        {
          namespace: 'render',
          component: 'text-render-template',
          props: {
            template: '{% for title in titles %}- {{title}}\n{% endfor %}',
            data: { titles: '{{steps.list_loans.titles}}' },
          },
          disabled: true,
        },
        {
          namespace: 'return_http_response',
          component: 'http-return-http-response',
          props: { resStatusCode: 200, resBody: '{{steps.list_loans.titles.join(", ")}}' },
        },
      ],
    });
    assert.equal(await (await fetch(`${endpointOf(workflow)}?n=1000`)).text(), 'The Mill, The Race');
    assert.equal(world.requests[0]?.url, '/loans?limit=50');
    assert.equal(world.requests[0]?.headers.authorization, 'Bearer library-token-987');
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(exportsOf(run).list_loans?.$return_value, 2);
    assert.ok(!('render' in exportsOf(run)), 'what is switched off does not run');
    assert.doesNotMatch(JSON.stringify(run), /library-token/);
  });

  test('a slash command: a form, a token that is checked, an early response, and the answer sent afterwards', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      triggers: answered,
      steps: [
        {
          namespace: 'verify',
          code: `export default defineComponent({
            async run({ steps, $ }) {
              if (steps.trigger.event.body.token !== process.env.WORLD_TOKEN) {
                await $.respond({ status: 403, body: 'who are you?' });
                return $.flow.exit('wrong token');
              }
              await $.respond({ immediate: true, status: 200, body: { response_type: 'ephemeral', text: 'One moment…' } });
            },
          });`,
        },
        {
          namespace: 'old_answer',
          note: 'Until the **new** chat is there',
          component: 'http-post-request',
          props: { httpRequest: { url: '{{process.env.WORLD_URL}}/old', method: 'POST' } },
          disabled: true,
        },
        {
          namespace: 'answer',
          component: 'http-custom-request',
          props: {
            httpRequest: {
              auth: { type: 'none', username: '', password: '', token: '' },
              body: {
                type: 'fields',
                mode: 'fields',
                contentType: 'application/json',
                raw: '',
                fields: [
                  {
                    name: 'text',
                    value: `{{
                    (() => {
                      const words = steps.trigger.event.body.text.split(' ');
                      return \`\${words.length} words, the longest is \${words.toSorted((a, b) => b.length - a.length)[0]}\`;
                    })()
                  }}`,
                  },
                  { name: 'channel', value: '{{steps.trigger.event.body.channel}}', disabled: true },
                  { name: '', value: '' },
                ],
              },
              headers: [],
              params: [],
              method: 'POST',
              tab: 'body',
              url: '{{steps.trigger.event.body.response_url}}',
            },
          },
        },
      ],
    });
    assert.deepEqual(
      workflow.steps.map(({ note }: { note: string | null }) => note),
      [null, 'Until the **new** chat is there', null],
    );
    const command = (token: string) =>
      fetch(endpointOf(workflow), {
        method: 'POST',
        body: new URLSearchParams({
          token,
          text: 'grind the grain slowly',
          response_url: `${world.url}/later`,
        }),
      });
    const refused = await command('guessed');
    assert.deepEqual([refused.status, await refused.text()], [403, 'who are you?']);
    assert.equal((await service.runInState(workflow.id, 'succeeded')).reason, 'wrong token');
    const taken = await command('token-0123456789');
    assert.deepEqual(await taken.json(), { response_type: 'ephemeral', text: 'One moment…' });
    const later = await world.waitForRequest();
    assert.equal(later.url, '/later');
    assert.deepEqual(later.json(), { text: '4 words, the longest is slowly' });
    assert.equal(later.headers['content-type'], 'application/json');
  });

  test('an action of a workspace: choices with their labels, a list given as one expression, and what was cleared', async () => {
    const { service } = fixture;
    const saved = await service.api('POST', '/v1/components', {
      component_code: `export default {
        key: 'lottery-draw', name: 'Draw', version: '0.1.3', type: 'action',
        props: {
          list: { type: 'string[]' },
          places: { type: 'integer' },
          room: { type: 'string', withLabel: true },
          channels: { type: 'string[]' },
          icon_emoji: { type: 'string', optional: true },
          greeting: { type: 'string', default: 'Welcome' },
        },
        async run({ $ }) {
          $.export('$summary', \`drew from \${this.list.length}\`);
          return {
            drawn: this.list.slice(0, this.places), room: this.room, channels: this.channels,
            icon: this.icon_emoji ?? 'none', greeting: this.greeting,
          };
        },
      };`,
    });
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
    const workflow = await service.createWorkflow({
      triggers: answered,
      steps: [
        {
          namespace: 'draw',
          component: saved.body.data.id,
          props: {
            list: '{{steps.trigger.event.body.people.filter((person) => person.age >= 18).map(({ name }) => name)}}',
            places: { __lv: { label: 'Two', value: 2 } },
            room: { __lv: { label: 'The mill', value: 'C01' } },
            channels: [{ __lv: { label: '#general', value: 'C02' } }, '{{steps.trigger.event.body.channel}}'],
            icon_emoji: null,
            greeting: '{{steps.trigger.event.body.greeting}}',
          },
        },
        {
          namespace: 'return_http_response',
          component: 'http-return-http-response',
          props: {
            resStatusCode: '{{steps.draw.$return_value.drawn.length ? 200 : 404}}',
            resBody: '{{steps.draw.$return_value}}',
          },
        },
      ],
    });
    const people = [
      { name: 'Ada', age: 36 },
      { name: 'Tim', age: 7 },
      { name: 'Bob', age: 18 },
      { name: 'Eve', age: 50 },
    ];
    const answer = await postJson(endpointOf(workflow), { people, channel: 'C03' });
    assert.deepEqual(await answer.json(), {
      drawn: ['Ada', 'Bob'],
      room: { label: 'The mill', value: 'C01' },
      channels: ['C02', 'C03'],
      icon: 'none',
      greeting: 'Welcome',
    });
    assert.equal((await postJson(endpointOf(workflow), { people: [], channel: 'C03' })).status, 404);
  });

  test('orders of a source, one after the other: what has no id ends, the others are counted and sent on', async () => {
    const { service } = fixture;
    const store = (await service.api('POST', '/v1/data_stores', { name: 'order counts' })).body.data;
    const source = await service.createSource({ key: 'http-new-requests-payload-only', name: 'shop' });
    const workflow = await service.createWorkflow({
      settings: { name: 'Orders to the warehouse', concurrency: 1 },
      triggers: [{ type: 'source', props: { source_id: source.id } }],
      steps: [
        {
          namespace: 'end_based_on_condition',
          component: 'filter-end-based-on-condition',
          props: { messageOnEnd: 'no id', initialValue: '{{steps.trigger.event.id}}', condition: 'IS_NULL' },
        },
        {
          namespace: 'count',
          component: 'data_stores-increment-value',
          props: {
            dataStore: { storeId: store.id },
            key: '{{steps.trigger.event.customer?.name ?? "unknown"}}',
            amount: 1,
          },
        },
        {
          namespace: 'send_on',
          component: 'http-post-request',
          props: {
            httpRequest: {
              auth: { type: 'bearer', token: '{{process.env.WORLD_TOKEN}}' },
              body: {
                type: 'raw',
                contentType: 'application/json',
                raw: '{"order": {{steps.trigger.event.id}}, "of_customer": {{steps.count.$return_value}}, "note": {{JSON.stringify(steps.trigger.event.note ?? null)}}}',
              },
              headers: [],
              params: [],
              method: 'POST',
              url: '{{process.env.WORLD_URL}}/orders',
            },
          },
        },
      ],
    });
    const inbox = Object.values(source.configured_props as Record<string, { endpoint_url?: string }>).find(
      (value) => value?.endpoint_url,
    )?.endpoint_url;
    for (const order of [
      { id: 1, customer: { name: 'Ada' }, note: 'a "fast" one' },
      { customer: { name: 'Eve' } },
      { id: 2, customer: { name: 'Ada' } },
      { id: 3 },
    ])
      assert.equal((await postJson(inbox ?? '', order)).status, 200);
    await world.waitForRequest(3);
    assert.deepEqual(
      world.requests.map((request) => request.json()),
      [
        { order: 1, of_customer: 1, note: 'a "fast" one' },
        { order: 2, of_customer: 2, note: null },
        { order: 3, of_customer: 1, note: null },
      ],
    );
    const runs = await waitFor(async () => {
      const list = await service.runs(workflow.id, '&state=succeeded');
      return list.length === 4 && list;
    });
    assert.deepEqual(runs.map(({ reason }) => reason).filter(Boolean), ['no id']);
  });

  test('a file goes from one service to another: saved below /tmp, looked at by code, sent as a form', async () => {
    const { service } = fixture;
    const bytes = Buffer.from([0x25, 0x50, 0x44, 0x46, 0x00, 0xff, 0x0a]);
    world.answerAlways((request, response) => {
      if (request.method === 'POST') return { body: { stored: true } };
      response.writeHead(200, { 'content-type': 'application/pdf' }).end(bytes);
      return undefined;
    });
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        {
          namespace: 'download',
          component: 'http-get-request',
          props: {
            httpRequest: {
              method: 'GET',
              url: '{{process.env.WORLD_URL}}/invoices/{{steps.trigger.event.body.number}}.pdf',
            },
            saveTo: '/tmp/invoice-{{steps.trigger.event.body.number}}.pdf',
          },
        },
        {
          namespace: 'look',
          code: `import { readFile } from 'fs/promises';
            export default defineComponent({
              async run({ steps, $ }) {
                const content = await readFile(steps.download.$return_value.path);
                if (content.subarray(0, 4).toString() !== '%PDF') return $.flow.exit('no PDF');
                return { pages: content.length };
              },
            });`,
        },
        {
          namespace: 'upload',
          component: 'http-custom-request',
          props: {
            httpRequest: {
              method: 'POST',
              url: '{{process.env.WORLD_URL}}/archive',
              headers: [{ name: 'Content-Type', value: 'multipart/form-data' }],
              body: {
                type: 'fields',
                contentType: 'multipart/form-data',
                fields: [
                  { name: 'number', value: '{{steps.trigger.event.body.number}}' },
                  { name: 'file', value: '{{steps.download.$return_value.path}}', type: 'file' },
                ],
              },
            },
          },
        },
      ],
    });
    await postJson(endpointOf(workflow), { number: 41 });
    const upload = await world.waitForRequest(2);
    const form = await new Response(new Uint8Array(upload.body), {
      headers: { 'content-type': upload.headers['content-type'] ?? '' },
    }).formData();
    assert.equal(form.get('number'), '41');
    const file = form.get('file') as File;
    assert.deepEqual([file.name, Buffer.from(await file.arrayBuffer())], ['invoice-41.pdf', bytes]);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.deepEqual(exportsOf(run).upload?.$return_value, { stored: true });
  });

  test('an alert that is sent once: a limit, a key that is seen once, and a message to a chat', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: [
        {
          namespace: 'only_if_high',
          component: 'filter-continue-based-on-condition',
          props: {
            initialValue: '{{steps.trigger.event.body.load}}',
            condition: 'GREATER_THAN_EQUALS',
            secondValue: '{{process.env.LOAD_LIMIT ?? 80}}',
          },
        },
        {
          namespace: 'seen',
          component: 'data_stores-has-key-or-create',
          props: {
            key: 'alert-{{steps.trigger.event.body.host}}',
            addRecordIfNotFound: 'Yes',
            value: `{{\`\${steps.trigger.event.body.load} % at \${new Date(Date.now()).toISOString().slice(0, 10)}\`}}`,
            ttl: 3600,
          },
        },
        {
          namespace: 'end_if_seen',
          component: 'filter-end-based-on-condition',
          props: {
            initialValue: '{{steps.seen.$return_value.existingKeyFound}}',
            condition: 'TRUE',
            messageOnEnd: 'told already',
          },
        },
        {
          namespace: 'tell',
          code: `export default defineComponent({
            async run({ steps, $ }) {
              $.send.http({
                method: 'POST', url: process.env.WORLD_URL + '/chat',
                data: { text: steps.trigger.event.body.host + ' has a load of ' + steps.trigger.event.body.load },
              });
            },
          });`,
        },
      ],
    });
    const reasons: unknown[] = [];
    for (const [host, load] of [
      ['mill-1', '79'],
      ['mill-1', '80'],
      ['mill-1', 95],
      ['mill-2', 100],
    ]) {
      await postJson(endpointOf(workflow), { host, load });
      const runs = await waitFor(async () => {
        const list = await service.runs(workflow.id, '&state=succeeded');
        return list.length === reasons.length + 1 && list;
      });
      reasons.push(runs[0].reason);
    }
    assert.deepEqual(reasons, [
      'Ended: the condition GREATER_THAN_EQUALS is not met',
      null,
      'told already',
      null,
    ]);
    await world.waitForRequest(2);
    assert.deepEqual(world.requests.map((request) => (request.json() as { text: string }).text).toSorted(), [
      'mill-1 has a load of 80',
      'mill-2 has a load of 100',
    ]);
  });

  test('a data store of the place where the workflow comes from is refused with what to give instead', async () => {
    const { status, body } = await fixture.service.api('POST', '/v1/workflows', {
      triggers: [{ type: 'http' }],
      steps: [
        {
          namespace: 'keys',
          component: 'data_stores-list-keys',
          props: { dataStore: { storeId: 'ds_old' } },
        },
      ],
    });
    assert.deepEqual([status, body.code], [400, 'invalid_prop']);
    assert.equal(
      body.error,
      'steps[0].props.dataStore: there is no data store "ds_old", expected the id (ds_…) or the name of a data store, or no value for the data store named default; GET /v1/users/me/data_stores and /v1/workspaces/{id}/data_stores list them',
    );
  });

  test('the notes of steps stay in versions and templates', async () => {
    const { service } = fixture;
    const step = { namespace: 'keys', component: 'data_stores-list-keys', note: 'Lists **all** keys' };
    const workflow = await service.createWorkflow({ steps: [step], triggers: [{ type: 'http' }] });
    const noteOf = ({ steps }: { steps: { note: string | null }[] }) => steps[0]?.note;
    const template = await service.api('POST', '/v1/templates', { workflow_id: workflow.id });
    const copy = await service.api('POST', '/v1/workflows', { template_id: template.body.data.id });
    assert.equal(noteOf(copy.body.data), 'Lists **all** keys', JSON.stringify(copy.body));
    const { note: _, ...bare } = step;
    const deployed = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, { steps: [bare] });
    assert.equal(noteOf(deployed.body.data), null);
    const { body } = await service.api('GET', `/v1/workflows/${workflow.id}/deployments`);
    assert.deepEqual(body.data.map(noteOf), [null, 'Lists **all** keys']);
    const block = (note: unknown) => ({
      settings: { name: 'with a block' },
      triggers: [{ type: 'http' }],
      steps: [
        {
          namespace: 'choose',
          block: 'if',
          note: 'Only of customers',
          branches: [{ slug: 'customer', if: '{{steps.trigger.event.body.id}}', steps: [{ ...step, note }] }],
        },
      ],
    });
    const branching = await service.createWorkflow(block('In the branch'));
    assert.deepEqual(
      branching.steps.map(({ note }: { note: string | null }) => note),
      ['Only of customers', 'In the branch'],
    );
    const refused = await service.api('POST', '/v1/workflows', block({ a: 1 }));
    assert.match(
      refused.body.error,
      /^steps\[0\]\.branches\[0\]\.steps\[0\]\.note: expected text of at most 10000/,
    );
  });

  test('fields of a step that have another name here are refused with what to give instead', async () => {
    const step = { namespace: 'a', component: 'data_stores-list-keys' };
    const expected: [field: object, message: RegExp][] = [
      [{ uses: 'data_stores-list-keys@0.0.1' }, /^steps\[0\]\.uses: .*the key of an action as component/],
      [{ runtime: 'nodejs20.x' }, /^steps\[0\]\.runtime: .*leave it out$/],
      [{ notes: 'x' }, /^steps\[0\]\.notes: .*give it as note$/],
    ];
    for (const [field, message] of expected) {
      const { status, body } = await fixture.service.api('POST', '/v1/workflows', {
        steps: [{ ...step, ...field }],
      });
      assert.deepEqual([status, body.code], [400, 'unknown_parameter']);
      assert.match(body.error, message);
    }
  });

  test('a Python step is refused with what to do, and nothing is created', async () => {
    const { service } = fixture;
    const before = (await service.api('GET', '/v1/users/me/workflows')).body.page_info.total_count;
    const steps = [
      {
        namespace: 'python',
        runtime: 'python3.12',
        code: 'def handler(pd: "pipedream"):\n  return {"foo": 1}',
      },
      {
        namespace: 'python',
        code: 'import os\n\ndef handler(pd: "pipedream"):\n  return os.environ["SHOP"]',
      },
      { namespace: 'python', component: './python/entry.py' },
    ];
    for (const step of steps) {
      const { status, body } = await service.api('POST', '/v1/workflows', {
        triggers: [{ type: 'http' }],
        steps: [step],
      });
      assert.equal(status, 400);
      assert.match(body.error, /^steps\[0\]\.\w+: this is a Python step, .*rewrite it as JavaScript/);
    }
    const after = (await service.api('GET', '/v1/users/me/workflows')).body.page_info.total_count;
    assert.equal(after, before);
  });
});
