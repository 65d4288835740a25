import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import nodemailer from 'nodemailer';
import { pino } from 'pino';
import { ActiveOwners } from '#lib/active-owners.ts';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { SmtpClient } from '../../test/support/smtp-client.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { startMailServer } from './mail-service.ts';

type MailOptions = Parameters<typeof startMailServer>[0];

/** No mail comes here. */
const acceptorOptions = { domain: () => 'mail.example' } as MailOptions['acceptorOptions'];

/** Starts a mail server with these settings on a free port, and answers what it says when it is ready. */
async function startWith(settings: Partial<MailOptions['settings']>) {
  let ready: { host?: string; port?: number } = {};
  const write = (line: string): void => {
    ready = JSON.parse(line);
  };
  const server = await startMailServer({
    settings: { smtpHost: '127.0.0.1', smtpPort: 0, smtpTlsKey: '', smtpTlsCert: '', ...settings },
    acceptorOptions,
    logger: pino({}, { write }),
    ...{ owners: new ActiveOwners(), onDelayed: () => {} },
  });
  const { host, port = 0 } = ready;
  return { host, port, [Symbol.asyncDispose]: () => server.close() };
}

describe('the mail server of the settings', () => {
  test('listens on the address of MILLRACE_SMTP_HOST, and does not start where that is none of this machine', async () => {
    await using here = await startWith({ smtpHost: 'localhost' });
    assert.equal(here.host, 'localhost');
    // The address is one of RFC 5737, for documentation, which no machine has.
    const elsewhere = startWith({ smtpHost: '192.0.2.1' }).then((server) => server[Symbol.asyncDispose]());
    await assert.rejects(elsewhere, { code: 'EADDRNOTAVAIL' });
  });

  test('offers STARTTLS with MILLRACE_SMTP_TLS_KEY and MILLRACE_SMTP_TLS_CERT, and not without', async () => {
    await using plain = await startWith({});
    const client = await SmtpClient.connect(plain.port);
    assert.doesNotMatch(await client.say('EHLO x'), /STARTTLS/);
    client.close();

    await using folder = await createTempFolder();
    const authority = new CertificateAuthority();
    const { key, cert } = authority.issue(['127.0.0.1']);
    const [smtpTlsKey, smtpTlsCert] = [join(folder.path, 'key.pem'), join(folder.path, 'cert.pem')];
    await writeFile(smtpTlsKey, key);
    await writeFile(smtpTlsCert, cert);
    await using secure = await startWith({ smtpTlsKey, smtpTlsCert });
    const { port } = secure;
    const tls = { ca: authority.pem };
    const transport = nodemailer.createTransport({ host: '127.0.0.1', port, requireTLS: true, tls });
    assert.equal(await transport.verify(), true);
    transport.close();
  });
});
