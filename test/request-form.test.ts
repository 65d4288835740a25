import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRequest, writeRequest } from '../dashboard/src/editing/request-form.ts';

const defaults = { method: 'POST' };
const request = {
  url: 'https://example.com/orders?x={{steps.trigger.event.body.x}}',
  params: [{ name: 'status', value: 'open' }],
  headers: [{ name: 'x-source', value: 'a: b' }],
  body: { contentType: 'text/plain', mode: 'raw', raw: 'hello' },
};

test('the form of a request that was written is that request', () => {
  const form = readRequest(request, defaults);
  assert.ok(form !== undefined);
  assert.equal(form.method, 'POST');
  assert.deepEqual(writeRequest(form, defaults), request);
  assert.equal(writeRequest({ ...form, method: 'PUT' }, defaults)?.method, 'PUT');
});

test('a form in which nothing was entered is no value', () => {
  const form = readRequest(undefined, defaults);
  assert.ok(form !== undefined);
  assert.equal(writeRequest(form, defaults), undefined);
});

for (const [what, value] of Object.entries({
  'an expression': '{{steps.trigger.event.body}}',
  authentication: { auth: { type: 'bearer', token: '{{process.env.TOKEN}}' } },
  'a parameter that is switched off': { params: [{ name: 'a', value: 'b', disabled: true }] },
  'headers as an object': { headers: { a: 'b' } },
  'a header with a number': { headers: [{ name: 'a', value: 1 }] },
  'a name with a colon': { headers: [{ name: 'a:b', value: 'c' }] },
  'a value of two lines': { params: [{ name: 'a', value: 'b\nc' }] },
  'a body of fields': { body: { contentType: 'application/json', mode: 'fields', fields: [] } },
  'a field of its own': { responseType: 'arraybuffer' },
})) {
  test(`${what} is edited as JSON, since the form would lose it`, () => {
    assert.equal(readRequest(value, defaults), undefined);
  });
}
