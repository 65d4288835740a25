import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type ApiOperation, type ParameterSchema, readApiOperations } from './support/api-operations.ts';
import { forEachService, testApiKey } from './support/millrace.ts';
import { startNpmRegistry } from './support/npm-registry.ts';

/**
 * Random requests to every operation of the document, well-formed and not, with ids that exist mixed in: none may get a
 * fault of the service, and every refusal has the one form. `MILLRACE_TEST_SEED` repeats a run that failed.
 */
const seed = Number(process.env.MILLRACE_TEST_SEED ?? randomInt(2 ** 31));
/** More, by MILLRACE_TEST_SHOTS, look further. */
const wildShots = Number(process.env.MILLRACE_TEST_SHOTS ?? 5);
/** They come first, and show that the requests get past the first check; the wild ones meet what they have made. */
const soundShots = 2;

interface Shot {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
}

// Strings that have been trouble somewhere: encodings, SQL, prototypes, numbers that are not.
const nasty = [
  ...[
    '',
    ' ',
    '0',
    '-1',
    '1.5',
    '1e309',
    'NaN',
    'null',
    'undefined',
    'true',
    '[]',
    '{}',
    "'",
    '"',
    '%',
    '%00',
    '%zz',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    '..',
    '../..',
    '/',
    '//',
    '.',
    '*',
    '\u0000',
    'a\u0000b',
    '\ud800',
    '💥',
  ],
  ...[
    "' or 1=1 --",
    '; drop table users',
    '<script>',
    '\r\nx-y: z',
    '9'.repeat(30),
    'x'.repeat(600),
    '\u202e',
    'é\u0301',
  ],
];

const component =
  "export default { name: 'Fuzz', props: { word: { type: 'string', optional: true } }, run() {} };";

const action =
  "export default { props: { word: { type: 'string', optional: true } }, run() { return this.word; } };";

/** What a run knows to exist: as ids in paths, and as values of the fields that name them. */
interface Known {
  ids: string[];
  fields: Record<string, unknown[]>;
}

function anyText(known: Known): fc.Arbitrary<string> {
  return fc.oneof(
    { arbitrary: fc.constantFrom(...nasty), weight: 3 },
    { arbitrary: fc.constantFrom(...known.ids), weight: 3 },
    { arbitrary: fc.string({ unit: 'binary', maxLength: 20 }), weight: 1 },
    { arbitrary: fc.string({ maxLength: 20 }), weight: 1 },
  );
}

/** A value for a named field: often one that makes sense, so that requests get past the first check. */
function valueFor(name: string, type: string | undefined, known: Known): fc.Arbitrary<unknown> {
  const sensible: fc.Arbitrary<unknown>[] = (known.fields[name] ?? []).map((value) => fc.constant(value));
  if (type === 'integer') sensible.push(fc.integer({ min: -2, max: 200 }));
  if (type === 'boolean') sensible.push(fc.boolean());
  if (type === 'string') sensible.push(anyText(known));
  if (type === 'object')
    sensible.push(fc.dictionary(anyText(known), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }));
  return fc.oneof(
    { arbitrary: sensible.length === 0 ? anyText(known) : fc.oneof(...sensible), weight: 4 },
    { arbitrary: fc.jsonValue({ maxDepth: 2 }), weight: 1 },
    { arbitrary: anyText(known), weight: 1 },
  );
}

/** Any subset of the named values, sometimes with an unknown one. */
function valuesFor(
  fields: Record<string, ParameterSchema>,
  required: readonly string[],
  known: Known,
): fc.Arbitrary<Record<string, unknown>> {
  const needed = Object.fromEntries(
    required.map((name) => [name, valueFor(name, fields[name]?.type, known)]),
  );
  const possible = Object.fromEntries(
    Object.entries(fields).map(([name, { type }]) => [name, valueFor(name, type, known)]),
  );
  const some = fc.record({ ...possible, ...needed }, { requiredKeys: [], noNullPrototype: true });
  const sound = fc.record({ ...possible, ...needed }, { requiredKeys: [...required], noNullPrototype: true });
  const strange = fc.dictionary(anyText(known), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 1 });
  return fc
    .tuple(
      fc.oneof({ arbitrary: sound, weight: 3 }, some),
      fc.oneof({ arbitrary: fc.constant({}), weight: 6 }, strange),
    )
    .map(([values, extra]) => ({ ...values, ...extra }));
}

