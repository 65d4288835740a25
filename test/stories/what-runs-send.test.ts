import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

function cell(body: string): string {
  return `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;
}

const start = (url: string, body: unknown) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** Reads the stream of what a workflow sends, as a page does: without a key. */
async function read(service: ServiceClient, workflowId: string, lastEventId?: string): Promise<EventStream> {
  return EventStream.open(`${service.url}/pipelines/${workflowId}/sse`, lastEventId, service.key);
}

forEachSharedService((fixture) => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
  });
  after(() => receiver.close());

  test('what steps send leaves when the run has ended, and its record has the outcome', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'send',
          code: cell(`
            const { url } = steps.trigger.event.body;
            $.send.http({ method: 'POST', url: url + '/taken', data: { from: 'a step' } });
            $.send.http({ method: 'POST', url: url + '/refused' });
            $.send.email({ subject: 'Hello', text: 'World' });
            $.send.s3({ bucket: 'my-bucket', prefix: 'p', payload: { n: 1 } });`),
        },
        {
          namespace: 'later',
          code: cell(`
            const answer = await fetch(steps.trigger.event.body.url + '/step');
            return answer.status;`),
        },
      ],
      triggers: [{ type: 'http' }],
    });
    receiver.answerAlways((request) => ({
      status: request.url === '/refused' ? 418 : 200,
      body: 'so be it',
    }));
    await start(workflow.triggers[0].endpoint_url, { url: receiver.url });
    await receiver.waitForRequest(3);
    assert.equal(receiver.requests[0]?.url, '/step', 'the steps come first');
    const taken = receiver.requests.find(({ url }) => url === '/taken');
    assert.deepEqual(taken?.json(), { from: 'a step' });
    const [{ id }] = (await service.api('GET', `/v1/workflows/${workflow.id}/runs`)).body.data;
    const sends = await waitFor(async () => {
      const run = (await service.api('GET', `/v1/runs/${id}`)).body.data;
      return run.sends.every((send: { state: string }) => send.state !== 'queued') && run.sends;
    });
    assert.deepEqual(
      sends.map((send: { kind: string; state: string }) => [send.kind, send.state]),
      [
        ['http', 'sent'],
        ['http', 'failed'],
        ['email', 'failed'],
        ['s3', 'failed'],
      ],
    );
    assert.deepEqual([sends[1].result.status, sends[1].result.body], [418, 'so be it']);
    assert.match(sends[2].result.error, /MILLRACE_SMTP_URL/);
    assert.match(sends[3].result.error, /MILLRACE_S3_ACCESS_KEY/);
    const [listed] = (await service.api('GET', `/v1/workflows/${workflow.id}/runs`)).body.data;
    assert.deepEqual([listed.state, listed.failed_sends], ['succeeded', 3]);
    assert.equal((await service.api('GET', `/v1/runs/${id}`)).body.data.failed_sends, 3);
    const { health } = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data;
    assert.deepEqual([health.state, health.failures], ['failing', 3]);
    assert.match(health.reason, /^a run ended, but what it sends failed: (?:http|email|s3): /);
  });

  test('a workflow whose only send fails is at no time healthy', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'send', code: cell(`$.send.email({ subject: 'Hello', text: 'World' });`) }],
      triggers: [{ type: 'http' }],
    });
    const health = async () => (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data.health;
    for (const failures of [1, 2]) {
      await start(workflow.triggers[0].endpoint_url, {});
      await waitFor(async () => (await health()).failures === failures);
      assert.match((await health()).reason, /email: no mail server is set/);
    }
  });

  test('$.send.sse reaches every page that reads the stream of the workflow: what is kept first, then live', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'send',
          code: cell(`
            const { n } = steps.trigger.event.body;
            for (const event of [null, { channel: 'odd', payload: 'forged' }]) $.send.emit(event, '$sse');
            $.send.sse({ channel: n % 2 === 0 ? 'even' : 'odd', payload: { n, text: 'a\\nb' } });`),
        },
      ],
      triggers: [{ type: 'http' }],
    });
    const url = workflow.triggers[0].endpoint_url;
    const stream = await read(service, workflow.id);
    for (const n of [1, 2]) {
      await start(url, { n });
      const message = await stream.message(n);
      assert.equal(message.event, n === 2 ? 'even' : 'odd');
      assert.deepEqual(message.data, { n, text: 'a\nb' });
    }
    const late = await read(service, workflow.id);
    await late.message(2);
    assert.deepEqual(late.messages, stream.messages);
    const resumed = await read(service, workflow.id, stream.messages[0]?.id);
    await start(url, { n: 3 });
    await resumed.message(2);
    assert.deepEqual(
      resumed.messages.map(({ data }) => data.n),
      [2, 3],
    );
    assert.deepEqual((await late.message(3)).data.n, 3);
    for (const each of [stream, late, resumed]) each.close();

    const plain = await fetch(`${service.url}/pipelines/${workflow.id}/sse`);
    assert.equal(plain.headers.get('access-control-allow-origin'), '*');
    const beginning = await plain.body?.getReader().read();
    assert.match(Buffer.from(beginning?.value ?? []).toString(), /^:keepalive\n\n/);
    assert.equal((await fetch(`${service.url}/pipelines/p_nobody/sse`)).status, 404);
    const versioned = await EventStream.open(
      `${service.url}/v1/pipelines/${workflow.id}/sse`,
      undefined,
      service.key,
    );
    assert.deepEqual((await versioned.message(3)).data.n, 3);
    versioned.close();
  });

  test('a new reader gets the last hundred, and no gap before them', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'send',
          code: cell("for (let n = 1; n <= 60; n += 1) $.send.sse({ channel: 'c', payload: n });"),
        },
      ],
      triggers: [{ type: 'http' }],
    });
    const first = await read(service, workflow.id);
    for (const messages of [60, 120]) {
      await start(workflow.triggers[0].endpoint_url, {});
      await first.message(messages);
    }
    const late = await read(service, workflow.id);
    await late.message(100);
    assert.deepEqual(
      late.messages.map(({ id }) => id),
      first.messages.slice(20).map(({ id }) => id),
    );
    assert.ok(late.messages.every(({ event }) => event === 'c'));
    first.close();
    late.close();
  });
});
