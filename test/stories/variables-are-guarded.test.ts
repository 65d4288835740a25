import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canary, findSecrets } from '../support/canary.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** What hostile code, callers and members try in order to read secret values, and values of others. */
forEachSharedService((fixture) => {
  const ok = async (by: ServiceClient, method: string, path: string, body?: unknown) => {
    const answer = await by.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const http = { triggers: [{ type: 'http' }] };
  const start = (by: ServiceClient, workflow: { triggers: { endpoint_url: string }[] }) =>
    fetch(by.url + new URL(workflow.triggers[0]?.endpoint_url ?? '').pathname, { method: 'POST' });
  const member = async (org: string, role: string) => {
    const user = await fixture.service.createUser(role);
    await ok(fixture.service, 'POST', `/v1/workspaces/${org}/members`, { user_id: user.id, role });
    return fixture.service.as(user);
  };

  test('code of another owner finds nothing, wherever it looks for an environment', async () => {
    const { service } = fixture;
    const secrets = { theirs: canary('theirs'), plain: canary('plain') };
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Guarded' })).id;
    const theirs = [
      { name: 'SECRET', value: secrets.theirs, secret: true },
      { name: 'PLAIN', value: secrets.plain },
    ];
    await ok(service, 'PUT', `/v1/variables?org_id=${org}`, { variables: theirs });
    const keeper = await service.createWorkflow({
      org_id: org,
      ...http,
      steps: [{ namespace: 'a', code: 'export default { run() { return process.env.PLAIN.length; } };' }],
    });
    await start(service, keeper);
    assert.equal(
      (await service.runInState(keeper.id, 'succeeded')).steps[0].exports.$return_value,
      secrets.plain.length,
    );

    const thief = service.as(await service.createUser('thief'));
    const stolen = await thief.createWorkflow({
      ...http,
      steps: [
        {
          namespace: 'look',
          props: { text: '{{JSON.stringify(Object.getOwnPropertyDescriptors(process.env))}}' },
          code: `import fs from 'node:fs';
import os from 'node:os';
import { env } from 'node:process';
export default { props: { text: 'string' }, run() {
  const tries = [() => this.text, () => ({ ...process.env }), () => ({ ...env }), () => Object.getPrototypeOf(process.env),
    () => process.report.getReport().environmentVariables, () => fs.readFileSync('/proc/self/environ', 'latin1'),
    () => fs.readFileSync('/proc/' + process.ppid + '/environ', 'latin1'), () => process.argv, () => process.execArgv,
    () => process.getBuiltinModule('child_process').execSync('env').toString(), () => os.userInfo()];
  return tries.map((attempt) => { try { return JSON.stringify(attempt()); } catch (error) { return 'refused: ' + error.message; } });
} };`,
        },
      ],
    });
    await start(thief, stolen);
    const found = (await thief.runInState(stolen.id, 'succeeded')).steps[0].exports.$return_value as string[];
    assert.ok(
      found.length === 11 && found.some((text) => text.includes('PIPEDREAM_WORKFLOW_ID')),
      String(found),
    );
    assert.deepEqual(findSecrets(found.join('\n'), secrets), []);
    assert.doesNotMatch(found.join('\n'), /"SECRET"|"PLAIN"/);
  });

  test('strangers, viewers and members of other workspaces get no value, whatever they name', async () => {
    const { service } = fixture;
    const secrets = { secret: canary('secret'), plain: canary('plain') };
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Guarded' })).id;
    const project = (await ok(service, 'POST', `/v1/workspaces/${org}/projects`, { name: 'Ours' })).id;
    for (const place of [`org_id=${org}`, `project_id=${project}`])
      await ok(service, 'PUT', `/v1/variables?${place}`, {
        variables: [
          { name: 'SECRET', value: secrets.secret, secret: true },
          { name: 'PLAIN', value: secrets.plain },
        ],
      });
    const stranger = service.as(await service.createUser('stranger'));
    const elsewhere = (await ok(stranger, 'POST', '/v1/workspaces', { name: 'Elsewhere' })).id;
    const viewer = await member(org, 'viewer');
    const places = [
      ...[`org_id=${org}`, `project_id=${project}`, `org_id=${org}&project_id=${project}`],
      ...[
        `org_id=${elsewhere}&project_id=${project}`,
        `workspace_id=${org}`,
        `project_id=${project}&project_id=x`,
      ],
      ...[
        `project_id=${project}%00`,
        `org_id=${org}%00`,
        'project_id=*',
        `org_id=${org}&include=value,sealed,id`,
      ],
    ];
    for (const place of places)
      for (const [method, path, body] of [
        ['GET', '/v1/variables', undefined],
        ['GET', '/v1/variables/SECRET', undefined],
        ['GET', '/v1/variables/PLAIN', undefined],
        ['GET', '/v1/variables/..%2fvariables', undefined],
        ['GET', '/v1/variable_audit', undefined],
        ['PUT', '/v1/variables/SECRET', { secret: false }],
        ['PUT', '/v1/variables/SECRET', { description: 'x' }],
        ['PUT', '/v1/variables', { variables: [{ name: 'SECRET', secret: false }] }],
        ['DELETE', '/v1/variables/PLAIN', undefined],
      ] as const)
        for (const by of [stranger, viewer]) {
          const answer = await by.api(method, `${path}?${place}`, body);
          const text = JSON.stringify(answer.body);
          assert.deepEqual(findSecrets(text, secrets), [], `${method} ${path}?${place}`);
          assert.ok(answer.status < 500, `${method} ${path}?${place}: ${answer.status}`);
          assert.ok(
            method === 'GET' ? true : answer.status >= 400,
            `${method} ${path}?${place}: ${answer.status}`,
          );
          // Of their own workspace they may ask; it has no such project.
          if (by === stranger && answer.body.data?.length !== 0)
            assert.ok(answer.status >= 400, `${method} ${path}?${place}: ${text}`);
        }
    // Also a member, who may change it, gets no secret value back.
    const writer = await member(org, 'member');
    for (const body of [
      { secret: true },
      { description: 'mine' },
      { value: 'another value', secret: false },
    ]) {
      const answer = await writer.api('PUT', `/v1/variables/SECRET?org_id=${org}`, body);
      assert.equal(answer.status, 200);
      assert.deepEqual(findSecrets(JSON.stringify(answer.body), { secret: secrets.secret }), []);
    }
  });

  test('what code does with a secret value shows it nowhere where people look', async () => {
    const { service } = fixture;
    const secrets = { secret: canary('secret') };
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Guarded' })).id;
    await ok(service, 'PUT', `/v1/variables/SECRET?org_id=${org}`, { value: secrets.secret, secret: true });
    const make = (code: string, props: object = {}) =>
      service.createWorkflow({ org_id: org, ...http, steps: [{ namespace: 'a', code, props }] });
    const throws = `const e = new Error(process.env.SECRET, { cause: new Error(process.env.SECRET) });
      e.name = process.env.SECRET; e.code = process.env.SECRET; throw e;`;
    const text = "props: { text: 'string' }";
    const called = await make('export default { run({ steps }) { return steps.trigger.event; } };');
    const failing = [
      await make(`export default { run() { ${throws} } };`),
      await make(
        `${throws} export default { run() {} };`.replace('throw e;', 'if (process.env.SECRET) throw e;'),
      ),
      await make(`export default { ${text}, run() {} };`, {
        text: '{{(() => { throw process.env.SECRET })()}}',
      }),
      await make(`export default { ${text}, run() {} };`, { text: '{{process.env.SECRET.nothing.at.all}}' }),
      await make(`export default { ${text}, run() { throw new Error(this.text) } };`, {
        text: 'x {{process.env.SECRET}}',
      }),
    ];
    const leaving = await make(
      `export default { async run({ $ }) {
        const secret = process.env.SECRET;
        console.table([{ secret }]); console.error(new Error(secret)); process.stdout.write(secret);
        $.export(secret, [...secret].map((c) => c).join('')); $.export('split', { [secret]: [secret, { secret }] });
        $.send.emit({ secret }, 'channel-' + secret);
        await $.flow.trigger('${called.id}', { secret, text: 'Bearer ' + secret });
        return Buffer.from('user:' + secret).toString('base64'); } };`,
    );
    for (const workflow of [...failing, leaving]) await start(service, workflow);
    for (const { id } of failing) await service.runInState(id, 'failed');
    await service.runInState(leaving.id, 'succeeded');
    const given = await service.runInState(called.id, 'succeeded');
    assert.match(JSON.stringify(given), /Bearer \[redacted\]/);
    const viewer = await member(org, 'viewer');
    const seen: string[] = [];
    const look = async (path: string) => seen.push(JSON.stringify((await viewer.api('GET', path)).body));
    for (const { id, deployment_id } of [...failing, leaving, called]) {
      for (const run of await viewer.runs(id)) await look(`/v1/runs/${run.id}`);
      for (const path of [
        '',
        '/runs',
        '/deployments',
        '/event_summaries?expand=event',
        '/$errors/event_summaries?expand=event',
        '/events',
      ])
        await look(`/v1/workflows/${id}${path}`);
      await look(`/v1/deployments/${deployment_id}`);
    }
    for (const path of ['overview', 'flow', 'workflows', 'event_summaries?expand=event'])
      await look(`/v1/workspaces/${org}/${path}`);
    await waitFor(() => seen.length > 50);
    assert.ok(
      seen.filter((answer) => answer.includes('[redacted]')).length > 10,
      'something tried to get out',
    );
    assert.deepEqual(findSecrets(seen.join('\n'), secrets), []);
  });
});
