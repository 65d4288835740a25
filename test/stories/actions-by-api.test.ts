import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { type ApiAnswer, forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const token = 'canary-token-0123456789abcdef';

/** Code of an action with these props, as source text. */
function action(body: string, props = '{}', head = ''): string {
  return `${head}export default { name: 'Mine', key: 'mine-do', version: '0.1.0', type: 'action', props: ${props},
    async run({ steps, $ }) { ${body} } };`;
}

/** Errors among the observations of an answer. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
const errorsOf = (answer: ApiAnswer): any[] =>
  answer.body.data.os.filter(({ k }: { k: string }) => k === 'error');

forEachSharedService((fixture) => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
  });
  after(() => receiver?.close());

  const ask = (body: object, key?: string) =>
    fixture.service.api('POST', '/v1/actions/run', body, key === undefined ? {} : { key });

  const run = async (body: object, key?: string) => {
    const answer = await ask(body, key);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer;
  };

  const data = async (method: string, path: string, body?: unknown, key?: string) => {
    const answer = await fixture.service.api(method, path, body, key === undefined ? {} : { key });
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };

  test('an action runs once and answers what it exported, returned and logged', async () => {
    const { body } = await run({
      component_code: action(
        `console.log('hello', this.who); console.error('careful');
         $.export('$summary', 'Done'); $.export('n', 1);
         return { who: this.who, mood: this.mood, row: this.row, event: steps.trigger.event, context: $.context };`,
        `{ who: { type: 'string' }, mood: { type: 'string', default: 'good' }, row: { type: 'object' } }`,
      ),
      configured_props: { who: 'Ada {{1 + 1}}', row: '{"id": 1}' },
    });
    const { component, exports, ret, os, duration, exit, response, sends } = body.data;
    assert.match(component.id, /^sc_/);
    assert.deepEqual([component.key, component.version], ['mine-do', '0.1.0']);
    assert.deepEqual(exports, { $summary: 'Done', n: 1 });
    assert.deepEqual(
      [ret.who, ret.mood, ret.row, ret.event],
      ['Ada {{1 + 1}}', 'good', { id: 1 }, {}],
      'values are taken as they are',
    );
    assert.deepEqual(
      [ret.context.workflow_id, ret.context.deployment_id, ret.context.source_type, ret.context.JIT],
      [null, null, 'SDK', false],
    );
    assert.deepEqual(
      os.map(({ k, level, msg }: Record<string, unknown>) => [k, level, msg]),
      [
        ['log', 'log', 'hello Ada {{1 + 1}}'],
        ['log', 'error', 'careful'],
      ],
    );
    assert.ok(os.every(({ ts }: { ts: number }) => Math.abs(Date.now() - ts) < 60_000));
    assert.ok(Number.isInteger(duration));
    assert.deepEqual([exit, response, sends], [null, null, []]);

    const again = await run({ id: component.id, configured_props: { who: 'Bob', row: {} } });
    assert.equal(again.body.data.ret.who, 'Bob');
    for (const id of ['mine-do', 'mine-do@0.1.0'])
      assert.equal((await run({ id, configured_props: { who: id, row: {} } })).body.data.ret.who, id);
    const nothing = await run({ component_code: action('$.flow.exit("enough");') });
    assert.deepEqual([nothing.body.data.ret, nothing.body.data.exit], [null, { reason: 'enough' }]);
  });

  test('an error of its code is in the answer, with what it did before', async () => {
    const answer = await run({
      component_code: action(
        `$.export('kept', 1); console.log('before'); throw new RangeError('no such row');`,
      ),
    });
    const { exports, ret, os } = answer.body.data;
    assert.deepEqual([exports, ret], [{ kept: 1 }, null]);
    assert.deepEqual(
      os.map(({ k }: { k: string }) => k),
      ['log', 'error'],
    );
    const [{ err, ts }] = errorsOf(answer);
    assert.deepEqual([err.name, err.message], ['RangeError', 'no such row']);
    assert.match(err.stack, /component\.\w+:\d+/);
    assert.ok(ts > 1_600_000_000_000);
  });

  test('what cannot be run is refused, and the answer names what is wrong', async () => {
    const props = `{ count: { type: 'integer', min: 2 }, row: { type: 'object', optional: true } }`;
    const component_code = action('return this.count;', props);
    const refused: [object, number, string, string | undefined][] = [
      [{}, 400, 'missing_parameter', 'id'],
      [{ id: 'mine-do', component_code }, 400, 'invalid_parameter', 'component_code'],
      [{ id: 'nobody-knows-this' }, 404, 'not_found', undefined],
      [{ id: 'mine-do@9.9.9' }, 404, 'not_found', undefined],
      [{ component_code }, 400, 'invalid_prop', 'configured_props.count'],
      [{ component_code, configured_props: { count: 1 } }, 400, 'invalid_prop', 'configured_props.count'],
      [
        { component_code, configured_props: { count: '{{2}}' } },
        400,
        'invalid_prop',
        'configured_props.count',
      ],
      [
        { component_code, configured_props: { count: 2, row: '{"id": 1' } },
        400,
        'invalid_prop',
        'configured_props.row',
      ],
      [
        { component_code, configured_props: { count: 2, more: 1 } },
        400,
        'invalid_prop',
        'configured_props.more',
      ],
      [{ component_code, configured_props: 'x' }, 400, 'invalid_parameter', 'configured_props'],
      [{ component_code, timeout_seconds: 301 }, 400, 'invalid_parameter', 'timeout_seconds'],
      [
        { component_code: "export default { props: { timer: '$.interface.timer' }, run() {} };" },
        400,
        'invalid_component',
        undefined,
      ],
      [{ component_code: "export default { type: 'app', app: 'x' };" }, 400, 'invalid_component', undefined],
      [{ component_code: 'throw new Error("at load");' }, 400, 'invalid_component', 'component_code'],
    ];
    for (const [body, status, code, parameter] of refused) {
      const answer = await ask(body);
      assert.deepEqual(
        [
          answer.status,
          answer.body.code,
          parameter === undefined ? undefined : answer.body.details.parameter,
        ],
        [status, code, parameter],
        JSON.stringify([body, answer.body]),
      );
    }
  });

  test('props that additionalProps asks for are asked for, and its error is reported', async () => {
    const component_code = `export default { type: 'action',
      props: { kind: { type: 'string', reloadProps: true }, key: { type: 'string', secret: true, optional: true } },
      async additionalProps() {
        if (this.kind === 'bad') throw new Error('no such kind for ' + this.key);
        return { ['of_' + this.kind]: { type: 'integer' } };
      },
      async run() { return this['of_' + this.kind]; } };`;
    const missing = await ask({ component_code, configured_props: { kind: 'a' } });
    assert.deepEqual([missing.status, missing.body.details.parameter], [400, 'configured_props.of_a']);
    const given = { kind: 'a', of_a: 7 };
    assert.equal((await run({ component_code, configured_props: given })).body.data.ret, 7);
    const bad = await ask({ component_code, configured_props: { kind: 'bad', key: 'prop-secret-1' } });
    assert.deepEqual([bad.status, bad.body.code], [400, 'hook_failed']);
    assert.match(bad.body.error, /no such kind for \[redacted\]/);
    assert.doesNotMatch(JSON.stringify(bad.body), /prop-secret/);
  });

  const hostile: Record<string, { code: string; name: RegExp; message: RegExp; seconds?: number }> = {
    'loops for ever': {
      code: 'for (;;) {}',
      name: /^Timeout$/,
      message: /the action did not end within 2 s/,
      seconds: 2,
    },
    'leaks memory': {
      code: 'const kept = []; for (;;) kept.push(new Array(1e6).fill(kept.length));',
      name: /^Out of Memory$/,
      message: /memory/,
    },
    'exits its process': {
      code: 'process.exit(0);',
      name: /^InternalFailure$/,
      message: /ended its process/,
    },
    'returns 50 MB': {
      code: "return 'x'.repeat(50 * 1024 * 1024);",
      name: /./,
      message: /\d+ bytes|larger|limit/i,
    },
    'throws null': { code: 'throw null;', name: /./, message: /null/ },
    'leaves a promise that rejects': {
      code: "Promise.reject(new Error('uncaught')); await new Promise((resolve) => setTimeout(resolve, 500));",
      name: /^Error$/,
      message: /uncaught/,
    },
  };
  const hostileAction = action(
    `switch (this.what) {
      ${Object.entries(hostile)
        .map(([what, { code }]) => `case '${what}': { ${code} } break;`)
        .join('\n')}
      default: return 1;
    }`,
    `{ what: { type: 'string' } }`,
  );
  for (const [what, { name, message, seconds = 30 }] of Object.entries(hostile)) {
    test(`an action that ${what} is an error in its answer, and harms no other caller`, async () => {
      const answering = ask({
        component_code: hostileAction,
        configured_props: { what },
        timeout_seconds: seconds,
      });
      const meanwhile = await run({ component_code: hostileAction, configured_props: { what: 'is well' } });
      assert.equal(meanwhile.body.data.ret, 1);
      const answer = await answering;
      assert.equal(answer.status, 200, JSON.stringify(answer.body).slice(0, 500));
      const [{ err }] = errorsOf(answer);
      assert.match(err.name, name);
      assert.match(err.message, message);
      assert.ok(err.message.length < 2_000, 'readable');
      assert.equal(answer.body.data.ret, null);
    });
  }

  test('secrets are redacted wherever the action puts them, and its use of the account is on record', async () => {
    const account = await data('POST', '/v1/accounts', {
      app: 'notion',
      credentials: { oauth_access_token: token },
    });
    const leak = `const t = this.notion.$auth.oauth_access_token; const b = Buffer.from(t).toString('base64');
      console.log(t, b, this.key); $.export(t, [t, b, { deep: this.key }]);
      $.flow.exit('because ' + t);
      await $.respond({ status: 200, headers: { 'x-token': t }, body: { t } });
      $.send.http({ method: 'POST', url: this.url, data: { t } });
      if (this.throws) throw new Error('it is ' + t + this.key);
      return { t, b, got: t.length };`;
    const component_code = action(
      leak,
      `{ notion: { type: 'app', app: 'notion' }, key: { type: 'string', secret: true }, url: 'string', throws: 'boolean' }`,
    );
    for (const throws of [false, true]) {
      const answer = await run({
        component_code,
        configured_props: {
          notion: { authProvisionId: account.id },
          key: 'prop-secret-0123456789',
          url: `${receiver.url}/leak`,
          throws,
        },
      });
      const text = JSON.stringify(answer.body);
      for (const secret of [token, Buffer.from(token).toString('base64'), 'prop-secret-0123456789'])
        assert.equal(text.includes(secret), false, text);
      assert.match(text, /\[redacted\]/);
      if (!throws) assert.equal(answer.body.data.ret.got, token.length, 'it had the real one');
      assert.equal(answer.body.data.response.status, 200);
      assert.deepEqual(answer.body.data.exit, { reason: 'because [redacted]' });
      const { id, name } = (await data('GET', `/v1/accounts/${account.id}/uses`)).used[0];
      assert.deepEqual([id, name], [answer.body.data.component.id, 'Mine']);
    }
    assert.equal((await fixture.log()).includes(token), false);
    const stored = await ask({
      component_code,
      configured_props: { notion: { authProvisionId: account.id }, key: '••••••••', url: '', throws: false },
    });
    assert.deepEqual([stored.status, stored.body.details.parameter], [400, 'configured_props.key']);
  });

  test('what it sends is sent before it is answered; what needs a workflow is refused where it is asked for', async () => {
    const sending = await run({
      component_code: action(`
        $.send.http({ method: 'POST', url: '${receiver.url}/sent', data: { a: 1 } });
        $.send.http({ method: 'post', url: '${receiver.url}/wrong' });
        $.send.email({ subject: 'Hi', text: 'there' });
        return 1;`),
    });
    const { sends } = sending.body.data;
    assert.deepEqual(
      sends.map(({ kind, state }: Record<string, unknown>) => [kind, state]),
      [
        ['http', 'sent'],
        ['http', 'failed'],
        ['email', 'failed'],
      ],
    );
    assert.equal(sends[0].result.status, 200);
    assert.match(sends[1].result.error, /method/);
    assert.match(sends[2].result.error, /MILLRACE_SMTP_URL/);
    const sent = receiver.requests.filter(({ url }) => url === '/sent');
    assert.deepEqual(
      sent.map((request) => request.json()),
      [{ a: 1 }],
    );
    const calls = [
      '$.flow.suspend()',
      '$.flow.delay(1000)',
      '$.flow.rerun(1000)',
      '$.send.emit({ a: 1 })',
      "$.send.sse({ channel: 'a', payload: 1 })",
      "$.send('emit', {})",
    ];
    const refused = /can be used in steps of workflows only/;
    const { body } = await run({
      component_code: action(`const messages = [];
        ${calls.map((call) => `try { ${call}; messages.push(''); } catch (error) { messages.push(error.message); }`).join('\n')}
        return messages;`),
    });
    for (const [at, call] of calls.entries()) assert.match(body.data.ret[at], refused, call);
    const answer = await run({ component_code: action(`${calls[0]}; return 1;`) });
    const [{ err }] = errorsOf(answer);
    assert.match(err.message, refused);
    assert.equal(answer.body.data.ret, null);
  });

  test('data stores and files of the owner are there, and workflows of the owner can be triggered', async () => {
    const workflow = await fixture.service.createWorkflow({
      steps: [{ namespace: 'twice', code: action('return steps.trigger.event.n * 2;') }],
      triggers: [{ type: 'http' }],
    });
    const { body } = await run({
      component_code: action(
        `await this.store.set('seen', { n: 1 }); 
         writeFileSync('/tmp/x', 'note'); await $.files.open('a/note.txt').fromFile('/tmp/x');
         return [await this.store.get('seen'), String(await $.files.open('a/note.txt').toBuffer()),
           await $.flow.trigger('${workflow.id}', { n: 21 })];`,
        `{ store: { type: 'data_store' } }`,
        "import { writeFileSync } from 'node:fs'; ",
      ),
    });
    assert.deepEqual(body.data.ret, [{ n: 1 }, 'note', 42], JSON.stringify(body));
    const left = await run({
      component_code: action(
        "try { readFileSync('/tmp/x'); return 'there'; } catch { return 'gone'; }",
        '{}',
        "import { readFileSync } from 'node:fs'; ",
      ),
    });
    assert.equal(left.body.data.ret, 'gone', 'each run has a /tmp of its own');
  });

  test('defineComponent and its kin are globals that return what they are given', async () => {
    const names = ['defineComponent', 'defineAction', 'defineSource', 'defineApp'];
    const code = `const app = defineApp({ type: 'app', app: 'x', methods: { two: () => 2 } });
      const same = {}; const kept = [${names.join(', ')}].every((define) => define(same) === same);
      export default defineAction({ type: 'action', props: {}, run() { return [kept, app.methods.two()]; } });`;
    assert.deepEqual((await run({ component_code: code })).body.data.ret, [true, 2]);
  });

  test('an error of a file that code catches fails no run, and one that it does not catch is reported', async () => {
    const file = "$.files.open('a/kept.txt')";
    const { body } = await run({
      component_code: action(
        `await ${file}.fromReadableStream(Readable.from(['kept']));
         const broken = () => { const stream = new Readable({ read() {} }); process.nextTick(() => stream.destroy(new Error('broken'))); return stream; };
         const message = (promise) => promise.then(() => 'nothing', (error) => error.code ?? error.message);
         const caught = [
           await message(${file}.fromFile('/tmp/missing')),
           await message(${file}.fromFile('/tmp')),
           await message(${file}.fromReadableStream(broken())),
           await message(${file}.fromUrl('http://127.0.0.1:1/')),
           await message(${file}.toFile('/tmp/none/out')),
           await message($.files.open('a/none').createReadStream()),
           await message(getFileStream('/tmp/missing')),
         ];
         (await ${file}.createWriteStream()).destroy();
         await new Promise((resolve) => setTimeout(resolve, 50));
         const { stream, metadata } = await getFileStreamAndMetadata(await ${file}.toUrl());
         const linked = [await text(stream), metadata.name, metadata.size];
         return [...caught, await ${file}.toEncodedString(), ...linked];`,
        '{}',
        "import { Readable } from 'node:stream'; import { text } from 'node:stream/consumers'; import { getFileStream, getFileStreamAndMetadata } from '@pipedream/platform'; ",
      ),
    });
    assert.deepEqual(
      body.data.ret,
      [
        'ENOENT',
        'EISDIR',
        'broken',
        'fetch failed',
        'ENOENT',
        'ENOENT',
        'ENOENT',
        'kept',
        'kept',
        'kept.txt',
        4,
      ],
      JSON.stringify(body),
    );
    const uncaught = await run({
      component_code: action(
        `void ${file}.fromFile('/tmp/missing'); await new Promise((resolve) => setTimeout(resolve, 5000));`,
      ),
    });
    const [{ err }] = errorsOf(uncaught);
    assert.match(err.message, /ENOENT/);
  });

  test('members and access tokens run actions of a workspace; viewers, strangers and accounts of others do not', async () => {
    const { service } = fixture;
    const workspace = await data('POST', '/v1/workspaces', { name: 'Acting' });
    const person = async (username: string, role?: string) => {
      const user = await service.createUser(username);
      if (role !== undefined)
        await data('POST', `/v1/workspaces/${workspace.id}/members`, { user_id: user.id, role });
      return user;
    };
    const member = await person('actingmember', 'member');
    const viewer = await person('actingviewer', 'viewer');
    const stranger = await person('actingstranger');
    const app = 'notion';
    const shared = await data('POST', '/v1/accounts', {
      ...{ app, org_id: workspace.id, credentials: { oauth_access_token: token } },
    });
    const foreign = await data(
      'POST',
      '/v1/accounts',
      { app, credentials: { oauth_access_token: token } },
      stranger.key,
    );
    const component_code = action(
      'return this.notion.$auth.oauth_access_token.length;',
      `{ notion: { type: 'app', app: 'notion' } }`,
    );
    const withAccount = (authProvisionId: string, orgId?: string) => ({
      component_code,
      configured_props: { notion: { authProvisionId } },
      ...(orgId === undefined ? {} : { org_id: orgId }),
    });
    const inWorkspace = await run(withAccount(shared.id, workspace.id), member.key);
    assert.equal(inWorkspace.body.data.ret, token.length);

    const client = await data('POST', `/v1/workspaces/${workspace.id}/oauth_clients`, { name: 'runs' });
    const { access_token } = (await (
      await fetch(`${service.url}/v1/oauth/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          grant_type: 'client_credentials',
          client_id: client.client_id,
          client_secret: client.client_secret,
        }),
      })
    ).json()) as { access_token: string };
    assert.equal((await run(withAccount(shared.id), access_token)).body.data.ret, token.length);

    const statuses = async (...tries: [object, string][]) => {
      const answers = [];
      for (const [body, key] of tries) answers.push((await ask(body, key)).status);
      return answers;
    };
    assert.deepEqual(
      await statuses(
        [withAccount(shared.id, workspace.id), viewer.key],
        [withAccount(shared.id, workspace.id), stranger.key],
        // Outside of the workspace its account is unknown, also for members.
        [withAccount(shared.id), member.key],
        [withAccount(shared.id), viewer.key],
        [withAccount(foreign.id, workspace.id), member.key],
        [withAccount(foreign.id), access_token],
        [withAccount('apn_nobody'), member.key],
        // A component of others.
        [{ id: inWorkspace.body.data.component.id }, stranger.key],
      ),
      [403, 404, 404, 404, 404, 404, 404, 404],
    );
    assert.equal((await ask({ component_code }, 'no-such-key')).status, 401);
    const { used } = await data('GET', `/v1/accounts/${foreign.id}/uses`, undefined, stranger.key);
    assert.deepEqual(used, [], 'no caller got the credentials of the stranger');
  });

  test('a run is counted for its owner, refused over the quota, and leaves nothing else', async () => {
    const owner = await fixture.service.createUser('counted');
    const { key } = owner;
    const { key: adminKey } = fixture.service.admin;
    const usage = async () => {
      const { used } = await data('GET', `/v1/quotas/${owner.id}`, undefined, adminKey);
      return [used.invocations, used.credits] as const;
    };
    const [invocations, credits] = await usage();
    await run({ component_code: action('return 1;') }, key);
    await run({ component_code: action('throw new Error("it counts too");') }, key);
    assert.deepEqual(await usage(), [invocations + 2, credits + 2]);
    assert.equal((await ask({ component_code: action('', `{ a: 'string' }`) }, key)).status, 400);
    assert.deepEqual(await usage(), [invocations + 2, credits + 2], 'what did not run is not counted');
    for (const path of ['/v1/users/me/sources', '/v1/users/me/workflows'])
      assert.deepEqual(await data('GET', path, undefined, key), [], path);

    await data('PUT', `/v1/quotas/${owner.id}`, { invocations: 2, enforced: true }, adminKey);
    const refused = await waitFor(
      async () => {
        const answer = await ask({ component_code: action('return 1;') }, key);
        return answer.status === 429 ? answer : undefined;
      },
      { what: 'the quota to be known' },
    );
    assert.deepEqual([refused.body.code, refused.body.details.quota], ['quota_exceeded', 'invocations']);
    assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
  });

  test('so many actions of one owner are run at once, and others are told to come back', async () => {
    const { key } = await fixture.service.createUser('eager');
    // Those that run end when the others were refused: a busy machine may take long to come to the last of them.
    const refusals = Promise.withResolvers<void>();
    await using gate = await HttpReceiver.start({
      answer: async () => {
        await refusals.promise;
        return {};
      },
    });
    const waiting = action(
      'if (this.url) await fetch(this.url); return 1;',
      `{ url: { type: 'string', optional: true } }`,
    );
    const id = (await run({ component_code: waiting }, key)).body.data.component.id;
    let refused = 0;
    const asked = Array.from({ length: 14 }, async () => {
      const answer = await ask({ id, configured_props: { url: gate.url } }, key);
      if (answer.status === 429) refused += 1;
      if (refused === 4) refusals.resolve();
      return answer;
    });
    const answers = await Promise.all(asked);
    const busy = answers.filter(({ status }) => status === 429);
    assert.equal(busy.length, 4);
    assert.equal(busy[0]?.body.code, 'actions_busy');
    assert.ok(answers.every(({ status }) => status === 200 || status === 429));
    assert.equal((await run({ id }, key)).body.data.ret, 1, 'their places are free again');
  });
});
