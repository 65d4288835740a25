import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type MailEnvelope, type MailFiles, mailEventBytesMax, mailEventJson } from './mail-event.ts';
import { attachmentsMax, type ParsedMail, parseMail } from './parse-mail.ts';

const raw = (text: string | Uint8Array): ArrayBuffer =>
  (typeof text === 'string' ? new TextEncoder().encode(text) : new Uint8Array(text)).buffer as ArrayBuffer;
const lines = (...parts: string[]) => raw(parts.join('\r\n'));

const envelope: MailEnvelope = {
  id: 'id',
  receivedAtMs: Date.parse('2026-11-21T10:00:00Z'),
  sender: 'bounce@sender.example',
  recipients: ['em0123456789abc+news@mail.example'],
  plusTag: 'news',
  clientIp: '192.0.2.1',
  helo: 'sender.example',
  secure: false,
  size: 1000,
};

function eventOf(mail: ParsedMail) {
  const files: MailFiles = {
    rawUrl: 'https://files/raw',
    textUrl: mail.text?.whole ? 'https://files/text' : null,
    htmlUrl: null,
    attachmentUrls: mail.attachments.map((_, n) => `https://files/${n}`),
  };
  const json = mailEventJson(mail, files, envelope);
  assert.ok(Buffer.byteLength(json) <= mailEventBytesMax);
  return JSON.parse(json);
}

