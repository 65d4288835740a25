import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpEvent } from '../http.app.ts';
import requests from './new-requests.ts';
import payloads from './new-requests-payload-only.ts';

const event: HttpEvent = {
  method: 'POST',
  path: '/orders',
  query: { a: '1' },
  headers: { 'content-type': 'application/json' },
  body: { id: 7 },
  bodyRaw: '{"id":7}',
};

/** `this` of the components: what they did, in order. */
function deploy(props: object) {
  const did: unknown[][] = [];
  const self = {
    http: { respond: (reply: unknown) => void did.push(['respond', reply]) },
    $emit: (value: unknown, metadata: unknown) => void did.push(['emit', value, metadata]),
    ...props,
  };
  return { self, did };
}

test('http-new-requests replies first, then emits the request', async () => {
  const { self, did } = deploy({});
  await requests.run.call(self, event);
  assert.deepEqual(did, [
    [
      'respond',
      { status: '200', headers: { 'content-type': 'application/json' }, body: '{ "success": true }' },
    ],
    ['emit', event, { summary: 'POST /orders' }],
  ]);
});

test('http-new-requests replies as configured, and emits the body alone when asked', async () => {
  const { self, did } = deploy({
    emitBodyOnly: true,
    resStatusCode: '201',
    resContentType: 'text/plain',
    resBody: '',
  });
  await requests.run.call(self, event);
  assert.deepEqual(did, [
    ['respond', { status: '201', headers: { 'content-type': 'text/plain' }, body: '' }],
    ['emit', { id: 7 }, { summary: 'POST /orders' }],
  ]);
});

test('http-new-requests asks for a custom response, and its defaults are those it is known for', () => {
  assert.deepEqual(requests.props.http, { type: '$.interface.http', customResponse: true });
  assert.equal(requests.props.emitBodyOnly.default, false);
  assert.equal(requests.props.resStatusCode.default, '200');
  assert.equal(requests.props.resContentType.default, 'application/json');
  assert.equal(requests.props.resBody.default, '{ "success": true }');
});

test('http-new-requests-payload-only emits the body and leaves the reply to the service', async () => {
  const { self, did } = deploy({});
  await payloads.run.call(self, event);
  assert.deepEqual(did, [['emit', { id: 7 }, { summary: 'POST /orders' }]]);
  assert.equal(payloads.props.http, '$.interface.http');
});
