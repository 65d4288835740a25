import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatWithOptions, inspect } from 'node:util';
import { cpuMsOf } from '../../test/support/cpu-time.ts';
import { makeRedactor, secretValues } from './redact.ts';

const secret = 'p+ss/"wörd" 42&=';

describe('redaction', () => {
  test('replaces every occurrence', () => {
    const redact = makeRedactor(['topsecret1', 'other-secret']);
    assert.equal(
      redact('a topsecret1 b other-secret c topsecret1'),
      'a [redacted] b [redacted] c [redacted]',
    );
  });

  test('leaves texts without secrets as they are, and does nothing when there are no secrets', () => {
    assert.equal(makeRedactor(['topsecret1'])('topsecret2 topsecre'), 'topsecret2 topsecre');
    assert.equal(makeRedactor([])('anything'), 'anything');
  });

  test('leaves values of fewer than 8 characters', () => {
    assert.equal(makeRedactor(['true', '1234567', ''])('true 1234567'), 'true 1234567');
    assert.equal(makeRedactor(['12345678'])('x 12345678'), 'x [redacted]');
  });

  for (const [name, form] of [
    ['JSON', JSON.stringify(secret).slice(1, -1)],
    ['JSON in JSON', JSON.stringify(JSON.stringify(secret)).slice(3, -3)],
    ['base64', Buffer.from(secret).toString('base64')],
    ['base64url', Buffer.from(secret).toString('base64url')],
    ['a Buffer that is printed', inspect(Buffer.from(secret)).slice('<Buffer '.length, -1)],
    ['encodeURIComponent', encodeURIComponent(secret)],
    [
      'encodeURIComponent with small digits',
      encodeURIComponent(secret).replace(/%../g, (code) => code.toLowerCase()),
    ],
    ['a form', new URLSearchParams({ x: secret }).toString().slice(2)],
    ['encodeURI', encodeURI(secret)],
    ['the query of a URL', new URL(`https://h/?x=${secret}`).search.slice(3)],
    ['the password of a URL', Object.assign(new URL('https://u@h'), { password: secret }).password],
    [
      'the path of a URL',
      Object.assign(new URL('https://h'), { pathname: `/x/${secret}` }).pathname.slice(3),
    ],
    ['the fragment of a URL', Object.assign(new URL('https://h'), { hash: `#${secret}` }).hash.slice(1)],
  ] as const) {
    test(`finds a secret as ${name}`, () => {
      assert.equal(makeRedactor([secret])(`<${form}>`), '<[redacted]>');
    });
  }

  test('finds a secret inside longer base64, wherever it starts', () => {
    const redact = makeRedactor(['abcdefghijkl']);
    for (const user of ['', 'a', 'ab', 'abc', 'abcd']) {
      const header = `Basic ${Buffer.from(`${user}:abcdefghijkl`).toString('base64')}`;
      const redacted = redact(header);
      assert.match(redacted, /\[redacted\]/, user);
      const left = redacted.replace('Basic ', '').replace('[redacted]', '');
      assert.ok(left.length <= 8 + user.length * 2, redacted);
    }
  });

  test('secrets that overlap, contain or touch one another leave nothing of any', () => {
    const redact = makeRedactor(['aaaabbbb', 'bbbbcccc', 'aaaabbbbccccdddd', 'bbbbcccc']);
    assert.equal(redact('xaaaabbbbccccx'), 'x[redacted]x');
    assert.equal(redact('xaaaabbbbccccddddx'), 'x[redacted]x');
    assert.equal(redact('xaaaabbbbaaaabbbbx'), 'x[redacted]x');
    assert.equal(redact('aaaabbbbccccddd'), '[redacted]ddd');
    assert.equal(makeRedactor(['aaaaaaaa'])('aaaaaaaaaaa'), '[redacted]');
  });

  test('the plainest search agrees, for many texts', () => {
    const letters = 'ab';
    let seed = 1;
    const next = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const word = (length: number) => Array.from({ length }, () => letters[next(2)]).join('');
    for (let round = 0; round < 300; round += 1) {
      const secrets = Array.from({ length: 3 }, () => word(8 + next(3)));
      const text = word(60);
      const hidden = Array.from(text, () => false);
      for (const value of secrets) {
        for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
          hidden.fill(true, at, at + value.length);
      }
      const expected = Array.from(text, (letter, at) =>
        hidden[at] ? (hidden[at - 1] ? '' : '[redacted]') : letter,
      ).join('');
      assert.equal(makeRedactor(secrets)(text), expected);
    }
  });

  test('JSON stays JSON, whatever the secrets are made of', () => {
    const redact = makeRedactor(['12345678', '":1,"a":', 'n1234567', '}]}]}]}]', secret]);
    const value = {
      number: 12345678,
      more: [-12345678.5, 1e21, 5, true, null],
      text: `key ${secret}`,
      nested: JSON.stringify({ token: secret }),
      newline: '\n1234567',
      a12345678: '',
      x: 1,
      a: 2,
      list: [[[[{}]]]],
      quote: '\\"',
    };
    const redacted = JSON.parse(redact(JSON.stringify(value)));
    assert.deepEqual(redacted, {
      number: '[redacted]',
      more: ['[redacted]', 1e21, 5, true, null],
      text: 'key [redacted]',
      nested: '{"token":"[redacted]"}',
      newline: '\n1234567',
      'a[redacted]': '',
      x: 1,
      a: 2,
      list: [[[[{}]]]],
      quote: '\\"',
    });
    assert.equal(redact('12345678'), '"[redacted]"');
  });

  test('values that were called secret one by one are hidden from 4 characters on', () => {
    const redact = makeRedactor(['longer-secret'], ['a"b1', '4711', 'abc', 'return', 'other-long-one']);
    assert.equal(
      redact('x a"b1 4711 abc longer-secret other-long-one'),
      'x [redacted] [redacted] abc [redacted] [redacted]',
    );
    assert.equal(redact(`${btoa('a"b1')} ${encodeURIComponent('a"b1')}`), '[redacted] [redacted]');
    // Names of objects and times stay, so that records stay what they are.
    assert.deepEqual(
      JSON.parse(redact('{"$return_value": {"pin": 4711, "at": 1747114711000, "text": "no return"}}')),
      {
        $return_value: { pin: '[redacted]', at: 1_747_114_711_000, text: 'no [redacted]' },
      },
    );
    assert.deepEqual(JSON.parse(redact('{"longer-secret":"4711"}')), { '[redacted]': '[redacted]' });
  });

  test('a part of a secret that an error of JSON.parse shows is hidden too', () => {
    const secrets = [
      'sk-live-1234567890abcdefghijklmnopqrstuvwxyz',
      '[1,"first part","second ""part of a secret list"',
    ];
    const redact = makeRedactor([], secrets);
    for (const secret of secrets) {
      assert.throws(
        () => JSON.parse(secret),
        ({ message }: Error) => {
          assert.match(message, /is not valid JSON$|^Expected/);
          for (const shown of [redact(message), JSON.parse(redact(JSON.stringify({ message }))).message])
            for (let at = 0; at + 6 <= secret.length; at += 1)
              assert.ok(!shown.includes(secret.slice(at, at + 6)), shown);
          return true;
        },
      );
    }
    assert.equal(redact('"undefined" is not valid JSON'), '"undefined" is not valid JSON');
    for (const slow of ['"a', '\\', '\\"'].map((text) => text.repeat(500_000))) {
      const hostile = `${slow} is not valid JSON`;
      assert.equal(redact(hostile), hostile);
    }
  });

  test('the beginning of a secret is hidden where a message cuts it', async () => {
    const secret = `eyJh"b\\c${'0123456789'.repeat(8)}`;
    const redact = makeRedactor([secret, `${secret.slice(0, 20)}x-another-one`]);
    const quoted = JSON.stringify(secret);
    for (const shown of [
      `items: found ${quoted.slice(0, 60)}…, expected a list`,
      `items: found ${JSON.stringify(secret.slice(0, 60))}… expected`,
      `value: found ${JSON.stringify(`${secret.slice(0, 40)}…`)}`,
      `value: found ${quoted.slice(0, 10)}...`,
      `${Buffer.from(secret).toString('base64').slice(0, 40)}…`,
      `${encodeURIComponent(secret).slice(0, 40)}… [cut]`,
      `${secret.slice(0, 50)}#${'0123abcd'.repeat(8)}`,
    ])
      for (const text of [redact(shown), JSON.parse(redact(JSON.stringify({ shown }))).shown as string]) {
        assert.match(text, /\[redacted\]/);
        assert.doesNotMatch(text, /eyJh|ZXlKaC|01234567/, text);
      }
    // Only a part that was cut: values that happen to begin alike are left alone.
    assert.equal(redact(`${secret.slice(0, 40)} and so on`), `${secret.slice(0, 40)} and so on`);
    const slow = makeRedactor(['a'.repeat(100_000)]);
    assert.ok((await cpuMsOf(() => slow(`${'a'.repeat(99_999)}b…`.repeat(10)))) < 5_000);
  });

  test('deeply nested JSON is no trouble', () => {
    const redact = makeRedactor(['topsecret1']);
    const deep = `${'['.repeat(50_000)}"topsecret1"${']'.repeat(50_000)}`;
    assert.equal(redact(deep), deep.replace('topsecret1', '[redacted]'));
  });

  test('takes time linear in the text, also for secrets and texts made to be slow', () => {
    const redact = makeRedactor([`${'a'.repeat(4_000)}b`, 'aaaaaaaac', 'ab'.repeat(2_000)]);
    const text = 'a'.repeat(2_000_000);
    // CPU time: the machine may be busy.
    const before = process.cpuUsage();
    assert.equal(redact(text), text);
    assert.equal(redact(`${text}b`).slice(-11), 'a[redacted]');
    // A search that starts over for each character would take 8e9 steps.
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 5e6, `${(user + system) / 1e6} s of CPU time`);
  });

  test('long secrets are found exactly, beside others with the same beginning', () => {
    let seed = 7;
    const next = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const word = (length: number) => Array.from({ length }, () => 'ab'[next(2)]).join('');
    for (let round = 0; round < 50; round += 1) {
      const common = word(63 + next(3));
      const secrets = [
        ...Array.from({ length: 3 }, () => common + word(1 + next(40))),
        word(90),
        'ab'.repeat(50),
      ];
      const parts = [...secrets, ...secrets.map((text) => text.slice(0, -1)), word(70), common];
      const text = Array.from(
        { length: 12 },
        () => (parts[next(parts.length)] ?? '') + 'x'.repeat(next(2)),
      ).join('');
      const hidden = Array.from(text, () => false);
      for (const value of secrets)
        for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
          hidden.fill(true, at, at + value.length);
      const expected = Array.from(text, (letter, at) =>
        hidden[at] ? (hidden[at - 1] ? '' : '[redacted]') : letter,
      ).join('');
      assert.equal(makeRedactor(secrets)(text), expected);
    }
  });

  test('a thousand secrets, also of one beginning, cost no more than one pass over the text', () => {
    const apart = Array.from({ length: 1000 }, (_, n) => `${n}-${'s'.repeat(150)}-${n}`);
    const alike = Array.from({ length: 1000 }, (_, n) => `${'a'.repeat(200)}-${n}`);
    // CPU time: the machine may be busy.
    const before = process.cpuUsage();
    const text = '0123456789-abcdefghijkl '.repeat(300_000);
    assert.equal(makeRedactor([], apart)(text), text);
    const slow = 'a'.repeat(1_000_000);
    makeRedactor([], alike)(slow);
    // Where comparing would take too long, more is hidden, never less.
    assert.doesNotMatch(makeRedactor([], alike)(`${slow.slice(0, 1000)} and ${alike[7]}!`), /a{9}|7/);
    const { user, system } = process.cpuUsage(before);
    // One search for each secret would take half a minute.
    assert.ok(user + system < 6e6, `${(user + system) / 1e6} s of CPU time`);
  });

  const body = Array.from({ length: 5 }, (_, n) => `${n}`.repeat(3).padEnd(64, 'aB3+/xY7'));
  const pem = `-----BEGIN PRIVATE KEY-----\n${body.join('\n')}\nq7Zk=\n-----END PRIVATE KEY-----\n`;
  const printed = (value: unknown) => formatWithOptions({ colors: false }, value);

  for (const [name, text] of [
    ['console.log of an object', printed({ PATH: '/usr/bin', KEY: pem })],
    ['console.log of a nested object', printed({ a: { b: { KEY: pem } } })],
    ['console.dir', inspect(pem)],
    ['console.dir in one line', inspect(pem, { breakLength: Number.POSITIVE_INFINITY })],
    ['util.inspect in an export', JSON.stringify({ shown: inspect({ KEY: pem }) })],
    ['util.inspect in JSON in an export', JSON.stringify({ x: JSON.stringify({ y: inspect([pem]) }) })],
    ['a nested error', printed({ e: new Error(pem), deep: { e: new Error(`no ${pem}`) } })],
    ['YAML', `key: |\n${pem.replace(/^/gm, '    ')}`],
    ['JSON text', JSON.stringify({ pem })],
    ['with the line ends of Windows', pem.replaceAll('\n', '\r\n')],
  ] as const)
    test(`a PEM is hidden line by line: ${name}`, () => {
      const shown = makeRedactor([pem])(text);
      for (const line of body) assert.ok(!shown.includes(line.slice(0, 12)), shown);
      if (name !== 'with the line ends of Windows') assert.ok(!shown.includes('q7Zk'), shown);
    });

  test('a PEM whose line ends are written as backslash and n is hidden when they are made real', () => {
    const shown = makeRedactor([pem.replaceAll('\n', '\\n')])(printed({ pem }));
    for (const line of body) assert.ok(!shown.includes(line.slice(0, 12)), shown);
  });

  test('lines of 8 characters and more are hidden, shorter ones and headers of PEM are not', () => {
    const redact = makeRedactor([pem, 'user=ada\npin=12\n  token=4711']);
    assert.equal(
      redact(pem.split('\n').join(' | ')),
      `-----BEGIN PRIVATE KEY----- | ${body.map(() => '[redacted] | ').join('')}q7Zk= | -----END PRIVATE KEY----- | `,
    );
    assert.equal(redact('user=ada, pin=12, token=4711'), '[redacted], pin=12, [redacted]');
  });

  test('of the lines of all secrets the first 1,000 are hidden in every form, further ones as they are and in JSON', () => {
    const line = (n: number) => `line-${`${n}`.padStart(5, '0')}-"/"`;
    const redact = makeRedactor([Array.from({ length: 3000 }, (_, n) => line(n)).join('\n')]);
    for (const n of [0, 999, 1000, 2999]) {
      assert.equal(redact(`a ${line(n)} b`), 'a [redacted] b');
      assert.equal(redact(`a ${JSON.stringify(JSON.stringify([line(n)]))} b`).includes('line-'), n > 999);
      assert.equal(redact(`a ${JSON.stringify([line(n)])} b`), 'a ["[redacted]"] b');
    }
    assert.equal(redact(`?q=${encodeURIComponent(line(999))}`), '?q=[redacted]');
  });

  test('values with quotes, backslashes and control characters are hidden where util.inspect writes them', () => {
    for (const value of [
      'it\'s-"\\`secret',
      "it's a secret",
      'say "secret" word',
      `tick \` and 'quote" $\{x}`,
      'C:\\secret\\words',
      'bell \u0007 tab \t esc \u001b[0m \u0085 end',
      'half \ud800 a pair',
    ]) {
      const redact = makeRedactor([value]);
      for (const text of [
        printed({ value }),
        printed([value, { list: [value] }]),
        inspect(`<${value}>`),
        inspect(`'${value}"\``),
        printed({ [value]: 1 }),
        printed(new Map([[value, new Set([value])]])),
        JSON.stringify({ shown: printed({ value }) }),
      ]) {
        const shown = redact(text);
        assert.ok(shown.includes('[redacted]'), `${text} became ${shown}`);
        assert.doesNotMatch(shown, /secret|word|quote|bell|half/, `${text} became ${shown}`);
      }
    }
    const short = makeRedactor([], ["a'\\b"]);
    assert.equal(short(inspect(["a'\\b"])), '[ "[redacted]" ]');
    assert.equal(short(inspect(['"a\'\\b`'])), `[ '"[redacted]\`' ]`);
  });

  test('a value that util.inspect cuts is hidden as far as it shows', () => {
    const value = Array.from({ length: 3000 }, (_, n) => `${n}`.padStart(5, 'k')).join('-');
    assert.equal(
      makeRedactor([value])(inspect({ value })),
      `{\n  value: '[redacted]'... 7999 more characters\n}`,
    );
  });

  test('half a character is a secret like any other', () => {
    assert.equal(makeRedactor(['\ud800abcdefgh'])('x\ud800abcdefghx'), 'x[redacted]x');
  });
});