describe('the event of a mail', () => {
  test('has what the sender wrote, where those who read such events look for it', async () => {
    const mail = await parseMail(
      lines(
        'Received: from a by b',
        'Received: from c by d',
        'From: =?utf-8?Q?J=C3=BCrgen?= <j@sender.example>',
        'To: "A, B" <a@x.example>, b@x.example',
        'Cc: c@x.example',
        'Reply-To: r@x.example',
        'Subject: =?utf-8?B?R3LDvMOfZQ==?=',
        'Message-ID: <1@sender.example>',
        'Date: Sat, 21 Nov 2026 11:00:00 +0100',
        'X-Custom: yes',
        'Content-Type: multipart/mixed; boundary="b;1"',
        '',
        '--b;1',
        'Content-Type: multipart/alternative; boundary=b2',
        '',
        '--b2',
        'Content-Type: text/plain; charset=iso-8859-1',
        'Content-Transfer-Encoding: quoted-printable',
        '',
        'Sch=F6n',
        '--b2',
        'Content-Type: text/html; charset=utf-8',
        '',
        '<b>Schön</b>',
        '--b2--',
        '--b;1',
        'Content-Type: text/csv; name="data.csv"',
        'Content-Disposition: attachment; filename="../../etc/data.csv"',
        '',
        'a,b',
        '--b;1',
        'Content-Type: image/png',
        'Content-Disposition: attachment',
        'Content-Transfer-Encoding: base64',
        '',
        'iVBORw0KGgo=',
        '--b;1--',
      ),
    );
    const event = eventOf(mail);
    assert.equal(event.subject, 'Grüße');
    assert.equal(event.headers.subject, 'Grüße');
    assert.equal(event.mail.commonHeaders.subject, 'Grüße');
    assert.deepEqual(event.from.value, [{ address: 'j@sender.example', name: 'Jürgen' }]);
    assert.deepEqual(event.headers.from, event.from);
    assert.deepEqual(
      event.to.value.map((to: { address: string }) => to.address),
      ['a@x.example', 'b@x.example'],
    );
    assert.equal(event.cc.value[0].address, 'c@x.example');
    assert.equal(event.replyTo.text, 'r@x.example');
    assert.equal(event.date, '2026-11-21T10:00:00.000Z');
    assert.equal(event.mail.commonHeaders.date, 'Sat, 21 Nov 2026 11:00:00 +0100');
    assert.equal(event.messageId, '<1@sender.example>');
    assert.deepEqual(event.headers.received, ['from a by b', 'from c by d']);
    assert.equal(event.headers['x-custom'], 'yes');
    assert.deepEqual(event.headers['content-type'], {
      value: 'multipart/mixed',
      params: { boundary: 'b;1' },
    });
    assert.deepEqual(event.mail.commonHeaders.from, ['Jürgen <j@sender.example>']);
    assert.deepEqual(event.mail.headers[0], { name: 'Received', value: 'from a by b' });
    assert.deepEqual([event.body.text.trim(), event.body.html.trim()], ['Schön', '<b>Schön</b>']);
    assert.equal(event.body.truncated, false);
    assert.deepEqual(
      [event.mail.content_url, event.rawUrl, event.recipient, event.plusTag],
      ['https://files/raw', 'https://files/raw', 'em0123456789abc+news@mail.example', 'news'],
    );
    assert.deepEqual([event.mail.source, event.mail.destination], [envelope.sender, envelope.recipients]);
    const [csv, png] = event.attachments;
    assert.equal(csv.filename, '.._.._etc_data.csv');
    assert.deepEqual(
      [csv.contentType, csv.content.trim(), csv.contentTruncated, csv.contentUrl],
      ['text/csv', 'a,b', false, 'https://files/0'],
    );
    assert.deepEqual([png.filename, png.contentType, png.size], ['attachment-2', 'image/png', 8]);
    assert.equal('content' in png, false, 'only text is in the event');
  });

  test('is whole without any header', async () => {
    const event = eventOf(await parseMail(raw('')));
    assert.deepEqual(
      [event.subject, event.from, event.to, event.date, event.body.text],
      [null, null, null, null, null],
    );
    assert.equal(eventOf(await parseMail(raw('\r\nonly a body'))).body.text.trim(), 'only a body');
  });

  test('takes the first of a header that may be there once, and no header changes what an object is', async () => {
    const event = eventOf(
      await parseMail(
        lines(
          'From: a@x.example',
          'From: b@x.example',
          'Subject: 1',
          'Subject: 2',
          '__proto__: x',
          'constructor: y',
          '',
          '',
        ),
      ),
    );
    assert.deepEqual([event.from.value[0].address, event.subject], ['a@x.example', '1']);
    assert.equal(Object.hasOwn(event.headers, '__proto__'), false);
    assert.equal(event.headers.constructor, 'y');
  });

  test('a header that hides another behind a bare line end stays one value', async () => {
    const event = eventOf(
      await parseMail(
        raw(
          'Subject: hello\rBcc: victim@x.example\r\nX-A: =?utf-8?Q?a=0D=0ATo:_evil@x.example?=\r\n\r\nbody',
        ),
      ),
    );
    assert.equal(event.headers.bcc, undefined);
    assert.equal(event.to, null);
    assert.match(event.subject, /^hello/);
    assert.equal(event.headers['x-a'], 'a To: evil@x.example');
  });

  test('stays small: long texts and headers are cut with a flag, and the whole of a text is kept beside it', async () => {
    const long = 'x'.repeat(400_000);
    const mail = await parseMail(
      lines(
        ...Array.from({ length: 3000 }, (_, n) => `X-H${n}: ${'v'.repeat(200)}`),
        'Subject: last',
        '',
        long,
      ),
    );
    assert.equal(mail.text?.whole?.byteLength, 400_001);
    const event = eventOf(mail);
    assert.equal(event.body.truncated, true);
    assert.equal(event.body.text.length, 100_000);
    assert.equal(event.body.textUrl, 'https://files/text');
    assert.equal(event.mail.headersTruncated, true);
    // The worst that JSON makes of a character.
    const control = eventOf(await parseMail(raw(`\r\n${'\u0001'.repeat(200_000)}`)));
    assert.ok(control.body.text.length > 20_000);
    const smile = eventOf(await parseMail(raw(`\r\n${'😀'.repeat(120_000)}`)));
    assert.equal(smile.body.text.isWellFormed(), true);
  });

  test('text attachments are there up to 10,000 bytes, and not all of them when they are many', async () => {
    const part = (n: number) => [
      '--b',
      'Content-Type: text/plain',
      `Content-Disposition: attachment; filename=${n}.txt`,
      '',
      'y'.repeat(12_000),
    ];
    const mail = await parseMail(
      lines(
        'Content-Type: multipart/mixed; boundary=b',
        '',
        ...Array.from({ length: 150 }, (_, n) => part(n)).flat(),
        '--b--',
      ),
    );
    const event = eventOf(mail);
    assert.equal(event.attachments.length, attachmentsMax);
    assert.equal(event.attachmentsTruncated, true);
    assert.equal(event.attachments[0].content.length, 10_000);
    assert.equal(event.attachments[0].contentTruncated, true);
    assert.equal(event.attachments[99].content, '');
    assert.equal(event.attachments[99].contentUrl, 'https://files/99');
  });
});

