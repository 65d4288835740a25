import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { MailParser, UnreadableMailError } from './mail-parser.ts';

const bytes = (text: string) => [new TextEncoder().encode(text).buffer as ArrayBuffer];
const mb = 1024 * 1024;

describe('mails are parsed in threads of their own', () => {
  const parser = new MailParser();
  after(() => parser.close());
  const readsSmall = async (by = parser) => {
    const { mail, raw } = await by.parse(bytes('Subject: fine\r\n\r\nbody'));
    assert.equal(mail.headers.subject, 'fine');
    assert.equal(new TextDecoder().decode(raw), 'Subject: fine\r\n\r\nbody', 'the raw mail comes back');
  };

  test('a mail with an attachment of 20 MB comes through whole', async () => {
    const content = Buffer.alloc(20 * mb, 7);
    const encoded = content.toString('base64').replace(/.{76}/g, '$&\r\n');
    const { mail } = await parser.parse(
      bytes(
        `Content-Disposition: attachment; filename=a.bin\r\nContent-Type: application/x-bin\r\nContent-Transfer-Encoding: base64\r\n\r\n${encoded}`,
      ),
    );
    assert.equal(mail.attachments[0]?.content.byteLength, content.length);
  });

  for (const [what, text] of [
    ['30 MB of empty lines', `Subject: x\r\n\r\n${'\n'.repeat(30 * mb)}`],
    [
      'tens of thousands of parts',
      `Content-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\n\n'.repeat(50_000)}`,
    ],
    [
      'millions of soft line breaks',
      `Content-Transfer-Encoding: quoted-printable\r\n\r\n${'=\n'.repeat(15 * mb)}`,
    ],
    ['30 MB of one word', `Content-Type: text/html\r\n\r\n${'<'.repeat(30 * mb)}`],
    [
      'HTML in every part',
      `Content-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\nContent-Type: text/html\n\n<a><b>\n'.repeat(20_000)}`,
    ],
  ] as const) {
    test(`${what}: read or refused within the bounds, and the next mail is read as ever`, async () => {
      await parser.parse(bytes(text)).catch((error: unknown) => {
        assert.ok(error instanceof UnreadableMailError, String(error));
      });
      await readsSmall();
    });
  }

  test('a mail that takes too long is given up, and its thread with it', async () => {
    const hasty = new MailParser({ parseMaxMs: 1 });
    const big = bytes(`Subject: x\r\n\r\n${'line\n'.repeat(2 * mb)}`);
    await assert.rejects(hasty.parse(big), /not read after 1 ms/);
    await hasty.close();
  });

  test('a thread that dies takes no other mail with it', async () => {
    const cramped = new MailParser({ heapMbMax: 20 });
    const deadly = `Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\n\n${'x'.repeat(3 * mb)}\n--b\nContent-Type: text/html\n\n${'<a>&lt;'.repeat(mb)}\n--b--`;
    const dying = [1, 2].map(() =>
      assert.rejects(cramped.parse(bytes(deadly)), { name: 'UnreadableMailError', message: /memory limit/ }),
    );
    await Promise.all(Array.from({ length: 20 }, () => readsSmall(cramped)));
    await Promise.all(dying);
    await readsSmall(cramped);
    await cramped.close();
  });

  test('what is not read when the service stops is not called unreadable', async () => {
    const stopping = new MailParser();
    const reading = stopping.parse(bytes(`Subject: x\r\n\r\n${'line\n'.repeat(400_000)}`));
    const waiting = Array.from({ length: 3 }, () => stopping.parse(bytes('Subject: x\r\n\r\n')));
    const outcomes = Promise.allSettled([reading, ...waiting]);
    await stopping.close();
    for (const outcome of await outcomes)
      if (outcome.status === 'rejected') assert.ok(outcome.reason instanceof UnavailableError);
    await assert.rejects(stopping.parse(bytes('')), UnavailableError);
  });

  test('many at once wait for their turn', async () => {
    await Promise.all(Array.from({ length: 50 }, () => readsSmall()));
  });
});