/** A value that the schema allows; of a named field the first of the known ones, which is the sound one. */
function soundValueFor(name: string, schema: ParameterSchema, known: Known): fc.Arbitrary<unknown> {
  const [first] = known.fields[name] ?? [];
  if (first !== undefined) return fc.constant(first);
  if (schema.const !== undefined) return fc.constant(schema.const);
  const choices = schema.enum ?? schema.anyOf?.flatMap((one) => one.const ?? []) ?? [];
  if (choices.length > 0) return fc.constantFrom(...choices);
  if (schema.type === 'integer')
    return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 100, 100) });
  if (schema.type === 'boolean') return fc.boolean();
  if (schema.type === 'object') return fc.constant({});
  if (schema.type === 'array') return fc.constant([]);
  return fc.stringMatching(/^[a-z]{3,12}$/);
}

/** What is needed, and at most two more values. */
function soundValuesFor(
  fields: Record<string, ParameterSchema>,
  required: readonly string[],
  known: Known,
): fc.Arbitrary<Record<string, unknown>> {
  return fc
    .subarray(
      Object.keys(fields).filter((name) => !required.includes(name)),
      { maxLength: Math.min(2, Object.keys(fields).length - required.length) },
    )
    .chain((more) =>
      fc.record(
        Object.fromEntries(
          [...required, ...more].map((name) => [name, soundValueFor(name, fields[name] ?? {}, known)]),
        ),
        { noNullPrototype: true },
      ),
    );
}

function bodyOf(operation: ApiOperation, known: Known): fc.Arbitrary<string | undefined> {
  if (operation.body === undefined) return fc.constant(undefined);
  const { properties, required } = operation.body;
  return fc.oneof(
    { arbitrary: valuesFor(properties, required, known).map((value) => JSON.stringify(value)), weight: 8 },
    { arbitrary: fc.json({ maxDepth: 3 }), weight: 1 },
    { arbitrary: fc.constantFrom('{', '[', '"', '{"a":}', '', 'null', '[]', '{"__proto__":{}}'), weight: 1 },
    { arbitrary: fc.constant(undefined), weight: 1 },
  );
}

/** How the ids begin that stand behind these in a path. */
const prefixes: Readonly<Record<string, string>> = {
  accounts: 'apn_',
  auto_subscriptions: 'asub_',
  components: 'sc_',
  deliveries: 'dlv_',
  deployments: 'd_',
  orgs: 'o_',
  projects: 'proj_',
  replays: 'rpl_',
  sources: 'dc_',
  subscriptions: 'sub_',
  templates: 'tch_',
  webhooks: 'wh_',
  workflows: 'p_',
  workspaces: 'o_',
};

/** Those of the known ids that are of the kind this place of the path is for, where there are any. */
function idsOfPath(path: string, name: string, known: Known): unknown[] {
  const [, kind = ''] = new RegExp(`/(\\w+)/\\{${name}\\}`).exec(path) ?? [];
  const prefix = prefixes[kind];
  const fitting = prefix === undefined ? [] : known.ids.filter((id) => id.startsWith(prefix));
  return fitting.length === 0 ? (known.fields[name] ?? known.ids) : fitting;
}

/** What stands in the path and the query of an operation. */
function placesOf(operation: ApiOperation): { names: string[]; fields: Record<string, ParameterSchema> } {
  const inQuery = operation.parameters.filter((parameter) => parameter.in === 'query');
  return {
    names: [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name),
    fields: Object.fromEntries(inQuery.map(({ name, schema }) => [name, { ...schema }])),
  };
}