describe('a text attachment', () => {
  const attached = async (contentType: string, content: string | number[]) => {
    const bytes = typeof content === 'string' ? Buffer.from(content) : Buffer.from(content);
    const mail = lines(
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      'Content-Type: text/plain; charset=iso-8859-1',
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from('Schön', 'latin1').toString('base64'),
      '--b',
      `Content-Type: ${contentType}`,
      'Content-Disposition: attachment; filename=a.txt',
      'Content-Transfer-Encoding: base64',
      '',
      ...(bytes.toString('base64').match(/.{1,76}/g) ?? []),
      '--b--',
    );
    const event = eventOf(await parseMail(mail));
    assert.equal(event.body.text.trim(), 'Schön');
    return event.attachments[0];
  };

  for (const [charset, bytes, text] of [
    ['iso-8859-1', [0x47, 0x72, 0xfc, 0xdf, 0x65], 'Grüße'],
    ['"WINDOWS-1252"', [0x80, 0x35], '€5'],
    ['iso-8859-15', [0xa4], '€'],
    ['koi8-r', [0xc4, 0xc1], 'да'],
    ['Shift_JIS', [0x93, 0xfa, 0x96, 0x7b], '日本'],
    ['cp932', [0x93, 0xfa], '日'],
    ['utf-16le', [0x41, 0x00, 0x42, 0x00], 'AB'],
    ['klingon', [0xfc], 'ü'],
  ] as const) {
    test(`in ${charset} is decoded from it, as the body is`, async () => {
      assert.equal((await attached(`text/csv; charset=${charset}`, [...bytes])).content, text);
    });
  }

  test('without a charset is UTF-8, or what its byte order mark says', async () => {
    assert.equal((await attached('text/plain', 'Grüße')).content, 'Grüße');
    assert.equal((await attached('application/json', '{"ü":1}')).content, '{"ü":1}');
    assert.equal((await attached('text/csv', [0xff, 0xfe, 0xfc, 0x00])).content, 'ü');
    assert.equal(
      (await attached('text/csv; charset=utf-16', [0xfe, 0xff, 0x00, 0xfc])).content,
      'ü',
      'big endian',
    );
    assert.equal(
      (await attached('text/csv; charset=iso-8859-1', [0xef, 0xbb, 0xbf, 0xc3, 0xbc])).content,
      'ü',
    );
  });

  test('that is cut ends with a whole character of its charset', async () => {
    const wide = await attached('text/plain; charset=shift_jis', [
      0x61,
      ...Array.from({ length: 6000 }, () => [0x93, 0xfa]).flat(),
    ]);
    assert.equal(wide.contentTruncated, true);
    assert.equal(wide.content, `a${'日'.repeat(4999)}`);
  });

  test('of a calendar is decoded once', async () => {
    const calendar = await attached('text/calendar; charset=iso-8859-1; method=REQUEST', [0xfc]);
    assert.equal(calendar.content, 'ü\n');
  });
});

describe('a hostile mail', () => {
  const withHeader = (header: string, body = '') => raw(`${header}\r\n\r\n${body}`);
  const nested = (depth: number) => {
    const heads = Array.from(
      { length: depth },
      (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
    );
    return raw(`${heads.join('')}\r\nend`);
  };

  for (const [what, mail] of [
    ['parts that never end', withHeader('Content-Type: multipart/mixed; boundary=x', '--x\r\n--x\r\n--x')],
    ['a boundary without parts', withHeader('Content-Type: multipart/mixed; boundary=x', 'text')],
    ['no boundary', withHeader('Content-Type: multipart/mixed', '--x\r\n\r\na')],
    [
      'its own boundary inside',
      withHeader(
        'Content-Type: multipart/mixed; boundary=x',
        '--x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n--x--',
      ),
    ],
    ['an unknown charset', withHeader('Content-Type: text/plain; charset=klingon', 'a')],
    ['broken base64', withHeader('Content-Transfer-Encoding: base64', '=====A===\r\n~~~')],
    ['broken quoted-printable', withHeader('Content-Transfer-Encoding: quoted-printable', '=\r\n=Z=\r\n=0')],
    ['broken encoded words', withHeader('Subject: =?utf-8?B?////?= =?x?Q?=ZZ?= =?utf-8?Q?')],
    ['broken addresses', withHeader('From: <<<>>>,;:"@\r\nTo: undisclosed-recipients:;;;,,,@')],
    ['lines of spaces', withHeader(`Subject:${' '.repeat(100_000)}x`)],
    [
      'a message in a message in a message',
      withHeader(
        'Content-Type: message/rfc822',
        'Content-Type: message/rfc822\r\n\r\nContent-Type: message/rfc822\r\n\r\nend',
      ),
    ],
    ['half an emoji', withHeader('Subject: \ud83d', '\ud83d')],
  ] as const) {
    test(`with ${what} is read as far as it goes`, async () => {
      eventOf(await parseMail(mail));
    });
  }

  test('of parts within parts is refused beyond 20 of them', async () => {
    eventOf(await parseMail(nested(15)));
    await assert.rejects(parseMail(nested(5000)), /nesting depth/);
  });

  test('with a gigantic header is refused', async () => {
    await assert.rejects(parseMail(withHeader(`X-Big: ${'x'.repeat(2_000_000)}`)), /header size/i);
    await assert.rejects(parseMail(withHeader('X: 1\r\n'.repeat(400_000).trimEnd())), /header size/i);
  });

  test('that goes round in a circle is refused', async () => {
    await assert.rejects(parseMail(withHeader('Received: from a\r\n'.repeat(101).trimEnd())), /servers/);
  });

  test('of any bytes is read or refused', async () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          '\r\n',
          '\n',
          '\r\n\r\n',
          '--b\r\n',
          '--b--\r\n',
          'Content-Type: multipart/mixed; boundary=b\r\n',
          'Content-Type: text/html; charset=utf-7\r\n',
          'Content-Transfer-Encoding: base64\r\n',
          "Content-Disposition: attachment; filename*=utf-8''%ff%00\r\n",
          'Content-Type: message/rfc822\r\n',
          'From: a <b@c>\r\n',
          'Date: never\r\n',
        )
        .map((text) => Buffer.from(text)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 30 }), async (pieces) => {
        eventOf(await parseMail(raw(Buffer.concat(pieces))));
      }),
      { numRuns: 500 },
    );
  });
});
