import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { AnswerBytes, inParts } from './answer-bytes.ts';

const megabyte = 1_000_000;

/** With callers who take all at once. */
class Answers {
  readonly #bytes = new AnswerBytes();
  begin(caller: string, route: string) {
    return this.#bytes.begin(caller, route, { turn: () => undefined, sends: () => {} });
  }
  close() {
    this.#bytes.close();
  }
}

describe('large answers of the API', () => {
  let nowMs = 0;
  const pass = async (ms: number) => {
    nowMs += ms;
    mock.timers.tick(ms);
    await turnOfLoop();
  };
  beforeEach(() => {
    nowMs = 0;
    mock.timers.enable({ apis: ['setTimeout'] });
    mock.method(performance, 'now', () => nowMs);
  });
  afterEach(() => {
    mock.timers.reset();
    mock.restoreAll();
  });

  test('8 MB of a caller are sent at once, then 20 MB a second, and those of others at once', async () => {
    const answers = new Answers();
    const first = answers.begin('a', 'GET /events');
    for (let n = 0; n < 8; n += 1) assert.equal(first.sends(megabyte), undefined);
    let isSent = false;
    const waiting = first.sends(4 * megabyte)?.then(() => {
      isSent = true;
    });
    assert.ok(waiting !== undefined);
    assert.equal(answers.begin('b', 'GET /events').sends(megabyte), undefined);
    await pass(199);
    assert.equal(isSent, false);
    await pass(3);
    await waiting;
  });

  test('an answer of a route that sent much is made when its caller owes nothing, a small one at once', async () => {
    const answers = new Answers();
    const first = answers.begin('a', 'GET /events');
    void first.sends(12 * megabyte);
    first.end();
    const second = answers.begin('a', 'GET /events');
    assert.notEqual(second.turn, undefined);
    assert.equal(answers.begin('a', 'GET /users/me').turn, undefined);
    await pass(250);
    await second.turn;
    assert.equal(second.sends(8 * megabyte), undefined, 'what was expected has had its time');
    void second.sends(4 * megabyte);
    second.end();
    const gone = answers.begin('a', 'GET /events');
    assert.notEqual(gone.turn, undefined);
    gone.end();
    const third = answers.begin('a', 'GET /events');
    await pass(1_000);
    await third.turn;
    third.end();
    assert.equal(answers.begin('a', 'GET /events').turn, undefined, 'what was not sent is not owed');
  });

  test('parts of which the size is known are made when they may be sent, and a small answer waits for none of them', async () => {
    const answers = new Answers();
    const turns = Array.from({ length: 4 }, () => answers.begin('a', 'GET /events'));
    const waits = turns.map((answer) => answer.expects(6 * megabyte));
    assert.deepEqual(
      waits.map((wait) => wait === undefined),
      [true, true, false, false],
    );
    const small = answers.begin('a', 'POST /sources');
    assert.equal(small.expects(1_000), undefined);
    assert.equal(small.sends(1_000), undefined);
    assert.equal(turns[0]?.sends(6 * megabyte), undefined, 'what was expected has had its time');
    // It sends nothing of what it expected: the next one follows.
    turns[1]?.end();
    await waits[2];
    turns[3]?.end();
    await pass(1_000);
    await waits[3];
    assert.equal(answers.begin('a', 'GET /others').expects(6 * megabyte), undefined);
  });

  test('large answers, and parts of which the size is known, also wait for what their caller has not taken', async () => {
    const bytes = new AnswerBytes();
    const asked: number[] = [];
    const room = Promise.withResolvers<void>();
    const untaken = {
      turn: (more: number) => {
        asked.push(more);
        return room.promise;
      },
      sends: () => {},
    };
    const first = bytes.begin('a', 'GET /events', untaken);
    assert.equal(first.expects(1_000), undefined, 'small parts wait for nothing');
    void first.sends(12 * megabyte);
    first.end();
    const second = bytes.begin('b', 'GET /events', untaken);
    const waits = [second.expects(6 * megabyte), bytes.begin('a', 'GET /events', untaken).turn];
    assert.deepEqual(asked, [6 * megabyte, 8 * megabyte]);
    let done = 0;
    for (const wait of waits) {
      assert.ok(wait !== undefined);
      void wait.then(() => {
        done += 1;
      });
    }
    await pass(2_000);
    assert.equal(done, 0);
    room.resolve();
    await Promise.all(waits);
  });

  test('what is sent in parts arrives whole and in order, and the next part is read when those before it had their time', async () => {
    const answers = new Answers();
    let read = 0;
    const parts = function* () {
      for (; read < 12; read += 1) yield Buffer.alloc(megabyte, read);
    };
    const answer = answers.begin('a', 'GET /events');
    const paced = inParts(answer, Readable.from(parts(), { highWaterMark: 1 }));
    const seen: number[] = [];
    let bytes = 0;
    paced.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (seen.at(-1) !== chunk[0]) seen.push(chunk[0] ?? -1);
    });
    for (let n = 0; n < 50; n += 1) await turnOfLoop();
    assert.ok(read < 12, 'not all of it is read at once');
    for (let n = 0; n < 20; n += 1) await pass(60);
    for (let n = 0; n < 50; n += 1) await turnOfLoop();
    assert.equal(bytes, 12 * megabyte);
    assert.deepEqual(
      seen,
      Array.from({ length: 12 }, (_, n) => n),
    );
  });
});
