import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import PostalMime from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import { createMailServer, sendEmail } from '#workflows/sends/send-email.ts';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { MailServerStandIn } from '../../test/support/service-standins/mail-server.ts';

const authority = new CertificateAuthority();
const pdf = Buffer.from([0x25, 0x50, 0x44, 0x46, 0x00, 0xff]);

let actions: ActionFixture;
let server: MailServerStandIn;
let web: HttpReceiver;
before(async () => {
  actions = await startActionFixture({ extraCa: authority.pem });
  server = await MailServerStandIn.start(authority, 'ada', 'open sesame');
  web = await HttpReceiver.start({
    answer: ({ url }, response) =>
      void response
        .writeHead(200, { 'content-type': 'application/pdf' })
        .end(url === '/large' ? Buffer.alloc(3_000_000) : pdf),
  });
  // A file for attachments: all actions of the fixture are steps of one run.
  for (const [path, saveTo] of [
    ['/', '/tmp/report.pdf'],
    ['/large', '/tmp/large.pdf'],
  ])
    await actions.run('http-get-request', { httpRequest: { url: web.url + path }, saveTo });
});
after(async () => {
  await actions?.close();
  await server?.close();
  await web?.close();
});
beforeEach(() => {
  server.mails.length = 0;
});

const account = () => ({
  host: server.host,
  port: String(server.port),
  username: 'ada',
  password: 'open sesame',
});
const mail = {
  from: 'Shop <shop@example.com>',
  to: ['ada@example.com', 'Bob <bob@example.com>'],
  subject: 'Größe №5',
  text: 'Hello',
};
const send = (props: object) => actions.run('smtp-send-email', { ...mail, ...account(), ...props });

test('email-send-email-to-self sends to the user, with files, by the mail server of the operator', async () => {
  const { sends, exports, error } = await actions.run('email-send-email-to-self', {
    subject: 'New Guestbook Entry',
    text: 'Hello',
    html: '<p>Hello</p>',
    attachments: ['/tmp/report.pdf'],
  });
  assert.equal(error, undefined);
  assert.equal(exports.$summary, 'Sends "New Guestbook Entry" when the run has ended');
  assert.deepEqual(
    sends.map(({ kind }) => kind),
    ['email'],
  );
  const operator = createMailServer({
    url: `smtp://ada:open%20sesame@${server.host}:${server.port}`,
    from: 'millrace@example.com',
    extraCa: authority.pem,
  });
  try {
    const payload = JSON.stringify(sends[0]?.payload);
    const outcome = await sendEmail(operator, { payload }, async () => 'me@example.com');
    assert.equal(outcome.state, 'sent');
  } finally {
    operator.close();
  }
  const [taken] = server.mails;
  assert.deepEqual(taken?.to, ['me@example.com']);
  const read = await PostalMime.parse(taken?.text ?? '');
  assert.deepEqual(
    [read.subject, read.text?.trim(), read.html?.trim()],
    ['New Guestbook Entry', 'Hello', '<p>Hello</p>'],
  );
  assert.deepEqual(
    read.attachments.map(({ filename }) => filename),
    ['report.pdf'],
  );
  assert.deepEqual(Buffer.from(read.attachments[0]?.content as ArrayBuffer), pdf);
});

test('smtp-send-email sends by STARTTLS to all recipients, with files', async () => {
  const { ret, exports, error } = await send({
    cc: ['eve@example.com'],
    bcc: ['dan@example.com'],
    replyTo: 'help@example.com',
    html: '<p>Hello</p>',
    attachments: ['/tmp/report.pdf'],
  });
  assert.equal(error, undefined);
  const all = ['ada@example.com', 'bob@example.com', 'eve@example.com', 'dan@example.com'];
  assert.deepEqual(
    [(ret as { accepted: string[] }).accepted, (ret as { rejected: string[] }).rejected],
    [all, []],
  );
  assert.equal(exports.$summary, `Sent "Größe №5" to ${all.join(', ')}`);
  const [taken] = server.mails;
  assert.deepEqual([taken?.from, taken?.to, taken?.isEncrypted], ['shop@example.com', all, true]);
  const read = await PostalMime.parse(taken?.text ?? '');
  assert.deepEqual(
    [read.subject, read.text?.trim(), read.replyTo?.[0]?.address, read.bcc],
    ['Größe №5', 'Hello', 'help@example.com', undefined],
  );
  assert.deepEqual(Buffer.from(read.attachments[0]?.content as ArrayBuffer), pdf);
});

