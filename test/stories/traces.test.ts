import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService } from '../support/millrace.ts';
import { type ReceivedSpan, TraceReceiver } from '../support/trace-receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { endpointOf, setVariables } from '../support/workflow-stories.ts';

const traces = await TraceReceiver.start();
after(() => traces.close());

const apiKey = 'key-of-the-receiver';
const environment = {
  OTEL_EXPORTER_OTLP_ENDPOINT: `${traces.url}/`,
  OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${apiKey}, x-other=a%20b`,
  OTEL_SERVICE_NAME: 'millrace-under-test',
  MILLRACE_LOG_LEVEL: 'debug',
};

const cell = (namespace: string, body: string) => ({
  namespace,
  code: `export default defineComponent({ async run({ steps, $ }) { const event = steps.trigger.event; ${body} } });`,
});
const relaying = `export default {
  name: 'Relaying', props: { http: '$.interface.http' },
  run(request) { this.$emit(request.body); },
};`;

const traceIds = ['4bf92f3577b34da6a3ce929d0e0e4736', '4bf92f3577b34da6a3ce929d0e0e4737'];
const senderSpanId = '00f067aa0ba902b7';
const canary = 'payload-canary-5c1f';

forEachService(
  (fixture) => {
    const traceId = fixture.dialect === 'sqlite' ? traceIds[0] : traceIds[1];

    test('a request, the run that follows from it, its steps, what they call and what is delivered are one trace', async () => {
      const { service } = fixture;
      await using receiver = await HttpReceiver.start();
      const called = await service.createWorkflow({ steps: [cell('inner', 'return 1;')] });
      const source = (await service.api('POST', '/v1/sources', { component_code: relaying })).body.data;
      const workflow = await service.createWorkflow({
        steps: [
          cell('calls', `return $.flow.trigger('${called.id}', { n: 1 });`),
          cell('emits', '$.send.emit({ seen: event });'),
        ],
        triggers: [{ type: 'source', props: { source_id: source.id } }],
      });
      await createListeningWebhook(service, { url: receiver.url, emitterId: workflow.id });
      const answer = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          traceparent: `00-${traceId}-${senderSpanId}-01`,
        },
        body: JSON.stringify({ canary }),
      });
      assert.equal(answer.status, 200);
      const delivered = await receiver.waitForRequest(1);
      const names = (spans: ReceivedSpan[]) => spans.map(({ name }) => name).sort();
      const inTrace = () => traces.spans().filter((span) => span.traceId === traceId);
      const expected = [
        ...['POST /in/:key', 'delivery.attempt', 'delivery.attempt', 'source.run'],
        ...['workflow.run', 'workflow.run', 'workflow.step', 'workflow.step', 'workflow.step'],
      ].sort();
      await waitFor(() => inTrace().length >= expected.length, { what: 'the spans of the trace' });
      const spans = inTrace();
      assert.deepEqual(names(spans), expected);

      const byId = new Map(spans.map((span) => [span.spanId, span]));
      const path = (span: ReceivedSpan): string => {
        const parent = byId.get(span.parentSpanId ?? '');
        return parent === undefined ? `${span.parentSpanId} ${span.name}` : `${path(parent)} > ${span.name}`;
      };
      const toRun = `${senderSpanId} POST /in/:key > source.run > delivery.attempt > workflow.run`;
      assert.deepEqual(spans.map(path).sort(), [
        `${senderSpanId} POST /in/:key`,
        `${senderSpanId} POST /in/:key > source.run`,
        `${senderSpanId} POST /in/:key > source.run > delivery.attempt`,
        toRun,
        `${toRun} > delivery.attempt`,
        `${toRun} > workflow.step`,
        `${toRun} > workflow.step`,
        `${toRun} > workflow.step > workflow.run`,
        `${toRun} > workflow.step > workflow.run > workflow.step`,
      ]);
      const sent = spans.find(
        ({ attributes }) =>
          attributes['http.response.status_code'] === '200' &&
          attributes['millrace.delivery.id'] !== undefined,
      );
      assert.equal(delivered.headers.traceparent, `00-${traceId}-${sent?.spanId}-01`);

      const run = await service.runInState(workflow.id, 'succeeded');
      assert.equal(run.trace_id, traceId);
      const runSpan = spans.find(
        ({ attributes }) =>
          attributes['millrace.run.id'] === run.id && attributes['millrace.run.state'] !== undefined,
      );
      assert.equal(runSpan?.attributes['millrace.run.state'], 'succeeded');
      assert.equal(runSpan?.attributes['millrace.workflow.id'], workflow.id);
      assert.equal(runSpan?.resource['service.name'], 'millrace-under-test');
      const { headers } = traces.http.requests[0] ?? {};
      assert.equal(headers?.['x-api-key'], apiKey);
      assert.equal(headers?.['x-other'], 'a b');

      const lines = await waitFor(
        () => {
          const found = service.output.split('\n').filter((line) => line.includes(`"trace_id":"${traceId}"`));
          // The run that it has called ends earlier.
          return found.some((line) => line.includes(run.id) && line.includes('"run.ended"')) && found;
        },
        { what: 'lines of the log with the id of the trace' },
      );
      const ended = lines.find((line) => line.includes(run.id) && line.includes('"run.ended"')) ?? '{}';
      assert.equal((JSON.parse(ended) as { span_id: string }).span_id, runSpan?.spanId);
      assert.ok(!traces.text().includes(canary), 'no payload is in a span');
      assert.ok(!service.output.includes(apiKey), 'no header of the receiver is in the log');
    });

    test('a failed step is an error of its span and of the span of its run, without the secrets in it', async () => {
      const { service } = fixture;
      await setVariables(service, { TOKEN_OF_TRACES: 'secret-canary-91aa' }, true);
      const workflow = await service.createWorkflow({
        steps: [cell('fails', "throw new TypeError('no luck with ' + process.env.TOKEN_OF_TRACES);")],
        triggers: [{ type: 'http' }],
      });
      await fetch(endpointOf(workflow), { method: 'POST' });
      const run = await service.runInState(workflow.id, 'failed');
      const ofRun = (name: string) => (span: ReceivedSpan) =>
        span.name === name && span.attributes['millrace.run.id'] === run.id;
      const step = await traces.waitForSpan('the step', ofRun('workflow.step'));
      const whole = await traces.waitForSpan('the run', ofRun('workflow.run'));
      assert.equal(step.status.code, 2);
      assert.match(step.status.message ?? '', /^TypeError: no luck with /);
      assert.deepEqual(whole.status, step.status);
      assert.equal(step.parentSpanId, whole.spanId);
      assert.equal(run.trace_id, whole.traceId);
      assert.ok(!traces.text().includes('secret-canary-91aa'));
    });

    test('a run that waits over a kill of the service has one span, with all of its steps below it', async () => {
      const workflow = await fixture.service.createWorkflow({
        steps: [cell('waits', '$.flow.suspend(600_000);'), cell('after', 'return 2;')],
        triggers: [{ type: 'http' }],
      });
      await fetch(endpointOf(workflow), { method: 'POST' });
      const waiting = await fixture.service.runInState(workflow.id, 'waiting');
      const stepOf = (namespace: string) => (span: ReceivedSpan) =>
        span.attributes['millrace.run.id'] === waiting.id &&
        span.attributes['millrace.step.namespace'] === namespace;
      const before = await traces.waitForSpan('the first step', stepOf('waits'));
      const [{ resume_url: resumeUrl }] = waiting.waits;
      await fixture.restart('kill');
      const { pathname } = new URL(resumeUrl);
      const resumed = await fetch(`${fixture.service.url}${pathname}`, { method: 'POST' });
      assert.equal(resumed.status, 200, await resumed.text());
      await fixture.service.runInState(workflow.id, 'succeeded');
      const later = await traces.waitForSpan('the second step', stepOf('after'));
      const isWhole = (span: ReceivedSpan) =>
        span.name === 'workflow.run' && span.attributes['millrace.run.id'] === waiting.id;
      const whole = await traces.waitForSpan('the run', isWhole);
      assert.equal(traces.spans().filter(isWhole).length, 1);
      assert.equal(before.parentSpanId, whole.spanId);
      assert.equal(later.parentSpanId, whole.spanId);
      assert.equal(later.traceId, before.traceId);
      assert.ok(BigInt(whole.startTimeUnixNano) <= BigInt(before.startTimeUnixNano));
      assert.ok(BigInt(whole.endTimeUnixNano) >= BigInt(later.endTimeUnixNano));
    });

    test('requests that say they are not recorded have no span, and pass that on', async () => {
      const { service } = fixture;
      await using receiver = await HttpReceiver.start();
      const source = (await service.api('POST', '/v1/sources', { component_code: relaying })).body.data;
      await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
      const unrecorded = 'aaaabbbbccccddddeeeeffff00001111';
      await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', traceparent: `00-${unrecorded}-${senderSpanId}-00` },
        body: '{}',
      });
      const { headers } = await receiver.waitForRequest(1);
      assert.match(String(headers.traceparent), new RegExp(`^00-${unrecorded}-[0-9a-f]{16}-00$`));
      assert.ok(traces.spans().every((span) => span.traceId !== unrecorded));
    });

    test('a receiver that hangs holds up no request and no stop; when it answers again, spans come again', async () => {
      const hung = Promise.withResolvers<undefined>();
      traces.http.answerAlways(() => hung.promise);
      const before = traces.http.requests.length;
      const { service } = fixture;
      const workflow = await service.createWorkflow({
        steps: [cell('one', 'return 1;')],
        triggers: [{ type: 'http' }],
      });
      await fetch(endpointOf(workflow), { method: 'POST' });
      await service.runInState(workflow.id, 'succeeded');
      await traces.http.waitForRequest(before + 1);
      await fetch(endpointOf(workflow), { method: 'POST' });
      await waitFor(async () => (await service.runs(workflow.id)).length === 2, { what: 'a second run' });
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      assert.match(metrics, /^millrace_trace_spans_waiting [1-9]\d*$/m);
      assert.equal(await service.stop(), 0);
      traces.http.answerAlways({ body: {} });
      hung.resolve(undefined);
      await fixture.restart();
      await fetch(`${fixture.service.url}${new URL(endpointOf(workflow)).pathname}`, { method: 'POST' });
      const last = await waitFor(
        async () =>
          (await fixture.service.runs(workflow.id))[2] && (await fixture.service.runs(workflow.id))[0],
        { what: 'a third run' },
      );
      await traces.waitForSpan(
        'the run after it',
        ({ attributes }) => attributes['millrace.run.id'] === last.id,
      );
    });
  },
  { environment, inTurns: true },
);
