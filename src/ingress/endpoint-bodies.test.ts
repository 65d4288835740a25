import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { EndpointBodies } from './endpoint-bodies.ts';

const MB = 1024 * 1024;

function requestOf(bytes: number): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  request.headers = { 'content-length': String(bytes) };
  return request;
}

/** Bodies that begin to be read, with clocks that move only by `pass`. */
function endpointBodies(t: test.TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  const bodies = new EndpointBodies({ nowMs: () => nowMs });
  const begun: string[] = [];
  const settle = async () => {
    for (let n = 0; n < 30; n += 1) await Promise.resolve();
  };
  return {
    bodies,
    begun,
    settle,
    send: (ownerId: string, bytes: number) =>
      void bodies.begin(requestOf(bytes), ownerId).then(() => begun.push(ownerId)),
    pass: async (ms: number) => {
      await settle();
      for (let passed = 0; passed < ms; passed += 1) {
        nowMs += 1;
        t.mock.timers.tick(1);
        await settle();
      }
    },
  };
}

test('the bodies of an owner who is alone have no turns', async (t) => {
  const { bodies, send, settle, begun } = endpointBodies(t);
  for (let n = 0; n < 20; n += 1) {
    bodies.noteRequest('o_1');
    send('o_1', MB);
  }
  await settle();
  assert.equal(begun.length, 20);
});

test('while another owner has requests, and for ten seconds, ten megabytes of an owner are read in a second', async (t) => {
  const { bodies, send, pass, begun } = endpointBodies(t);
  bodies.noteRequest('o_2');
  bodies.noteRequest('o_1');
  for (let n = 0; n < 20; n += 1) send('o_1', MB);
  await pass(1_000);
  assert.equal(begun.length, 11, 'one each tenth of a second');
  await pass(9_000);
  assert.equal(begun.length, 20);
  for (let n = 0; n < 20; n += 1) send('o_1', MB);
  await pass(0);
  assert.equal(begun.length, 40);
});

test('small bodies have no turns, and the large ones of an owner keep none of another waiting', async (t) => {
  const { bodies, send, settle, begun } = endpointBodies(t);
  for (const owner of ['o_1', 'o_2', 'o_1']) bodies.noteRequest(owner);
  for (let n = 0; n < 20; n += 1) send('o_1', MB);
  for (let n = 0; n < 20; n += 1) send('o_1', 8 * 1024 - 1);
  send('o_2', MB);
  await settle();
  assert.deepEqual(begun.toSorted(), [...Array(21).fill('o_1'), 'o_2']);
});

test('a body that did not say its size delays the next one', async (t) => {
  const { bodies, pass, begun } = endpointBodies(t);
  bodies.noteRequest('o_2');
  const chunked = requestOf(0);
  chunked.headers = { 'transfer-encoding': 'chunked' };
  const turn = await bodies.begin(chunked, 'o_1');
  assert.deepEqual(turn, { ownerId: 'o_1', bytes: 0 });
  bodies.wasRead({ ownerId: 'o_1', bytes: 0 }, Buffer.alloc(5 * MB), undefined);
  void bodies.begin(chunked, 'o_1').then(() => begun.push('o_1'));
  await pass(499);
  assert.deepEqual(begun, []);
  await pass(1);
  assert.deepEqual(begun, ['o_1']);
});

test('a form of many small parts delays the next one, since it takes long to parse', async (t) => {
  const { bodies, pass, begun } = endpointBodies(t);
  bodies.noteRequest('o_2');
  const form = Buffer.from('--X\r\nheader: x\r\n\r\nvalue\r\n'.repeat(500));
  const turn = await bodies.begin(requestOf(form.length), 'o_1');
  bodies.wasRead(turn, form, 'multipart/form-data; boundary=X');
  void bodies.begin(requestOf(MB), 'o_1').then(() => begun.push('o_1'));
  await pass(49);
  assert.deepEqual(begun, [], '500 parts take five milliseconds, a tenth of fifty');
  await pass(2);
  assert.deepEqual(begun, ['o_1']);
});

test('a body that is set aside is read in turns too', async (t) => {
  const { bodies, pass, begun } = endpointBodies(t);
  bodies.noteRequest('o_2');
  const request = requestOf(4 * MB);
  for (let n = 0; n < 64; n += 1) request.push(Buffer.alloc(64 * 1024));
  request.push(null);
  void (async () => {
    for await (const chunk of bodies.pieces(request, 'o_1')) begun.push(String(chunk.length));
  })();
  await pass(100);
  assert.ok(begun.length < 40, `${begun.length} pieces of 64 KB, expected two megabytes and a bit`);
  await pass(150);
  assert.equal(begun.length, 64);
});