test('smtp-send-email takes the server from an account', async () => {
  const { error } = await actions.run('smtp-send-email', {
    ...{ ...mail, to: 'ada@example.com, bob@example.com', subject: 7 },
    smtp: { $auth: account() },
  });
  assert.equal(error, undefined);
  assert.deepEqual(server.mails[0]?.to, ['ada@example.com', 'bob@example.com']);
});

test('a password that is wrong, and a server that cannot be reached, are errors of the step', async () => {
  assert.match((await send({ password: 'wrong' })).error?.message ?? '', /535/);
  assert.match((await send({ port: 1 })).error?.message ?? '', /ECONNREFUSED|connect/);
  // This server takes no password before STARTTLS.
  assert.match((await send({ security: 'none' })).error?.message ?? '', /538|530|encrypt|TLS/i);
  assert.equal(server.mails.length, 0);
});

test('a password goes over a connection without encryption only where that was chosen', async () => {
  const users: (string | undefined)[] = [];
  const plain = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth: ({ username }, _session, done) => {
      users.push(username);
      done(null, { user: username });
    },
    onData: (stream, _session, done) => stream.resume().on('end', () => done()),
  });
  plain.on('error', () => {});
  await once(plain.listen(0, '127.0.0.1'), 'listening');
  try {
    const { port } = plain.server.address() as AddressInfo;
    assert.match((await send({ port })).error?.message ?? '', /STARTTLS/);
    assert.deepEqual(users, []);
    assert.equal((await send({ port, security: 'none' })).error, undefined);
    assert.deepEqual(users, ['ada']);
  } finally {
    await new Promise<void>((resolve) => plain.close(() => resolve()));
  }
});

const mistakes: [key: string, props: Record<string, unknown>, message: RegExp][] = [
  ['email-send-email-to-self', { subject: 'x' }, /^text: found nothing, expected a text, or HTML in html$/],
  [
    'email-send-email-to-self',
    { subject: 'x', text: 'y', attachments: ['/tmp/none'] },
    /^attachments\[0\]: there is no file \/tmp\/none, expected the path of one$/,
  ],
  [
    'email-send-email-to-self',
    { subject: 'x', text: 'y', attachments: ['/tmp/large.pdf', '/tmp/report.pdf'] },
    /^attachments\[1\]: the attachments have more than 3 MB, expected at most that$/,
  ],
  ['smtp-send-email', { ...mail, text: '' }, /^text: found nothing/],
  ['smtp-send-email', { ...mail, to: [] }, /^to: found an array, expected at least one email address$/],
  ['smtp-send-email', { ...mail, to: ['ada'] }, /^to: found "ada", expected an email address$/],
  [
    'smtp-send-email',
    { ...mail, cc: ['a@b.c\nBcc: d@e.f'] },
    /^cc: found "a@b.c\\nBcc: d@e.f", expected an email address$/,
  ],
  ['smtp-send-email', { ...mail, from: '' }, /^from: found nothing, expected an email address$/],
  [
    'smtp-send-email',
    mail,
    /^host: found nothing, expected the name of a mail server, or an account with one$/,
  ],
  ['smtp-send-email', { ...mail, host: 'localhost', port: 'x' }, /^port: found "x", expected an integer/],
  [
    'smtp-send-email',
    { ...mail, host: 'localhost', security: 'ssl' },
    /^security: found "ssl", expected one of tls, starttls, none$/,
  ],
];
for (const [key, props, message] of mistakes) {
  test(`${key} says what is wrong with ${JSON.stringify(props)}`, async () => {
    const { error, sends } = await actions.run(key, props);
    assert.equal(error?.name, 'ConfigurationError');
    assert.match(error?.message ?? '', message);
    assert.deepEqual(sends, []);
  });
}
