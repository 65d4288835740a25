import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HttpReceiver } from '../test/support/http-receiver.ts';
import { Api, pathOf } from './api.ts';
import { CliError } from './exit-codes.ts';
import { followStream } from './follow-stream.ts';

const event = (id: string) => `id: ${id}\ndata: ${JSON.stringify({ id })}\n\n`;
const gap = `event: gap\ndata: ${JSON.stringify({ reason: 'pruned' })}\n\n`;
const end = (reason: string) => `event: end\ndata: ${JSON.stringify({ reason })}\n\n`;

describe('the API as commands use it', () => {
  let server: HttpReceiver;
  before(async () => {
    server = await HttpReceiver.start();
  });
  after(() => server.close());
  beforeEach(() => {
    server.requests.length = 0;
  });
  const apiOf = (signal = new AbortController().signal) =>
    new Api({ url: server.url, apiKey: 'key', signal });
  async function refusalOf(asking: Promise<unknown>): Promise<CliError> {
    const error = await asking.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof CliError, String(error));
    return error;
  }

  test('reports immediately what was refused, with its exit code and what to do', async () => {
    server.answerOnce(
      {
        status: 429,
        headers: { 'retry-after': '5' },
        body: { error: 'slower', code: 'actions_busy', details: { most: 1 } },
      },
      { status: 403, body: { error: 'no', code: 'forbidden', details: {} } },
      { status: 302, headers: { location: 'https://elsewhere.example/' } },
      { status: 502, body: '<html>' },
      { body: '"a text"' },
    );
    const told: unknown[] = [];
    for (let times = 0; times < 5; times += 1) {
      const { reason, message, code, hint } = await refusalOf(apiOf().data('GET', '/v1/users/me'));
      told.push([reason, message.replace(server.url, 'URL'), code, hint?.slice(0, 20)]);
    }
    assert.deepEqual(told, [
      ['busy', 'slower', 'actions_busy', 'Try again in 5 s.'],
      ['notAllowed', 'no', 'forbidden', '`millrace whoami` sa'],
      ['failed', 'URL redirects to https://elsewhere.example/', undefined, 'Log in with the addr'],
      ['failed', 'URL answered 502, but not as a Millrace does', undefined, 'Check the address: i'],
      ['failed', 'URL answered 200, but not as a Millrace does', undefined, 'Check the address: i'],
    ]);
    assert.equal(server.requests.length, 5, 'nothing is tried again behind the back of who waits');
  });

  test('is interrupted by Ctrl-C, and says so', async () => {
    const interrupted = new AbortController();
    server.answerOnce(() => {
      interrupted.abort();
      return undefined;
    });
    const { reason } = await refusalOf(apiOf(interrupted.signal).data('GET', '/v1/users/me'));
    assert.equal(reason, 'interrupted');
  });

  test('an id that would make another path of it is a mistake of the command line', () => {
    assert.equal(pathOf`/v1/sources/${'a/b'}`, '/v1/sources/a%2Fb');
    assert.throws(() => pathOf`/v1/sources/${'..'}`, { reason: 'usage' });
  });

  test('a stream is followed from the given place, through breaks, until its emitter is gone', async () => {
    const streams = [
      gap + event('1-0') + gap,
      end('the service stops'),
      event('2-0') + end('the emitter was removed'),
    ];
    server.answerAlways(({ url }, response) => {
      if (!url.includes('/sse'))
        return { status: 404, body: { error: 'gone', code: 'not_found', details: {} } };
      if (server.requests.length === 2)
        return { status: 503, body: { error: 'later', code: 'overloaded', details: {} } };
      response.end(streams.shift());
      return undefined;
    });
    const notes: string[] = [];
    const ids: unknown[] = [];
    const stream = followStream(apiOf(), {
      path: '/v1/sources/dc_1',
      after: undefined,
      signal: new AbortController().signal,
      note: (text) => notes.push(text),
    });
    const { reason, message } = await refusalOf(
      (async () => {
        for await (const { id } of stream) ids.push(id);
      })(),
    );
    assert.deepEqual([reason, message], ['notFound', 'gone']);
    assert.deepEqual(ids, ['1-0', '2-0']);
    assert.deepEqual(
      server.requests.map(({ headers }) => headers['last-event-id']),
      ['0-0', '1-0', '1-0', '1-0', undefined],
    );
    assert.deepEqual(notes, [
      'events before the next one are gone: more were emitted than are kept',
      'the stream has ended; connecting again',
      'later; trying again',
      'connected again',
      'the service ends the stream: the service stops',
      'the stream has ended; connecting again',
      'connected again',
    ]);
  });

  test('a stream that cannot be opened at all fails at once', async () => {
    server.answerAlways({ status: 503, body: { error: 'later', code: 'overloaded', details: {} } });
    const signal = new AbortController().signal;
    const stream = followStream(apiOf(), {
      path: '/v1/sources/dc_1',
      after: '1-0',
      signal,
      note: assert.fail,
    });
    assert.equal((await refusalOf(stream.next())).reason, 'busy');
    assert.equal(server.requests.length, 1);
  });
});
