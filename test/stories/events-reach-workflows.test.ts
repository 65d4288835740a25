import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** A code cell with this body, in which `event` is what triggered the workflow. */
const cell = (namespace: string, body: string) => ({
  namespace,
  code: `export default defineComponent({ async run({ steps, $ }) { const event = steps.trigger.event; ${body} } });`,
});
const onSource = (sourceId: string) => [{ type: 'source', props: { source_id: sourceId } }];

async function subscribe(service: ServiceClient, emitterId: string, listenerId: string, eventName?: string) {
  const answer = await service.api('POST', '/v1/subscriptions', {
    emitter_id: emitterId,
    listener_id: listenerId,
    ...(eventName === undefined ? {} : { event_name: eventName }),
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
}

async function rowsOf(service: ServiceClient, path: string) {
  const answer = await service.api('GET', path);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data;
}

const delivered = (receiver: HttpReceiver) => receiver.requests.map((request) => request.json());

forEachSharedService((fixture) => {
  test('what a source emits runs the workflow that it triggers; what that emits reaches a webhook, and its readers', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const workflow = await service.createWorkflow({
      steps: [
        cell('double', 'return { twice: event.n * 2, by: steps.trigger.context.emitter_id };'),
        cell(
          'send',
          `$.send.emit({ n: steps.double.$return_value.twice });
           $.send.emit(steps.trigger.context.source_type, 'kinds');`,
        ),
      ],
      triggers: onSource(source.id),
    });
    await createListeningWebhook(service, { url: receiver.url, emitterId: workflow.id });
    const stream = await EventStream.open(
      `${service.url}/workflows/${workflow.id}/sse`,
      undefined,
      service.key,
    );
    await source.emit([{ n: 21 }]);
    await receiver.waitForRequest(1);
    assert.deepEqual(delivered(receiver), [{ n: 42 }]);
    assert.equal(receiver.requests[0]?.headers['x-pd-emitter-id'], workflow.id);
    assert.deepEqual((await stream.message(1)).data.event, { n: 42 });
    stream.close();

    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.emitter_id, source.id);
    const path = `/v1/workflows/${workflow.id}`;
    const [summary, ...others] = await rowsOf(service, `${path}/event_summaries`);
    assert.deepEqual(others, []);
    assert.deepEqual(summary.event, { raw_event: { n: 42 } });
    assert.equal(summary.metadata.emitter_id, workflow.id);
    assert.equal(summary.metadata.name, '');
    assert.equal(summary.id, stream.messages[0]?.id);
    const [kind] = await rowsOf(service, `${path}/event_summaries?expand=event&event_name=kinds`);
    assert.deepEqual(kind.event, { raw_event: 'COMPONENT' });
    assert.equal(kind.metadata.name, 'kinds');
    assert.deepEqual(
      (await rowsOf(service, `${path}/events?n=5`)).map((row: { e: unknown }) => row.e),
      [{ n: 42 }],
    );

    const deleted = await service.api('DELETE', `${path}/events`);
    assert.equal(deleted.status, 202);
    await waitFor(async () => (await rowsOf(service, `${path}/event_summaries`)).length === 0, {
      what: 'the events to be gone',
    });
  });

  test('an error of a workflow is an event with what led to it, read and delivered', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const workflow = await service.createWorkflow({
      steps: [cell('fails', `throw new TypeError('no ' + event.what);`)],
      triggers: onSource(source.id),
    });
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: workflow.id });
    await subscribe(service, workflow.id, webhook.id, '$errors');
    await source.emit([{ what: 'luck' }]);
    await receiver.waitForRequest(1);
    const path = `/v1/workflows/${workflow.id}/$errors/event_summaries`;
    const [row, ...others] = await rowsOf(service, `${path}?expand=event`);
    assert.deepEqual(others, []);
    for (const encoded of [path.replace('$', '%24'), `${path.replace('$', '%24')}/`])
      assert.deepEqual(await rowsOf(service, `${encoded}?expand=event`), [row]);
    assert.deepEqual(row.event, receiver.requests[0]?.json());
    assert.deepEqual(row.event.original_event, { what: 'luck' });
    assert.equal(row.event.original_context.workflow_id, workflow.id);
    assert.equal(row.event.original_context.source_type, 'COMPONENT');
    assert.equal(row.event.original_context.verified, false);
    assert.equal(row.event.error.code, 'TypeError');
    assert.equal(row.event.error.msg, 'no luck');
    assert.equal(row.event.error.cellId, workflow.steps[0].id);
    assert.match(row.event.error.stack, /no luck/);
    assert.ok(!Number.isNaN(Date.parse(row.event.error.ts)));
    assert.equal(row.metadata.name, '$errors');
    assert.deepEqual(row.event.metadata, {
      emitter_id: workflow.id,
      emit_id: row.metadata.emit_id,
      name: '$errors',
    });
    assert.deepEqual(await rowsOf(service, `/v1/workflows/${workflow.id}/event_summaries`), []);
  });

  test('workflows listen to workflows, by id and by p_*, and to nothing once they are deleted', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const first = await service.createWorkflow({
      steps: [cell('send', `$.send.emit({ from: 'first', saw: event }, 'chain');`)],
      triggers: onSource(source.id),
    });
    const second = await service.createWorkflow({
      steps: [
        cell('send', `$.send.emit({ from: 'second', saw: event, by: steps.trigger.context.source_type });`),
      ],
    });
    await createListeningWebhook(service, { url: receiver.url, emitterId: second.id });
    const put = await service.api('PUT', `/v1/sources/${second.id}/listen/${first.id}?event_name=chain`);
    assert.equal(put.status, 200, JSON.stringify(put.body));
    await source.emit([1]);
    await receiver.waitForRequest(1);
    assert.deepEqual(delivered(receiver), [
      { from: 'second', saw: { from: 'first', saw: 1 }, by: 'WORKFLOW' },
    ]);
    const removed = await service.api('DELETE', `/v1/workflows/${second.id}`);
    assert.equal(removed.status, 204, JSON.stringify(removed.body));
    const subscriptions = await rowsOf(service, '/v1/users/me/subscriptions');
    const ends = subscriptions.flatMap((row: { emitter_id: string; listener_id: string }) => [
      row.emitter_id,
      row.listener_id,
    ]);
    assert.ok(!ends.includes(second.id));
    for (const path of ['event_summaries', '$errors/event_summaries', 'events', 'replays'])
      assert.equal((await service.api('GET', `/v1/workflows/${second.id}/${path}`)).status, 404, path);
  });

  test('a workflow with the trigger on_failure gets the failed runs of all others, and not its own', async () => {
    const { service } = fixture;
    const fails = (word: string) => cell('fail', `throw new RangeError('${word} ' + event.body?.n);`);
    const onRequest = async (word: string) =>
      service.createWorkflow({ steps: [fails(word)], triggers: [{ type: 'http' }] });
    const before = await onRequest('before');
    const handler = await service.createWorkflow({
      steps: [
        cell('seen', 'return { msg: event.error.msg, by: steps.trigger.context.emitter_id };'),
        cell('fail', `throw new Error('the handler fails too');`),
      ],
      triggers: [{ type: 'on_failure' }],
    });
    assert.match(handler.triggers[0].id, /^fi_/);
    const after = await onRequest('after');
    for (const { triggers } of [before, after])
      await fetch(triggers[0].endpoint_url, { method: 'POST', body: '{"n":1}' });
    const runs = await waitFor(
      async () => {
        const found = await service.runs(handler.id);
        const ended = found.every((run: { state: string }) => run.state === 'failed');
        return found.length >= 2 && ended && found;
      },
      { what: 'two failed runs of the handler' },
    );
    assert.equal(runs.length, 2, 'its own failures do not come to it');
    const results = [];
    for (const { id } of runs) results.push((await service.runDetail(id)).steps[0].exports.$return_value);
    assert.deepEqual(
      results.sort((a, b) => (a.msg < b.msg ? -1 : 1)),
      [
        { msg: 'after undefined', by: after.id },
        { msg: 'before undefined', by: before.id },
      ],
    );
    const own = await rowsOf(service, `/v1/workflows/${handler.id}/$errors/event_summaries`);
    assert.equal(own.length, 2, 'its failures are on record');
    const listeners = await rowsOf(service, '/v1/users/me/subscriptions');
    const isOfHandler = (row: { listener_id: string }) => row.listener_id === handler.id;
    assert.deepEqual(
      listeners
        .filter(isOfHandler)
        .map((row: { emitter_id: string; event_name: string }) => [row.emitter_id, row.event_name]),
      [['p_*', '$errors']],
    );
    const twice = await service.api('POST', `/v1/workflows/${handler.id}/deployments`, {
      triggers: [{ type: 'on_failure' }, { type: 'on_failure' }],
    });
    assert.match(twice.body.error, /^triggers\[1\]\.type: a workflow has one trigger of type on_failure/);
    const none = await service.api('POST', `/v1/workflows/${handler.id}/deployments`, { triggers: [] });
    assert.equal(none.status, 200, JSON.stringify(none.body));
    assert.ok(!(await rowsOf(service, '/v1/users/me/subscriptions')).some(isOfHandler));
  });

  test('workflows with the trigger on_failure that fail do not run each other in a circle', async () => {
    const { service } = fixture;
    const fails = (triggers: object[]) =>
      service.createWorkflow({ steps: [cell('fail', `throw new Error('no');`)], triggers });
    const handlers = [await fails([{ type: 'on_failure' }]), await fails([{ type: 'on_failure' }])];
    const failing = await fails([{ type: 'http' }]);
    await fetch(failing.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
    for (const { id } of handlers) {
      const dropped = await waitFor(
        async () => {
          const listeners = await rowsOf(service, '/v1/users/me/subscriptions');
          const own = listeners.find((row: { listener_id: string }) => row.listener_id === id);
          const all = await rowsOf(service, `/v1/subscriptions/${own?.id}/deliveries`);
          const found = all.filter(({ state }: { state: string }) => state === 'dropped');
          return found.length > 0 && found;
        },
        { what: 'the end of the circle' },
      );
      assert.deepEqual(
        dropped.map(({ reason }: { reason: string }) => reason),
        ['failure_loop'],
      );
      // The circle ends by a later failure of the other one than the one that this is run for, which may take longer.
      const runs = await waitFor(
        async () => {
          const found = await service.runs(id);
          return found.length >= 2 && found;
        },
        { what: 'the runs for both failures' },
      );
      const emitters = [];
      for (const run of runs) emitters.push((await service.runDetail(run.id)).emitter_id);
      const [other] = handlers.filter((handler) => handler.id !== id);
      assert.deepEqual(emitters.sort(), [failing.id, other?.id].sort());
    }
  });

  test('a workflow with concurrency 1 takes its events one after another, in their order', async () => {
    const { service } = fixture;
    let [atOnce, atOnceMax] = [0, 0];
    await using receiver = await HttpReceiver.start({
      answer: async ({ body }) => {
        atOnce += 1;
        atOnceMax = Math.max(atOnceMax, atOnce);
        await new Promise((resolve) => setTimeout(resolve, Number(body) % 3 === 0 ? 60 : 5));
        atOnce -= 1;
        return {};
      },
    });
    const source = await createEmittingSource(service);
    const workflow = await service.createWorkflow({
      steps: [
        cell('slow', `await fetch('${receiver.url}', { method: 'POST', body: String(event) });`),
        cell('send', '$.send.emit(event);'),
      ],
      triggers: onSource(source.id),
      settings: { concurrency: 1, queue_size: 100 },
    });
    const values = Array.from({ length: 24 }, (_, n) => n);
    await source.emit(values.slice(0, 12));
    for (const value of values.slice(12)) await source.emit([value]);
    const emitted = await waitFor(
      async () => {
        const rows = await rowsOf(service, `/v1/workflows/${workflow.id}/events?n=100`);
        return rows.length === values.length ? rows : undefined;
      },
      { what: 'all runs to end' },
    );
    assert.deepEqual(emitted.map((row: { e: number }) => row.e).reverse(), values);
    assert.deepEqual(
      receiver.requests.map(({ body }) => Number(body)),
      values,
    );
    assert.equal(atOnceMax, 1);
  });

  test('an event that finds the queue full is dropped, and both the workflow and the delivery say so', async () => {
    const { service } = fixture;
    await using gate = await HttpReceiver.start();
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    gate.answerAlways(async () => {
      await opened;
      return {};
    });
    const source = await createEmittingSource(service);
    const workflow = await service.createWorkflow({
      steps: [cell('wait', `await fetch(${JSON.stringify(gate.url)}); $.send.emit(event);`)],
      triggers: onSource(source.id),
      // Time enough for a busy machine to fill the queue while the first run waits.
      settings: { concurrency: 1, queue_size: 2, timeout_seconds: 300 },
    });
    await source.emit([1]);
    await gate.waitForRequest(1);
    await source.emit([2, 3, 4]);
    const path = `/v1/workflows/${workflow.id}`;
    const [error] = await waitFor(
      async () => {
        const rows = await rowsOf(service, `${path}/$errors/event_summaries?expand=event`);
        return rows.length > 0 ? rows : undefined;
      },
      { what: 'the error event' },
    );
    assert.equal(error.event.error.code, 'Event Queue Full');
    assert.equal(error.event.original_event, 4);
    const [letter] = await waitFor(
      async () => {
        const rows = await rowsOf(service, '/v1/users/me/dead_letters');
        return rows.some((row: { listener_id: string }) => row.listener_id === workflow.id)
          ? rows.filter((row: { listener_id: string }) => row.listener_id === workflow.id)
          : undefined;
      },
      { what: 'the dead letter' },
    );
    assert.deepEqual([letter.state, letter.reason], ['dropped', 'queue_full']);
    assert.equal(letter.id, error.event.original_context.id);
    open();
    const untilRun = (count: number) =>
      waitFor(async () => (await rowsOf(service, `${path}/events?n=10`)).length === count, {
        what: `${count} of them to have run`,
      });
    await untilRun(3);
    const again = await service.api('POST', `/v1/deliveries/${letter.id}/redeliver`);
    assert.equal(again.status, 200, JSON.stringify(again.body));
    await untilRun(4);
  });

  test('what a source emitted before is sent to a workflow again, and what a workflow emitted to a webhook', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    await source.emit([1, 2]);
    await waitFor(async () => (await service.events(source.id)).length === 2, {
      what: 'both events',
    });
    const workflow = await service.createWorkflow({ steps: [cell('send', '$.send.emit({ saw: event });')] });
    const replay = await service.api('POST', `/v1/sources/${source.id}/replay?listener_id=${workflow.id}`);
    assert.equal(replay.status, 200, JSON.stringify(replay.body));
    await waitFor(async () => (await rowsOf(service, `/v1/workflows/${workflow.id}/events`)).length === 2, {
      what: 'both runs',
    });
    const webhook = (await service.api('POST', '/v1/webhooks', { url: receiver.url })).body.data;
    const path = `/v1/workflows/${workflow.id}`;
    const wrong = await service.api('POST', `/v1/sources/${workflow.id}/replay?listener_id=${webhook.id}`);
    assert.equal(wrong.status, 404);
    const again = await service.api('POST', `${path}/replay?listener_id=${webhook.id}`);
    assert.equal(again.status, 200, JSON.stringify(again.body));
    await receiver.waitForRequest(2);
    // The two runs, and so what they emitted, and the two deliveries may overtake each other.
    assert.deepEqual(new Set(delivered(receiver)), new Set([{ saw: 1 }, { saw: 2 }]));
    assert.deepEqual(
      (await rowsOf(service, `${path}/replays`)).map((row: { id: string }) => row.id),
      [again.body.data.id],
    );
  });
});
