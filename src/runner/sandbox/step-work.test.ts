import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import axios from 'axios';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { StepWork } from './step-work.ts';

describe('a response of axios', () => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
    receiver.answerAlways(async () => ({ status: 201, body: { id: 7 } }));
  });
  after(() => receiver.close());

  const request = () =>
    axios.post(receiver.url, { n: 1 }, { headers: { authorization: 'Bearer the-token-canary' } });
  function work(exportBytesMax = 100_000) {
    const notes: string[] = [];
    const passed = (message: string) => new Error(message);
    const step = new StepWork({
      scratch: '',
      context: {},
      exportBytesMax,
      passed,
      note: (line) => notes.push(line),
    });
    const exports = () => {
      const payload: (string | Uint8Array)[] = [];
      step.addTo({} as Parameters<StepWork['addTo']>[0], payload);
      assert.doesNotMatch(String(payload[0]), /the-token-canary/);
      return JSON.parse(String(payload[0]));
    };
    return { step, notes, exports };
  }

  test('is reduced to status, statusText, headers and data when it is returned or exported, and the log says so', async () => {
    const response = await request();
    const { step, notes, exports } = work();
    step.return(response);
    step.export('several', { list: [response, 1], map: { response }, again: response });
    const { $return_value: returned, several } = exports();
    assert.deepEqual(Object.keys(returned), ['status', 'statusText', 'headers', 'data']);
    assert.deepEqual([returned.status, returned.statusText, returned.data], [201, 'Created', { id: 7 }]);
    assert.equal(returned.headers['content-type'], 'application/json');
    assert.deepEqual(several, { list: [returned, 1], map: { response: returned }, again: returned });
    assert.deepEqual(notes, [
      'the returned value ($return_value) holds a response of axios, which refers back to itself: its status, statusText, headers and data are kept',
      'the export "several" holds a response of axios, which refers back to itself: its status, statusText, headers and data are kept',
    ]);
  });

  test('is reduced before its size is checked, and its data may still be too large', async () => {
    const response = await request();
    const small = work(1_000);
    small.step.return(response);
    assert.equal(small.exports().$return_value.status, 201);
    const { step } = work(1_000);
    assert.throws(() => step.return({ ...response, data: 'x'.repeat(2_000) }), /larger than 1,000 bytes/);
  });

  test('is reduced in the same way when it is sent, or passed to a rerun', async () => {
    const { step, notes } = work();
    step.send('http', { url: receiver.url, data: await request() });
    step.rerun(1, { response: await request() }, 1);
    const payload: (string | Uint8Array)[] = [];
    step.takeSends({}, payload);
    assert.equal(JSON.parse(String(payload[0])).data.status, 201);
    assert.equal(step.flow?.kind === 'rerun' && JSON.parse(step.flow.context).response.status, 201);
    assert.equal(notes.length, 2);
    assert.doesNotMatch(`${payload[0]} ${JSON.stringify(step.flow)}`, /the-token-canary/);
  });

  test('is not changed without a circle, and other circles are still refused', () => {
    const { step, notes, exports } = work();
    const plain = { status: 200, statusText: '', headers: {}, config: { url: '/' }, data: 1 };
    step.return(plain);
    assert.deepEqual(exports().$return_value, plain);
    const ring: Record<string, unknown> = { plain };
    ring.me = ring;
    assert.throws(
      () => step.export('ring', ring),
      /the export "ring" is circular: ring\.me refers back to ring/,
    );
    const data: Record<string, unknown> = {};
    data.me = data;
    assert.throws(() => step.return({ ...plain, data }), /is circular: \$return_value\.data\.me/);
    assert.deepEqual(notes.slice(0, 1), [
      'the returned value ($return_value) holds a response of axios, which refers back to itself: its status, statusText, headers and data are kept',
    ]);
  });
});
