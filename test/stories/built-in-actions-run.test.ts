/** The actions that are included, as a user finds them and puts them into workflows. What each of them does: components/<app>. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

forEachSharedService((fixture) => {
  const steps = (list: [namespace: string, component: string, props: object][]) =>
    list.map(([namespace, component, props]) => ({ namespace, component, props }));

  test('the search finds an action by words of its description, and says what it is', async () => {
    const { body } = await fixture.service.api(
      'GET',
      '/v1/components/search?query=delete%20request&app=http',
    );
    assert.ok(JSON.stringify(body).includes('http-delete-request'), JSON.stringify(body));
    const { body: one } = await fixture.service.api('GET', '/v1/components/registry/http-get-request');
    assert.match(one.data.description, /Example: /);
  });

  test('a workflow requests something and responds with it', async () => {
    await using web = await HttpReceiver.start({ answer: { body: { photos: ['a.png'] } } });
    const workflow = await fixture.service.createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: steps([
        [
          'get_photos',
          'http-custom-request',
          {
            httpRequest: {
              method: 'GET',
              url: `${web.url}/{{steps.trigger.event.query.album}}`,
              auth: { type: 'bearer', token: '{{"to" + "ken"}}' },
            },
          },
        ],
        [
          'return_http_response',
          'http-return-http-response',
          {
            resStatusCode: 202,
            resHeaders: { 'x-album': '{{steps.trigger.event.query.album}}' },
            resBody: '{{steps.get_photos.$return_value}}',
          },
        ],
      ]),
    });
    const response = await fetch(`${workflow.triggers[0].endpoint_url}?album=cats`);
    assert.deepEqual([response.status, response.headers.get('x-album')], [202, 'cats']);
    assert.deepEqual(await response.json(), { photos: ['a.png'] });
    const [request] = web.requests;
    assert.deepEqual([request?.url, request?.headers.authorization], ['/cats', 'Bearer token']);
  });

  test('a filter ends a run without an error, and lets another one continue', async () => {
    const workflow = await fixture.service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: steps([
        [
          'End_if_no_url_in_query',
          'filter-continue-based-on-condition',
          { initialValue: '{{steps.trigger.event.query.url}}', condition: 'TRUE' },
        ],
        [
          'end_if_small',
          'filter-end-based-on-condition',
          {
            initialValue: '{{steps.trigger.event.query.n}}',
            condition: 'LESS_THAN',
            secondValue: '10',
            messageOnEnd: 'too small',
          },
        ],
        ['seen', 'data_stores-increment-value', { key: 'seen-{{steps.trigger.event.query.url}}' }],
      ]),
    });
    const outcomes: unknown[] = [];
    for (const query of ['', '?url=a&n=9', '?url=a&n=10']) {
      await fetch(`${workflow.triggers[0].endpoint_url}${query}`);
      const runs = await waitFor(async () => {
        const list = await fixture.service.runs(workflow.id);
        return list.length === outcomes.length + 1 && list[0].state === 'succeeded' && list;
      });
      const detail = await fixture.service.runDetail(runs[0].id);
      outcomes.push(
        detail.steps.map((step: { exports: Record<string, unknown> }) => step.exports.$return_value),
      );
    }
    assert.deepEqual(outcomes, [
      ['Ended: the condition TRUE is not met'],
      ['Continued: the condition TRUE is met', 'too small'],
      ['Continued: the condition TRUE is met', 'Continued: the condition LESS_THAN is not met', 1],
    ]);
  });

  test('delays wait, and continue when they are over or resumed; a request resumes a suspended run', async () => {
    const workflow = await fixture.service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: steps([
        ['brief', 'delay-workflow-delay', { delayDurationValue: 1, delayDurationUnit: 'Milliseconds' }],
        ['past', 'delay-until', { until: '2020-01-01' }],
        ['long', 'delay-workflow-delay', { delayDurationValue: '{{2 + 1}}', delayDurationUnit: 'Days' }],
        ['approval', 'delay-suspend-workflow', {}],
        [
          'keep',
          'data_stores-add-update-record',
          { key: 'answer', value: '{{steps.approval.$resume_data.body.answer}}' },
        ],
      ]),
    });
    await fetch(workflow.triggers[0].endpoint_url);
    const resume = async (namespace: string, body: object) => {
      const url = await waitFor(async () => {
        const [run] = await fixture.service.runs(workflow.id);
        const detail = run && (await fixture.service.runDetail(run.id));
        const step = detail?.steps.find((one: { namespace: string }) => one.namespace === namespace);
        return step?.exports?.$return_value?.resume_url;
      });
      await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    };
    await resume('long', {});
    await resume('approval', { answer: 'yes' });
    const run = await fixture.service.runInState(workflow.id, 'succeeded');
    assert.equal(
      run.steps.find(({ namespace }: { namespace: string }) => namespace === 'past').exports.$return_value,
      null,
    );
    const ran = await fixture.service.api('POST', '/v1/actions/run', {
      id: 'data_stores-get-record-or-create',
      configured_props: { key: 'answer' },
    });
    assert.equal(ran.body.data.ret, 'yes');
    const alone = await fixture.service.api('POST', '/v1/actions/run', {
      id: 'delay-workflow-delay',
      configured_props: { delayDurationValue: 1, delayDurationUnit: 'Days' },
    });
    assert.match(JSON.stringify(alone.body.data.os), /can be used in steps of workflows only/);
  });

  test('a mail is sent with an account of SMTP, whose password is shown nowhere', async () => {
    await using server = await startPlainMailServer('open sesame');
    const { service } = fixture;
    const account = await service.api('POST', '/v1/accounts', {
      app: 'smtp',
      credentials: {
        host: 'localhost',
        port: String(server.port),
        security: 'none',
        username: 'ada',
        password: 'open sesame',
      },
    });
    assert.equal(account.status, 200, JSON.stringify(account.body));
    const mail = { from: 'shop@example.com', to: ['ada@example.com'], subject: 'Hi', text: 'Hello' };
    const withAccount = { smtp: { authProvisionId: account.body.data.id } };
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: steps([
        ['mail', 'smtp-send-email', { ...mail, ...withAccount, to: '{{["eve@example.com"]}}' }],
        ['wrong', 'smtp-send-email', { ...mail, ...withAccount, password: 'guessed' }],
      ]),
    });
    await fetch(workflow.triggers[0].endpoint_url);
    const run = await service.runInState(workflow.id, 'failed');
    assert.deepEqual(run.steps[0].exports.$return_value.accepted, ['eve@example.com']);
    assert.deepEqual(server.recipients, ['eve@example.com']);
    assert.match(JSON.stringify(run.steps[1].error), /535/);
    assert.doesNotMatch(JSON.stringify(run), /open sesame|guessed/);
  });
});

/** Takes mail without encryption from the user with this password. */
async function startPlainMailServer(password: string) {
  const recipients: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth: ({ username, password: given }, _session, done) =>
      given === password ? done(null, { user: username }) : done(new Error('535 wrong user or password')),
    onData: (stream, { envelope }, done) => {
      recipients.push(...envelope.rcptTo.map(({ address }) => address));
      stream.resume().on('end', () => done());
    },
  });
  // Clients that disconnect are no fault of the server.
  server.on('error', () => {});
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    recipients,
    port: (server.server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
