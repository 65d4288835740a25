import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makeRedactor } from '#vault/redact.ts';
import { hideInLine, hideSecrets } from './hide-secrets.ts';
import { type ComparedPart, changesBetween } from './report-changes.ts';

const part = (place: string, fields: ComparedPart['fields'], code?: string): ComparedPart => ({
  ...{ place, fields, code, secretProps: [] },
});
const plain = (text: string) => text;
const compared = (here: ComparedPart[], there: ComparedPart[]) =>
  changesBetween(here, there, plain).changes.map(({ what, path, old, new: wanted }) => [
    `${what} ${path}`,
    old,
    wanted,
  ]);

describe('changes of an import', () => {
  test('the same parts have none', () => {
    const same = [part('', { name: 'One' }), part('steps.a', { props: { n: [1, { b: null }] } }, 'code')];
    assert.deepEqual(changesBetween(same, structuredClone(same), plain), {
      changes: [],
      changes_left_out: 0,
    });
  });

  test('headers are compared by their names, and values of secret ones are hidden wherever they stand', () => {
    const request = (authorization: string, accept: string) => ({
      httpRequest: {
        url: 'https://example.com',
        headers: [
          { name: 'Authorization', value: authorization },
          { name: 'accept', value: accept },
        ],
        auth: { type: 'basic', username: 'u', password: authorization },
      },
    });
    const found = compared(
      [part('steps.call', { props: request('one two', 'a') })],
      [part('steps.call', { props: request('{{process.env.TOKEN}}', 'b') })],
    );
    assert.deepEqual(found, [
      ['changed steps.call.props.httpRequest.headers.Authorization', null, '{{process.env.TOKEN}}'],
      ['changed steps.call.props.httpRequest.headers.accept', 'a', 'b'],
      ['changed steps.call.props.httpRequest.auth', null, null],
    ]);
    // A value that is added as a whole hides what is secret in it.
    const [[, , added]] = compared(
      [part('steps.call', { props: {} })],
      [part('steps.call', { props: request('one two', 'a') })],
    ) as [[string, null, string]];
    assert.doesNotMatch(added, /one two/);
    assert.match(added, /"accept":"a"/);
  });

  test('steps that moved are said once, with their order', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => part(`steps.${name}`, {})) as [
      ComparedPart,
      ComparedPart,
      ComparedPart,
    ];
    assert.deepEqual(compared([a, b, c], [c, a, b]), [['changed steps', 'a, b, c', 'c, a, b']]);
    assert.deepEqual(
      compared([a, b], [a, c, b]).map(([what]) => what),
      ['added steps.c'],
    );
  });

  test('lists of changes are bounded in number and in size, and say how many are left out', () => {
    const props = (value: number | string) =>
      Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, value]));
    const many = changesBetween(
      [part('steps.a', { props: props(1) })],
      [part('steps.a', { props: props(2) })],
      plain,
    );
    assert.deepEqual([many.changes.length, many.changes_left_out], [40, 260]);
    const long = changesBetween(
      [part('steps.a', { props: props('a '.repeat(10_000)) })],
      [part('steps.a', { props: props('b '.repeat(10_000)) })],
      plain,
    );
    assert.ok(JSON.stringify(long).length < 15_000);
    assert.equal(long.changes.length + long.changes_left_out, 300);
    const lines = (text: string) => Array.from({ length: 5_000 }, (_, at) => `${text} ${at}`).join('\n');
    const code = changesBetween([part('', {}, lines('x'))], [part('', {}, lines('y'))], plain);
    assert.deepEqual(code.changes[0]?.lines, [], 'too many edits to be compared line by line');
    const some = changesBetween([part('', {}, 'same')], [part('', {}, `same\n${'z\n'.repeat(30)}`)], plain);
    assert.equal(some.changes[0]?.lines.length, 13);
    assert.match(some.changes[0]?.lines.at(-1) ?? '', /^… and \d+ lines$/);
  });

  test('known secrets are hidden in code too', () => {
    const { changes } = changesBetween(
      [part('', {}, 'a()')],
      [part('', {}, 'a("plain words here")')],
      makeRedactor(['plain words here']),
    );
    assert.deepEqual(changes[0]?.lines, ['-a()', '+a("[redacted]")']);
  });
});

describe('what is hidden in shown texts', () => {
  for (const [text, shown] of [
    ['https://user:pass@example.com/a', 'https://user:••••••••@example.com/a'],
    ['https://example.com/?page=2&api_key=abc', 'https://example.com/?page=2&api_key=••••••••'],
    ['Bearer abc.def', 'Bearer ••••••••'],
    ['id Zk3x9QpL7vN2mB8tRw5y end', 'id •••••••• end'],
    [
      'https://api.example.com/v1/customers/orders-of-today',
      'https://api.example.com/v1/customers/orders-of-today',
    ],
    ['{{steps.first.$return_value.items}}', '{{steps.first.$return_value.items}}'],
    ['{"authProvisionId":"apn_AbC123dEf456"}', '{"authProvisionId":"apn_AbC123dEf456"}'],
  ] as const)
    test(text, () => assert.equal(hideSecrets(text), shown));
  for (const [line, shown] of [
    ["const token = 'abc';", "const token = '••••••••';"],
    ['const token = steps.login.token;', 'const token = steps.login.token;'],
    ['return "words";', 'return "words";'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is a line of code.
    ['headers: { Authorization: `Bearer ${key}` },', 'headers: { Authorization: `••••••••` },'],
    ['const password = "begins here', 'const password = "••••••••"'],
  ] as const)
    test(line, () => assert.equal(hideInLine(line), shown));
});
