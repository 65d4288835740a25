import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maskedSecret, maskProps, unmaskProps } from './clear-secrets.ts';

const props = {
  request: {
    url: 'https://example.com/?token=u-1&page=2',
    auth: { type: 'bearer', token: 't-1', username: 'ada' },
    headers: [
      { name: 'Authorization', value: 'Basic YTpi' },
      { name: 'X-Api-Key', value: '{{process.env.KEY}}' },
      { name: 'Cookie', value: 'Bearer {{process.env.KEY}}' },
      { name: 'accept', value: 'text/plain' },
    ],
    params: [{ name: 'access_token', value: 'p-1' }],
  },
  apiKey: 'k-1234',
};
const masked = (value: Record<string, unknown>) =>
  maskProps(value, { onSecret: () => {}, onUnsure: () => {} });

test('what is a secret in props is masked, with its path; expressions and everything else stay', () => {
  const paths: string[] = [];
  const unsure: string[] = [];
  const shown = maskProps(props, {
    onSecret: (path) => paths.push(path),
    onUnsure: (place) => unsure.push(place),
  });
  assert.deepEqual(paths, [
    'request.url',
    'request.auth.token',
    'request.headers[0].value',
    'request.params[0].value',
  ]);
  assert.deepEqual(unsure, ['apiKey']);
  assert.doesNotMatch(JSON.stringify(shown), /u-1|t-1|YTpi|p-1/);
  assert.deepEqual(
    (shown.request as { url: string }).url,
    `https://example.com/?token=${maskedSecret}&page=2`,
  );
  assert.deepEqual(
    unmaskProps(shown, props, 'step', () => assert.fail('it is there')),
    props,
  );
});

test('a header that moved keeps its secret, and one that the service does not have is asked for by its place', () => {
  const moved = {
    request: {
      headers: [
        { name: 'new', value: maskedSecret },
        { name: 'Authorization', value: maskedSecret },
      ],
    },
  };
  const asked: string[] = [];
  const whole = unmaskProps(moved, props, 'step', (place) => {
    asked.push(place);
    return 'given';
  });
  assert.deepEqual(whole, {
    request: {
      headers: [
        { name: 'new', value: 'given' },
        { name: 'Authorization', value: 'Basic YTpi' },
      ],
    },
  });
  assert.deepEqual(asked, ['step.request.headers[0].value']);
});

test('a text with a masked part keeps its secret when the rest of it changes, and asks for each where the service has another number', () => {
  const edited = { request: { url: `https://example.com/new?token=${maskedSecret}&page=3` } };
  assert.deepEqual(
    unmaskProps(edited, props, 'step', () => assert.fail('it is there')),
    { request: { url: 'https://example.com/new?token=u-1&page=3' } },
  );
  const asked: string[] = [];
  const two = { request: { url: `https://example.com/?token=${maskedSecret}&key=${maskedSecret}` } };
  const given = unmaskProps(two, props, 'step', (place) => {
    asked.push(place);
    return `given-${asked.length}`;
  });
  assert.deepEqual(given, { request: { url: 'https://example.com/?token=given-1&key=given-2' } });
  assert.deepEqual(asked, ['step.request.url', 'step.request.url#2']);
});

test('what the service masks itself stays masked, which it takes for unchanged', () => {
  const secret = { key: maskedSecret, list: [maskedSecret] };
  assert.deepEqual(masked(secret), secret);
  assert.deepEqual(
    unmaskProps(secret, secret, 'step', () => assert.fail('it is there')),
    secret,
  );
});
