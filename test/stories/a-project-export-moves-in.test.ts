import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { canary, secretCases } from '../support/clear-secrets.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

forEachSharedService((fixture) => {
  // biome-ignore lint/suspicious/noExplicitAny: reports are looked into.
  type Answer = any;
  const data = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const answer = await fixture.service.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const bring = async (workflows: Record<string, unknown>) => {
    const files = Object.fromEntries(
      Object.entries({ manifest: {}, ...workflows }).map(([name, value]) => [
        `${name}.json`,
        JSON.stringify(value),
      ]),
    );
    const { id } = await data('POST', '/v1/imports', { files, activate: true });
    return waitFor(async () => {
      const row = await data('GET', `/v1/imports/${id}`);
      return ['done', 'failed'].includes(row.state) && row;
    });
  };
  const named = (row: Answer, name: string) => row.report.workflows.find((one: Answer) => one.name === name);
  const post = async (url: string, body: unknown) => {
    const response = await fetch(url, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
    });
    return { status: response.status, body: await response.json() };
  };
  const respond = (body: string) => ({
    namespace: 'answer',
    code: `export default { async run({ steps, $ }) { await $.respond({ status: 200, body: ${body} }); } };`,
  });

  test('its blocks of control flow choose as they did', async () => {
    const returning = (namespace: string) => ({
      namespace,
      code: `export default { run() { return ${JSON.stringify(namespace)}; } };`,
    });
    const choiceOf = (least: number) => ({
      choice: {
        ...{ id: 'p_Choice1', name: 'Choice', triggers: [{ id: 'hi_Choice' }] },
        deployments: [
          {
            steps: [
              {
                ...{ namespace: 'size', type: 'if_else' },
                branches: [
                  {
                    slug: 'big',
                    condition: { left: '{{steps.trigger.event.body.n}}', operator: '>', right: least },
                    steps: [returning('large')],
                  },
                  { slug: 'else', steps: [returning('tiny')] },
                ],
              },
              respond('{ size: steps.size.$return_value }'),
            ],
          },
        ],
      },
    });
    const row = await bring(choiceOf(5));
    const choice = named(row, 'Choice');
    assert.deepEqual([choice.status, choice.outcome, choice.active], ['check', 'created', true]);
    for (const [n, size] of [
      [6, 'large'],
      [5, 'tiny'],
    ])
      assert.deepEqual(await post(choice.triggers[0].address, { n }), { status: 200, body: { size } });

    assert.equal(named(await bring(choiceOf(5)), 'Choice').outcome, 'unchanged');
    const { outcome, changes } = named(await bring(choiceOf(7)), 'Choice');
    assert.deepEqual([outcome, changes.length], ['updated', 1], JSON.stringify(changes));
    assert.match(JSON.stringify(changes), /steps\.size.*5.*7/);
  });

  test('secrets in clear stand nowhere but in secret variables, and requests stay the same', async () => {
    const props = {
      httpRequest: {
        ...{ method: 'POST', url: `https://api.example/?key=${canary.google}&page=2` },
        auth: { type: 'basic', username: canary.stripe, password: '' },
        headers: [{ name: 'X-Auth', value: canary.plain }],
        body: { mode: 'raw', raw: `{"text": "{{1 + 1}}", "token": "${canary.slack}"}` },
      },
      hook: `https://hooks.slack.com/services/${canary.hook}`,
    };
    const code =
      'export default { props: { httpRequest: { type: "http_request" }, hook: "string" }, async run({ $ }) { const { execute, ...request } = this.httpRequest; await $.respond({ status: 200, body: { request, hook: this.hook } }); } };';
    const row = await bring({
      call: {
        id: 'p_Call111',
        name: 'Call',
        triggers: [{ id: 'hi_Call111' }],
        steps: [{ namespace: 'call', code, props }],
      },
      // Their steps take any props.
      odd: {
        ...{ id: 'p_Odd1111', name: 'Odd', triggers: [] },
        steps: secretCases
          .filter(({ unsure }) => unsure === undefined)
          .map((one, at) => ({ namespace: `odd_${at}`, component_key: 'not-here-at-all', props: one.props })),
      },
    });
    assert.equal(row.state, 'done');
    const call = named(row, 'Call');
    const moved = row.report.variables.filter((one: Answer) => one.secret && one.workflows.includes('Call'));
    assert.deepEqual([moved.length, moved.every((one: Answer) => one.set)], [5, true]);
    const workflows = await Promise.all(
      row.report.workflows.map((one: Answer) => data('GET', `/v1/workflows/${one.workflow_id}`)),
    );
    const everything = [row, workflows, await data('GET', '/v1/imports'), await data('GET', '/v1/variables')];
    const texts = [JSON.stringify(everything), await fixture.log()];
    if (fixture.dialect === 'sqlite')
      for (const entry of await readdir(fixture.dataFolder, { withFileTypes: true }))
        if (entry.isFile()) texts.push(await readFile(`${fixture.dataFolder}/${entry.name}`, 'latin1'));
    const secrets = secretCases.flatMap((one) => (one.unsure === undefined ? one.secrets : []));
    for (const text of texts)
      for (const secret of [...secrets, ...Object.values(canary)]) assert.ok(!text.includes(secret), secret);

    const { body } = await post(call.triggers[0].address, {});
    assert.deepEqual(body, {
      request: {
        ...props.httpRequest,
        body: { mode: 'raw', raw: `{"text": "2", "token": "${canary.slack}"}` },
      },
      hook: props.hook,
    });
  });
});