describe('what is secret in credentials', () => {
  test('keys, tokens and whatever is not known to be public, also nested', () => {
    const found = secretValues({
      api_key: 'k',
      oauth_access_token: 't',
      secretAccessKey: 's',
      accessKeyId: 'i',
      anything: 'a',
      more: { list: ['x', { password: 'p' }], n: 5, host: 'h' },
      webhook_url: 'https://hooks.example.com/services/T000/B000/XXXXXXXXXXXXXXXXXXXXXXXX',
      database_url: 'postgres://user:pass@db.example.com/x',
    });
    assert.deepEqual(found, [
      'k',
      't',
      's',
      'i',
      'a',
      'x',
      'p',
      'https://hooks.example.com/services/T000/B000/XXXXXXXXXXXXXXXXXXXXXXXX',
      'postgres://user:pass@db.example.com/x',
    ]);
  });

  test('where and who are not', () => {
    const found = secretValues({
      base_api_url: 'gitlab.example.com',
      instance_url: 'https://eu.example.com/api/v4',
      host: 'db.example.com',
      port: '5432',
      username: 'ada@example.com',
      database: 'production',
      shop_id: 'my-first-shop',
      oauth_uid: '1234567890',
      oauth_client_id: 'client-1234567',
    });
    assert.deepEqual(found, []);
  });
});
