import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HttpReceiver, type ReceivedRequest } from '../../test/support/http-receiver.ts';
import { waitFor, within } from '../../test/support/wait-for.ts';
import { Millrace, MillraceConnectionError, type StreamMessage, type StreamOptions } from './millrace.ts';

const event = (id: string, n: number) =>
  `id: ${id}\ndata: ${JSON.stringify({ id, event: n, metadata: {} })}\n\n`;
const end = (reason: string) => `event: end\ndata: ${JSON.stringify({ reason })}\n\n`;

type Script = (response: ServerResponse) => void;

/** A connection that sends this, and is then ended, broken off, or left open. */
const tells =
  (text: string, then: 'end' | 'break' | 'stay'): Script =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`:sse-handshake\n\n${text}`, () => {
      if (then === 'end') response.end();
      if (then === 'break') response.destroy();
    });
  };
const answers =
  (status: number, code: string): Script =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: code, code, details: {} }));
  };

describe('a stream', () => {
  let server: HttpReceiver;
  let scripts: Script[] = [];
  /** Id of the newest stored event; undefined: there is none. */
  let newest: string | undefined;
  before(async () => {
    server = await HttpReceiver.start();
  });
  after(() => server.close());
  beforeEach(() => {
    server.requests.length = 0;
    newest = undefined;
    server.answerAlways(({ url }, response) => {
      if (url.includes('event_summaries'))
        return { body: { page_info: { count: 0 }, data: newest === undefined ? [] : [{ id: newest }] } };
      (scripts.shift() ?? tells(end('the emitter was removed'), 'end'))(response);
      return undefined;
    });
  });

  const connections = () => server.requests.filter(({ url }) => url.includes('/sse'));
  const resumedFrom = () => connections().map(({ headers }: ReceivedRequest) => headers['last-event-id']);
  const streamOf = (
    options: StreamOptions = {},
    what: 'source' | 'workspace' = 'source',
    timeoutMs = 10_000,
  ) => {
    const { events } = new Millrace({ url: server.url, apiKey: 'key', retriesMax: 0, timeoutMs });
    return what === 'source'
      ? events.streamOfSource<number>('dc_1', {}, options)
      : events.streamOfWorkspace<number>('o_1', {}, options);
  };
  const short = (message: StreamMessage<{ event: number }>) =>
    message.type === 'event' ? message.data.event : `gap after ${message.after} of ${message.emitterId}`;

  test('resumes behind the last event, however its connection ended', async () => {
    newest = '1-0';
    scripts = [
      tells(event('2-0', 2), 'end'),
      tells(event('3-0', 3), 'break'),
      answers(503, 'overloaded'),
      tells(event('4-0', 4) + end('the service stops'), 'end'),
      tells(event('5-0', 5).slice(0, -1), 'break'),
      tells(event('5-0', 5) + end('the emitter was removed'), 'end'),
    ];
    const waits: number[] = [];
    const reasons: (string | undefined)[] = [];
    let connected = 0;
    const messages = await Array.fromAsync(
      streamOf({
        onConnect: () => {
          connected += 1;
        },
        onReconnect: ({ waitMs, endReason }) => {
          waits.push(waitMs);
          reasons.push(endReason);
        },
      }),
    );
    assert.equal(connected, 5, 'the one that was refused did not stand');
    assert.deepEqual(reasons, [undefined, undefined, undefined, 'the service stops', undefined]);
    assert.deepEqual(messages.map(short), [2, 3, 4, 5]);
    assert.deepEqual(messages.at(-1)?.lastEventId, '5-0');
    assert.deepEqual(resumedFrom(), ['1-0', '2-0', '3-0', '3-0', '4-0', '4-0']);
    assert.equal(waits.length, 5);
    assert.ok(
      waits.every((ms) => ms >= 250 && ms <= 1000),
      `what works in between is waited for shortly: ${waits}`,
    );
  });

  test('begins at the given place, or at the newest event there is; where there is none, it resumes before every event', async () => {
    await Array.fromAsync(streamOf({ lastEventId: '7-0' }));
    newest = '9-0';
    await Array.fromAsync(streamOf());
    newest = undefined;
    scripts = [tells('', 'break')];
    await Array.fromAsync(streamOf());
    assert.deepEqual(resumedFrom(), ['7-0', '9-0', undefined, '0-0']);
  });

  test('reports gaps, and one of its own where there is no place to resume from', async () => {
    const gap = (fields: object) =>
      `event: gap\ndata: ${JSON.stringify({ reason: 'pruned', ...fields })}\n\n`;
    scripts = [
      tells('', 'end'),
      tells(
        gap({ after: '1-0', emitter_id: 'dc_1' }) + event('mark', 1) + event('mark', 1).replace(/id.*\n/, ''),
        'end',
      ),
      tells(`event: unheard-of\ndata: x\n\n${end('the emitter was removed')}`, 'end'),
    ];
    const messages = await Array.fromAsync(streamOf({}, 'workspace'));
    assert.deepEqual(messages.map(short), [
      'gap after undefined of undefined',
      'gap after 1-0 of dc_1',
      1,
      1,
    ]);
    assert.deepEqual(
      messages.map(({ lastEventId }) => lastEventId),
      [undefined, undefined, 'mark', 'mark'],
    );
    assert.deepEqual(resumedFrom(), [undefined, undefined, 'mark'], 'a mark counts until the next one');
  });

  test('throws when it is refused, and not before it was tried often enough when it cannot be had', async () => {
    for (const [status, code] of [
      [401, 'unauthorized'],
      [404, 'not_found'],
    ] as const) {
      scripts = [answers(status, code)];
      await assert.rejects(Array.fromAsync(streamOf({ lastEventId: '1-0' })), { code, status });
    }
    scripts = [answers(503, 'overloaded')];
    const giveUp = ({ error }: { error: Error | undefined }) => {
      throw error;
    };
    await assert.rejects(Array.fromAsync(streamOf({ onReconnect: giveUp })), { code: 'overloaded' });
    scripts = [tells('', 'break'), tells('', 'break'), tells('', 'break')];
    server.requests.length = 0;
    const failing = Array.fromAsync(streamOf({ lastEventId: '1-0', failuresMax: 2 }));
    await assert.rejects(failing, (error) => {
      assert.ok(error instanceof MillraceConnectionError);
      assert.match(error.message, /3 attempts failed in a row/);
      return true;
    });
    assert.equal(connections().length, 3);
  });

  test('gives up a connection on which nothing comes, not even a sign of life', async () => {
    scripts = [
      tells(event('2-0', 2), 'stay'),
      tells(event('3-0', 3) + end('the emitter was removed'), 'end'),
    ];
    const messages = await Array.fromAsync(streamOf({ lastEventId: '1-0', idleTimeoutMs: 50 }));
    assert.deepEqual(messages.map(short), [2, 3]);
    assert.deepEqual(resumedFrom(), ['1-0', '2-0']);
  });

  test('gives up a connection that is not answered, but none for having lasted', async () => {
    scripts = [() => undefined, tells(event('2-0', 2), 'stay')];
    const stop = new AbortController();
    const messages: unknown[] = [];
    const reading = (async () => {
      const stream = streamOf(
        { lastEventId: '1-0', signal: stop.signal, idleTimeoutMs: 10_000 },
        'source',
        100,
      );
      for await (const message of stream) messages.push(short(message));
    })();
    await waitFor(() => messages.length === 1);
    const openMs = performance.now();
    await waitFor(() => performance.now() - openMs > 300, { what: 'three times the limit to pass' });
    assert.equal(connections().length, 2);
    stop.abort();
    await within(reading, 2_000, 'a stream that waits for a message to end');
  });

  test('ends when the loop is left and when the signal says so, and closes its connection', async () => {
    let closed = 0;
    const staying: Script = (response) => {
      response.on('close', () => {
        closed += 1;
      });
      tells(event('2-0', 2), 'stay')(response);
    };
    scripts = [staying, staying];
    for await (const message of streamOf({ lastEventId: '1-0' })) if (short(message) === 2) break;
    await waitFor(() => closed === 1);
    const stop = new AbortController();
    for await (const message of streamOf({ lastEventId: '1-0', signal: stop.signal })) {
      assert.equal(short(message), 2);
      stop.abort();
    }
    await waitFor(() => closed === 2);
    scripts = [answers(503, 'overloaded')];
    const waiting = new AbortController();
    const options = { lastEventId: '1-0', signal: waiting.signal, onReconnect: () => waiting.abort() };
    assert.deepEqual(await Array.fromAsync(streamOf(options)), [], 'also while it waits');
    assert.deepEqual(await Array.fromAsync(streamOf(options)), [], 'and before it begins');
    assert.equal(connections().length, 3);
  });
});