/** A request as a client makes it that has read the document. */
function soundShotAt(operation: ApiOperation, known: Known): fc.Arbitrary<Shot> {
  const { names, fields } = placesOf(operation);
  const { properties = {}, required = [] } = operation.body ?? {};
  return fc
    .record({
      segments: fc.tuple(...names.map((name) => fc.constantFrom(...idsOfPath(operation.path, name, known)))),
      query: soundValuesFor(fields, [], known),
      body: soundValuesFor(properties, required, known),
    })
    .map(({ segments, query, body }) => ({
      method: operation.method,
      path: pathOf(operation, segments, query),
      headers: operation.body === undefined ? {} : { 'content-type': 'application/json' },
      body: operation.body === undefined ? undefined : JSON.stringify(body),
    }));
}

function pathOf(operation: ApiOperation, segments: unknown[], query: Record<string, unknown>): string {
  let next = 0;
  const path = operation.path.replace(/\{\w+\}/g, () => encode(String(segments[next++])));
  const text = Object.entries(query).map(
    ([name, value]) => `${encode(name)}=${encode(typeof value === 'string' ? value : JSON.stringify(value))}`,
  );
  return text.length === 0 ? path : `${path}?${text.join('&')}`;
}

function shotAt(operation: ApiOperation, known: Known): fc.Arbitrary<Shot> {
  const { names, fields } = placesOf(operation);
  const segments = fc.tuple(
    ...names.map((name) =>
      fc.oneof(
        { arbitrary: fc.constantFrom(...(known.fields[name] ?? known.ids)), weight: 1 },
        { arbitrary: fc.constantFrom(...idsOfPath(operation.path, name, known)), weight: 2 },
        { arbitrary: anyText(known), weight: 1 },
      ),
    ),
  );
  const contentType = fc.oneof(
    { arbitrary: fc.constant('application/json'), weight: 12 },
    fc.constantFrom('text/plain', 'application/json; charset=latin1', 'multipart/form-data', ''),
  );
  return fc
    .record({
      segments,
      query: valuesFor(fields, [], known),
      body: bodyOf(operation, known),
      contentType,
      slash: fc.boolean(),
      lastEventId: fc.oneof(
        { arbitrary: fc.constant(''), weight: 5 },
        fc.constantFrom('1-1', '0-0', 'x', '9'.repeat(30)),
      ),
    })
    .map(({ segments: values, query, body, contentType: type, slash, lastEventId }) => {
      const [path = '', search] = pathOf(operation, values, query).split('?');
      return {
        method: operation.method,
        path: `${path}${slash ? '/' : ''}${search === undefined ? '' : `?${search}`}`,
        headers: {
          ...(body === undefined || type === '' ? {} : { 'content-type': type }),
          ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
        },
        body,
      };
    });
}

/** As in URLs; a percent sign that is no encoding stays one, and so do lone surrogates, as their replacement. */
function encode(text: string): string {
  return text === '%zz' || text === '%00'
    ? text
    : encodeURIComponent(text.toWellFormed()).replaceAll('%2F%2F', '//');
}

/** Only sent for objects that do not exist: otherwise the run would soon lose its targets. */
const removing = new Set([
  ...['deleteSource', 'deleteMember', 'deleteAccount', 'deleteWebhook'],
  ...['deleteSubscription', 'deleteSubscriptionById', 'deleteWorkflow', 'deleteTemplate', 'deleteProject'],
]);

/** Random names of packages must not reach a real registry. */
const registry = await startNpmRegistry(() => []);
after(() => registry.close());

