import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { moveSecrets } from './move-secrets.ts';
import { hasSecretForm } from './secret-forms.ts';

const moved = (props: Record<string, unknown>) => {
  const result = moveSecrets(props, { workflowId: 'p_One111', namespace: 'call' });
  const places = result.moved.map(({ place, value }) => [place, value]);
  const names = new Map(result.moved.map(({ name, place }) => [place, name]));
  return { props: result.props, places, names };
};
const request = (fields: Record<string, unknown>) => ({
  request: { method: 'GET', url: 'https://a.example', ...fields },
});

describe('secrets in clear', () => {
  test('of requests are moved: authentication, headers, parameters, fields and URLs', () => {
    const { props, places, names } = moved({
      request: {
        method: 'POST',
        url: 'https://ada:pw-in-url@a.example/x?token=in-query&page=2',
        auth: { type: 'basic', username: 'ada', password: 'pw-1' },
        headers: [
          { name: 'Authorization', value: 'Bearer abc' },
          { name: 'X-Api-Key', value: 'key-1', disabled: true },
          { name: 'Accept', value: 'text/plain' },
          { name: '', value: '' },
        ],
        params: { access_token: 'key-2', page: '1' },
        body: {
          mode: 'fields',
          fields: [
            { name: 'client_secret', value: 'key-3' },
            { name: 'a', value: 'b' },
          ],
        },
      },
    });
    assert.deepEqual(places, [
      ['call.request.url.password', 'pw-in-url'],
      ['call.request.url.token', 'in-query'],
      ['call.request.auth.password', 'pw-1'],
      ['call.request.headers.Authorization', 'Bearer abc'],
      ['call.request.headers.X-Api-Key', 'key-1'],
      ['call.request.params.access_token', 'key-2'],
      ['call.request.body.fields.client_secret', 'key-3'],
    ]);
    const at = (place: string) => `{{process.env.${names.get(`call.request.${place}`)}}}`;
    assert.deepEqual(props.request, {
      method: 'POST',
      url: `https://ada:${at('url.password')}@a.example/x?token=${at('url.token')}&page=2`,
      auth: { type: 'basic', username: 'ada', password: at('auth.password') },
      headers: [
        { name: 'Authorization', value: at('headers.Authorization') },
        { name: 'X-Api-Key', value: at('headers.X-Api-Key'), disabled: true },
        { name: 'Accept', value: 'text/plain' },
        { name: '', value: '' },
      ],
      params: { access_token: at('params.access_token'), page: '1' },
      body: {
        mode: 'fields',
        fields: [
          { name: 'client_secret', value: at('body.fields.client_secret') },
          { name: 'a', value: 'b' },
        ],
      },
    });
    for (const name of names.values()) assert.match(name, /^CALL_[A-Z0-9_]+_[0-9A-F]{6}$/);
  });

  test('that are expressions or empty stay', () => {
    const props = request({
      url: 'https://a.example?token={{steps.a.token}}',
      auth: { type: 'bearer', token: '{{process.env.TOKEN}}' },
      headers: [
        { name: 'authorization', value: 'Bearer {{steps.a.token}}' },
        { name: 'cookie', value: '' },
      ],
    });
    assert.deepEqual(moved(props), { props, places: [], names: new Map() });
  });

  test('elsewhere are recognised by their form, and no other text is changed', () => {
    const { props, places } = moved({
      token: 'plain words',
      nested: [{ key: `ghp_${'a'.repeat(36)}` }],
      tokenType: 'Bearer',
      text: 'the token is secret',
    });
    assert.deepEqual(places, [['call.nested.0.key', `ghp_${'a'.repeat(36)}`]]);
    assert.deepEqual(
      [props.token, props.tokenType, props.text],
      ['plain words', 'Bearer', 'the token is secret'],
    );
  });

  test('have the same variable in every import, and another in every place', () => {
    const names = (namespace: string) =>
      moveSecrets(request({ auth: { token: 't' } }), { workflowId: 'p_One111', namespace }).moved.map(
        ({ name }) => name,
      );
    assert.deepEqual(names('call'), names('call'));
    assert.notDeepEqual(names('call'), names('call2'));
    assert.match(names('1st')[0] ?? '', /^STEP_1ST_TOKEN_/);
    assert.match(names('pd_call')[0] ?? '', /^STEP_PD_CALL_TOKEN_/);
  });

  test('in code are recognised by their form', () => {
    assert.equal(hasSecretForm(`const key = "sk_live_${'a'.repeat(24)}";`), true);
    assert.equal(hasSecretForm(`connect("postgres://ada:${'a'.repeat(8)}@db.example/shop")`), true);
    assert.equal(hasSecretForm(`fetch("https://hooks.slack.com/services/T0/B0/${'a'.repeat(24)}")`), true);
    assert.equal(hasSecretForm('const key = process.env.KEY; // sk_live_…'), false);
    assert.equal(
      hasSecretForm('fetch("https://a.example:8080/x@y"); const sk = "task-of-the-long-name-2"'),
      false,
    );
  });
});