forEachService(
  (fixture) => {
    let operations: ApiOperation[] = [];
    const known: Known = { ids: [], fields: {} };
    let nothing: Known = known;

    before(async () => {
      const { service } = fixture;
      operations = await readApiOperations(service.url);
      const me = (await service.api('GET', '/v1/users/me')).body.data;
      const workspace: string = me.orgs[0].id;
      const source = await service.createSource({
        component_code: `export default { name: 'Target', hooks: { deploy() { this.$emit({ n: 1 }); console.log('x'); } }, run() {} };`,
        org_id: workspace,
      });
      const event = (await service.events(source.id))[0].id;
      const account = (
        await service.api('POST', '/v1/accounts', {
          app: 'gitlab',
          credentials: { token: 'x' },
          org_id: workspace,
        })
      ).body.data.id;
      const idOf = async (path: string, body: Record<string, unknown>): Promise<string> =>
        (await service.api('POST', path, body)).body.data.id;
      // Nothing listens on this port: what is sent there fails.
      const webhook = await idOf('/v1/webhooks', { url: 'http://127.0.0.1:9/hook', org_id: workspace });
      const subscription = await idOf('/v1/subscriptions', { emitter_id: source.id, listener_id: webhook });
      const auto = await idOf('/v1/auto_subscriptions', { event_name: '$logs', listener_id: webhook });
      const replay = await idOf(`/v1/sources/${source.id}/replay`, { listener_id: webhook });
      const [delivery] = (await service.api('GET', `/v1/webhooks/${webhook}/deliveries`)).body.data;
      const step = { namespace: 'one', code: action, props: { word: '{{1}}' } };
      const workflow = await service.createWorkflow({
        steps: [step],
        triggers: [{ type: 'http' }, { type: 'source', props: { source_id: source.id } }],
        org_id: workspace,
      });
      const template = await idOf('/v1/templates', { workflow_id: workflow.id });
      const [project] = (await service.api('GET', `/v1/workspaces/${workspace}/projects`)).body.data;
      const cursor = Buffer.from(source.id).toString('base64url');
      known.ids = [
        me.id,
        workspace,
        source.id,
        source.component_id,
        account,
        event,
        webhook,
        subscription,
        auto,
        replay,
        delivery.id,
        workflow.id,
        workflow.deployment_id,
        template,
        project.id,
        'key_x',
        'rss-new-item-in-feed',
      ];
      known.fields = {
        id: known.ids,
        key: ['rss-new-item-in-feed', 'nothing'],
        user_id: [me.id, 'u_nobody'],
        org_id: [workspace, 'o_other', ''],
        workspace_id: [workspace, 'o_other'],
        component_id: [source.component_id],
        component_code: [component, 'export default 5', 'not code'],
        component_url: ['http://127.0.0.1:9/x.js', 'ftp://x', 'nonsense'],
        limit: ['1', '100', '1000', '0', 'x'],
        after: [cursor, event, '1'],
        before: [cursor, event, '1'],
        start_id: [event, '1-1'],
        end_id: [event, '9-9'],
        from_event_id: [event, '1-1'],
        emitter_id: [source.id, 'dc_*', workspace, 'dc_nothing'],
        listener_id: [webhook, source.id, 'wh_nothing'],
        url: ['http://127.0.0.1:9/', 'ftp://x', 'nonsense'],
        event_name: ['$errors', '$logs', 'x'],
        include: ['id', 'id,name'],
        exclude: ['id', 'nothing'],
        app: ['gitlab'],
        role: ['admin', 'member', 'viewer'],
        username: ['someone', 'admin'],
        email: ['someone@example.com'],
        name: ['A name'],
        configured_props: [{}, { word: 'x' }],
        credentials: [{ token: 'y' }],
        workflow_id: [workflow.id, 'p_nothing'],
        template_id: [template, 'tch_nothing'],
        project_id: [project.id, 'proj_nothing'],
        steps: [
          [],
          [step],
          [{ ...step, props: { word: null } }],
          [{ namespace: 'two', component: 'a\u0000@1' }],
        ],
        triggers: [
          [],
          [{}],
          [{ type: 'http', props: { auth: { type: 'static_bearer_token', token: 'long enough' } } }],
          [{ type: 'http', props: { auth: { type: 'oauth' } } }],
          [{ type: 'timer', props: { interval_seconds: 3600 } }, { type: 'email' }],
          [{ type: 'source', props: { source_id: source.id } }],
          [{ type: 'source', props: { source_id: 'a\u0000' } }, { id: 'a\u0000' }],
        ],
        settings: [{}, { name: 'W', auto_deploy: true }, { name: 'a\u0000' }, { memory_mb: 1 }],
      };
      const made = (await service.api('POST', '/v1/users/me/api_keys', { name: 'spare' })).body.data.id;
      const ids = ['dc_nothing', 'o_nothing', 'apn_nothing', 'p_nothing', 'tch_nothing', made];
      nothing = { ids, fields: { ...known.fields, id: ids, user_id: ['u_nobody'] } };
    });

    /** Answers that existing clients know without `data` around them. */
    const unwrapped = /^\/v1\/components\/(configure|props|search)\b/;

    async function shoot(url: string, shot: Shot): Promise<number> {
      const abort = new AbortController();
      const response = await fetch(url + shot.path, {
        method: shot.method,
        headers: { authorization: `Bearer ${testApiKey}`, ...shot.headers },
        ...(shot.body === undefined ? {} : { body: Buffer.from(shot.body) }),
        signal: abort.signal,
      });
      if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
        abort.abort();
        return response.status;
      }
      const text = await response.text();
      assert.ok(response.status < 500, `${response.status} ${text}`);
      if (response.status >= 400) {
        const body = JSON.parse(text) as Record<string, unknown>;
        // OAuth clients read additional fields of their own.
        const isOAuth = shot.path.startsWith('/v1/oauth/') && 'error_description' in body;
        const ofOAuth = isOAuth ? ['error_description'] : [];
        assert.deepEqual(Object.keys(body), ['error', ...ofOAuth, 'code', 'details'], text);
        assert.equal(typeof body.error, 'string', text);
        assert.match(String(body.code), /^[a-z][a-z_]+$/, text);
        assert.ok(typeof body.details === 'object' && body.details !== null, text);
      } else if (
        response.headers.get('content-type')?.startsWith('application/json') &&
        shot.path.startsWith('/v1/') &&
        !unwrapped.test(shot.path)
      ) {
        assert.ok('data' in (JSON.parse(text) as object), text);
      }
      return response.status;
    }

    test('no random request gets a fault of the service, and every refusal has the one form', async (context) => {
      const { service } = fixture;
      context.diagnostic(`seed ${seed}: MILLRACE_TEST_SEED=${seed} repeats it`);
      const statuses = new Map<string, Set<number>>();
      const shots = operations.map((operation, index) => {
        const targets = removing.has(operation.operationId) ? nothing : known;
        const sound = fc.sample(soundShotAt(operation, targets), { seed: seed + index, numRuns: soundShots });
        const wild = fc.sample(shotAt(operation, targets), { seed: seed + index, numRuns: wildShots });
        return [...sound, ...wild];
      });
      // One at each operation in turn, so that each meets what the others have made.
      for (let round = 0; round < soundShots + wildShots; round += 1) {
        for (const [index, { operationId }] of operations.entries()) {
          const shot = shots[index]?.[round] as Shot;
          const status = await shoot(service.url, shot).catch((cause: unknown) => {
            throw new Error(`${operationId}: ${JSON.stringify(shot)}`, { cause });
          });
          statuses.set(operationId, (statuses.get(operationId) ?? new Set()).add(status));
        }
      }
      // Random requests that were all refused at the door would prove nothing. Of 205 operations about 128 succeed.
      const done = [...statuses.values()].filter((seen) => [...seen].some((status) => status < 300));
      assert.ok(
        done.length > operations.length / 2,
        `only ${done.length} of ${operations.length} operations ever succeeded`,
      );
      assert.equal((await service.api('GET', '/readyz')).status, 200);
      assert.equal(
        (await service.api('GET', '/v1/users/me')).status,
        200,
        'and the service is none the worse',
      );
    });
  },
  { environment: { MILLRACE_NPM_REGISTRY: registry.url }, inTurns: true },
);
