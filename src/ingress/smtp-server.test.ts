import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import nodemailer from 'nodemailer';
import { jobRow } from '#jobs/job-store.ts';
import { ActiveOwners } from '#lib/active-owners.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { replaceTriggers } from '#workflows/definitions/trigger-store.ts';
import { insertWorkflow, updateWorkflow } from '#workflows/definitions/workflow-store.ts';
import type { RunPreparer } from '#workflows/runs/insert-prepared.ts';
import { newRunRow } from '#workflows/runs/new-run.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';
import type { RunStarter } from '#workflows/runs/start-run.ts';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { SmtpClient } from '../../test/support/smtp-client.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { MailAcceptor } from './mail-acceptor.ts';
import { MailParser } from './mail-parser.ts';
import { MailServer, type SmtpServerOptions } from './smtp-server.ts';

const mb = 1024 * 1024;
const domain = 'mail.example';
const first = `em${'a'.repeat(13)}`;
const second = `em${'b'.repeat(13)}`;
const third = `em${'c'.repeat(13)}`;

/** Rows as they are stored; nothing runs them. */
function prepareRow(trigger: RunTrigger) {
  const nowMs = Date.now();
  const id = newTimeOrderedId(nowMs);
  const run = newRunRow(trigger, { id, nowMs, token: 'token', state: 'queued' });
  const payload = { run_id: id, workflow_id: trigger.workflowId };
  const job = jobRow({ id, kind: 'run_workflow', ownerId: trigger.ownerId, payload, runAtMs: nowMs, nowMs });
  return { run, job };
}

async function addWorkflow(store: Store, id: string, ownerId: string, key: string): Promise<void> {
  const times = { created_at_ms: 1, updated_at_ms: 1 };
  await store.transaction(async (tx) => {
    await insertWorkflow(tx, {
      ...times,
      id,
      owner_id: ownerId,
      user_id: ownerId,
      project_id: null,
      name: id,
      state: 'active',
      flow_control: null,
      deployment_id: `d_${id}`,
    });
    await replaceTriggers(store, tx, id, [
      {
        ...times,
        workflow_id: id,
        id: `ei_${id}`,
        owner_id: ownerId,
        kind: 'email',
        position: 0,
        key,
        custom_response: 0,
        auth: null,
        interval_seconds: null,
        cron: null,
        timezone: 'UTC',
        owned: 0,
        schedule_changed_at_ms: 1,
      },
    ]);
  });
}

describe('the mail server', () => {
  forEachStore((fixture) => {
    let server: MailServer;
    let port: number;
    const parser = new MailParser();
    /** What was kept, by URL. */
    const kept = new Map<string, { ownerId: string; name: string; contentType: string; bytes: Buffer }>();
    let keepFails: Error | undefined;
    let startFails: Error | undefined;
    let stored: string[] = [];
    let overQuota = false;
    let isFull = false;
    const runs: RunPreparer & Pick<RunStarter, 'hasRoom'> = {
      hasRoom: async () => !isFull,
      prepare: (trigger) => {
        if (startFails !== undefined) throw startFails;
        const row = prepareRow(trigger);
        return { ...row, stored: () => void stored.push(row.run.id) };
      },
    };
    const start = async (
      options: Pick<SmtpServerOptions, 'tls' | 'bounds' | 'owners' | 'onDelayed'> = {},
    ) => {
      const acceptor = new MailAcceptor({
        store: fixture.store,
        runs,
        parser,
        clock: systemClock,
        domain: () => domain,
        mayRun: () => !overQuota,
        files: {
          keep: async ({ ownerId, name, contentType }, content) => {
            if (keepFails !== undefined) throw keepFails;
            const url = `https://files.example/${kept.size}`;
            kept.set(url, { ownerId, name, contentType, bytes: Buffer.concat([...content]) });
            return url;
          },
        },
      });
      const made = new MailServer({ acceptor, logger: silentLogger, name: () => domain, ...options });
      return { made, port: await made.listen('127.0.0.1', 0) };
    };
    before(async () => {
      ({ made: server, port } = await start());
    });
    after(async () => {
      await server.close();
      await parser.close();
    });
    beforeEach(async () => {
      kept.clear();
      stored = [];
      keepFails = undefined;
      startFails = undefined;
      overQuota = false;
      await addWorkflow(fixture.store, 'p_1', 'u_1', first);
      await addWorkflow(fixture.store, 'p_2', 'u_2', second);
      await addWorkflow(fixture.store, 'p_3', 'u_1', third);
    });

    const runsStored = () =>
      fixture.store.read
        .selectFrom('runs')
        .select(['id', 'workflow_id', 'emitter_id', 'source_type', 'deployment_id', 'event'])
        .orderBy('workflow_id')
        .execute();
    /** A mail said by hand; the reply to its end. */
    const deliver = async (to: readonly string[], mail: string | Buffer, from = 'a@sender.example') => {
      const client = await SmtpClient.connect(port);
      try {
        const reply = await client.begin(from, to);
        if (!reply.startsWith('354')) return reply;
        await client.send(mail);
        await client.send('\r\n.\r\n');
        return await client.reply();
      } finally {
        client.close();
      }
    };
    const rcpt = async (address: string) => {
      const client = await SmtpClient.connect(port);
      await client.say('MAIL FROM:<a@sender.example>');
      const reply = await client.say(`RCPT TO:<${address}>`);
      client.close();
      return reply;
    };

    test('a mail to a workflow is a run with its job, and everything of it is kept before 250', async () => {
      const transport = nodemailer.createTransport({
        host: '127.0.0.1',
        port,
        secure: false,
        ignoreTLS: true,
      });
      const sent = await transport.sendMail({
        from: 'Jürgen <j@sender.example>',
        to: `${first}+Invoices@${domain}`,
        subject: 'Rechnung für März',
        text: 'Anbei.',
        html: '<p>Anbei.</p>',
        attachments: [
          { filename: 'rechnung.csv', content: 'a,b\n1,2\n' },
          {
            filename: 'alt.csv',
            content: Buffer.from('Grüße', 'latin1'),
            contentType: 'text/csv; charset=iso-8859-1',
          },
        ],
      });
      transport.close();
      assert.match(sent.response, /^250 /);
      const [run, ...others] = await runsStored();
      assert.deepEqual(others, []);
      assert.deepEqual(
        [run?.workflow_id, run?.emitter_id, run?.source_type, run?.deployment_id],
        ['p_1', 'ei_p_1', 'EMAIL', 'd_p_1'],
      );
      assert.deepEqual(stored, [run?.id]);
      const event = JSON.parse(run?.event ?? '');
      assert.equal(event.subject, 'Rechnung für März');
      assert.equal(event.plusTag, 'Invoices');
      assert.equal(event.body.text.trim(), 'Anbei.');
      assert.equal(event.mail.source, 'j@sender.example');
      assert.equal(event.receipt.clientIp, '127.0.0.1');
      assert.equal(event.attachments[0].content, 'a,b\n1,2\n');
      assert.equal(kept.get(event.attachments[0].contentUrl)?.bytes.toString(), 'a,b\n1,2\n');
      const latin = event.attachments[1];
      assert.deepEqual([latin.contentType, latin.content], ['text/csv', 'Grüße']);
      assert.equal(kept.get(latin.contentUrl)?.contentType, 'text/csv; charset=iso-8859-1');
      assert.match(String(kept.get(event.mail.content_url)?.bytes), /^From: /);
    });

    test('an address is unknown with 550: another domain, another key, an inactive workflow, or none', async () => {
      const known = [first, first.toUpperCase(), `${first}+tag`, `${first}@upload`].map((local) =>
        local.includes('@') ? `${local}.${domain}` : `${local}@${domain}`,
      );
      // At once, because the server lets each connection wait for its greeting.
      const eachIs = (expected: RegExp, addresses: string[]) =>
        Promise.all(addresses.map(async (address) => assert.match(await rcpt(address), expected, address)));
      await eachIs(/^250/, [...known, `${first}@${domain.toUpperCase()}`]);
      await eachIs(/^550/, [
        `em${'z'.repeat(13)}@${domain}`,
        `postmaster@${domain}`,
        `${first}@elsewhere.example`,
        `${first}x@${domain}`,
        `+${first}@${domain}`,
        `"${first}"@sub.${domain}`,
      ]);
      await fixture.store.transaction((tx) =>
        updateWorkflow(tx, 'p_1', { state: 'inactive', updated_at_ms: 2 }),
      );
      assert.match(await rcpt(`${first}@${domain}`), /^550/);
    });

    test('several recipients are a run for each workflow, and none learns the addresses of others', async () => {
      const to = [
        `${first}@${domain}`,
        `${second}@${domain}`,
        `${first}+again@${domain}`,
        `${third}@${domain}`,
      ];
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^250/);
      const rows = await runsStored();
      assert.deepEqual(
        rows.map((row) => row.workflow_id),
        ['p_1', 'p_2', 'p_3'],
      );
      const events = rows.map((row) => JSON.parse(row.event));
      assert.deepEqual(events[0].mail.destination, [to[0], to[2]]);
      assert.deepEqual(events[1].receipt.recipients, [to[1]]);
      assert.deepEqual(
        events.map((event) => kept.get(event.rawUrl)?.ownerId),
        ['u_1', 'u_2', 'u_1'],
      );
      assert.equal(kept.size, 2, 'once for each owner');
    });

    test('30 MB are announced, and a mail of nearly so many is accepted', async () => {
      const client = await SmtpClient.connect(port);
      assert.match(await client.say('EHLO x'), new RegExp(`SIZE ${30 * mb}\\b`));
      assert.match(await client.say(`MAIL FROM:<a@b.example> SIZE=${30 * mb + 1}`), /^552/);
      client.close();
      // What is large of it goes to the files, and not to the store of this dialect.
      if (fixture.dialect === 'postgres') return;
      const line = Buffer.from(`${'x'.repeat(998)}\r\n`);
      const large = Buffer.concat([Buffer.from('\r\n'), Buffer.alloc(29 * mb, line)]);
      assert.match(await deliver([`${first}@${domain}`], large), /^250/);
    });

    test('one byte more than is announced is refused with 552, at MAIL or after the sender lied', async () => {
      const small = await start({ bounds: { bytesMax: 2 * mb } });
      const client = await SmtpClient.connect(small.port);
      assert.match(await client.say('EHLO x'), new RegExp(`SIZE ${2 * mb}\\b`));
      assert.match(await client.say(`MAIL FROM:<a@b.example> SIZE=${2 * mb + 1}`), /^552/);
      client.close();
      const liar = await SmtpClient.connect(small.port);
      await liar.say('MAIL FROM:<a@b.example> SIZE=100');
      await liar.say(`RCPT TO:<${first}@${domain}>`);
      await liar.say('DATA');
      const line = Buffer.alloc(mb, `${'x'.repeat(998)}\r\n`);
      for (let sent = 0; sent < 3; sent += 1) await liar.send(line);
      await liar.send('\r\n.\r\n');
      assert.match(await liar.reply(), /^552/);
      assert.match(await liar.say('NOOP'), /^250/, 'the connection continues');
      liar.close();
      assert.deepEqual([await runsStored(), kept.size], [[], 0]);
      await small.made.close();
    });

    test('a client that keeps sending beyond all bounds is cut off', async () => {
      const small = await start({ bounds: { bytesMax: mb, discardedBytesMax: 2 * mb } });
      const client = await SmtpClient.connect(small.port);
      await client.begin('a@b.example', [`${first}@${domain}`]);
      const chunk = Buffer.alloc(mb, `${'x'.repeat(998)}\r\n`);
      for (let sent = 0; sent < 200 && !client.closed; sent += 1) await client.send(chunk);
      assert.match(await client.reply(), /^552/);
      await waitFor(() => client.closed);
      assert.deepEqual(await runsStored(), []);
      await small.made.close();
    });

    test('nothing is accepted that could not be stored: 451 says try again, and no run is left', async () => {
      const to = [`${first}@${domain}`, `${second}@${domain}`];
      keepFails = new UnavailableError('storage_full', 'full');
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^451/);
      keepFails = new CallerError('files_full', 'full');
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^452/);
      keepFails = undefined;
      startFails = new UnavailableError('store_unavailable', 'gone');
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^451/);
      startFails = new Error('a fault of ours');
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^451/);
      startFails = undefined;
      assert.deepEqual([await runsStored(), stored], [[], []]);
      assert.match(await deliver(to, 'Subject: hi\r\n\r\nbody'), /^250/);
      assert.equal((await runsStored()).length, 2);
    });

    test('an owner over quota: 452, so that the sender tries again', async () => {
      overQuota = true;
      assert.match(await rcpt(`${first}@${domain}`), /^452/);
    });

    test('a workflow for which too many mails wait: 452, and no run of any recipient', async () => {
      overQuota = false;
      isFull = true;
      assert.match(await deliver([`${first}@${domain}`], 'Subject: hi\r\n\r\nbody'), /^452/);
      isFull = false;
      assert.deepEqual(await runsStored(), []);
    });

    test('a mail that cannot be read is refused for good, with 554', async () => {
      const deep = Array.from(
        { length: 200 },
        (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
      );
      assert.match(await deliver([`${first}@${domain}`], deep.join('')), /^554/);
      assert.match(await deliver([`${first}@${domain}`], `X: ${'y'.repeat(2 * mb)}\r\n\r\n`), /^554/);
      assert.match(await deliver([`${first}@${domain}`], Buffer.alloc(1000, 0xff)), /^250/);
      assert.match(await deliver([`${first}@${domain}`], ''), /^250/);
      assert.match(await deliver([`${first}@${domain}`], 'Subject: bounce\r\n\r\n', ''), /^250/, 'a bounce');
    });

    test('commands in an address, and a mail within a mail, are neither', async () => {
      const hidden = [`${first}\rX@${domain}`, `${first}@${domain}\0`, `${first}@${domain}\nX`];
      await Promise.all(
        hidden.map(async (address) => assert.match(await rcpt(address), /^5/, JSON.stringify(address))),
      );
      const smuggled = `Subject: one\r\n\r\nbody\n.\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<${second}@${domain}>\r\nDATA\r\n\r\nhi`;
      assert.match(await deliver([`${first}@${domain}`], smuggled), /^250/);
      assert.deepEqual(
        (await runsStored()).map((run) => run.workflow_id),
        ['p_1'],
      );
    });

    test('who guesses addresses is shown out; who leaves in the middle of a mail leaves nothing', async () => {
      const guesser = await SmtpClient.connect(port);
      await guesser.say('MAIL FROM:<a@b.example>');
      let reply = '';
      for (let n = 0; n < 12 && !reply.startsWith('421'); n += 1) {
        reply = await guesser.say(`RCPT TO:<em${String(n).padStart(13, '0')}@${domain}>`);
        assert.match(reply, /^(550|421)/);
      }
      assert.match(reply, /^421/);
      const client = await SmtpClient.connect(port);
      await client.begin('a@b.example', [`${first}@${domain}`]);
      await client.send('Subject: half\r\n\r\nbo');
      client.close();
      assert.match(await deliver([`${second}@${domain}`], 'Subject: whole\r\n\r\n'), /^250/);
      assert.deepEqual(
        (await runsStored()).map((run) => run.workflow_id),
        ['p_2'],
      );
    });

    test('commands without a mail are bounded, and an address that sent more is refused for a while', async () => {
      const own = await start({ bounds: { refusalDelayMs: 1 } });
      try {
        const client = await SmtpClient.connect(own.port);
        for (let mails = 0; mails < 3; mails += 1) {
          for (let n = 0; n < 100; n += 1) assert.match(await client.say('NOOP'), /^250/);
          await client.begin('a@b.example', [`${first}@${domain}`]);
          assert.match(await client.say('Subject: one of many\r\n\r\nbody\r\n.'), /^250/);
        }
        let reply = '250';
        let replies = 0;
        for (; reply.startsWith('250') && replies < 300; replies += 1) reply = await client.say('EHLO again');
        assert.equal(reply, '421 Too many commands without a mail; try again later');
        assert.equal(replies, 200);
        const refused = await SmtpClient.open(own.port);
        assert.match(await refused.reply(), /^421 .*Too many commands without a mail/);
      } finally {
        await own.made.close();
      }
    });

    test('a mail that takes too long is cut off, and mails beyond the memory for all of them wait: 451', async () => {
      const slow = await start({ bounds: { receiveMaxMs: 200 } });
      const client = await SmtpClient.connect(slow.port);
      await client.begin('a@b.example', [`${first}@${domain}`]);
      await client.send('Subject: slow\r\n');
      assert.match(await client.reply(), /^421/);
      client.close();
      await slow.made.close();
      const small = await start({ bounds: { memoryBytes: mb } });
      const big = await SmtpClient.connect(small.port);
      await big.begin('a@b.example', [`${first}@${domain}`]);
      await big.send(Buffer.alloc(2 * mb, 'x\r\n'));
      await big.send('\r\n.\r\n');
      assert.match(await big.reply(), /^451/);
      assert.match(await big.begin('a@b.example', [`${first}@${domain}`]), /^354/);
      assert.match(await big.say('Subject: small\r\n\r\n.'), /^250/, 'what a mail took was given back');
      big.close();
      await small.made.close();
    });

    test('while other owners have something to do, mails for one owner are read at its pace, and arrive whole', async () => {
      const owners = new ActiveOwners();
      let waits = 0;
      const paced = await start({
        owners,
        // A machine that is busy may read as little as eight megabytes a second by itself.
        bounds: { bytesPerSecond: 2 * mb, bytesAtOnce: 64 * 1024 },
        onDelayed: (ownerId) => {
          assert.equal(ownerId, 'u_1');
          waits += 1;
        },
      });
      const lines = Buffer.from(`${'x'.repeat(76)}\r\n`.repeat(20_000));
      const send = async () => {
        const client = await SmtpClient.connect(paced.port);
        try {
          assert.match(await client.begin('a@sender.example', [`${first}@${domain}`]), /^354/);
          await client.send(Buffer.concat([Buffer.from('Subject: large\r\n\r\n'), lines]));
          await client.send('\r\n.\r\n');
          assert.match(await client.reply(), /^250/);
        } finally {
          client.close();
        }
      };
      await send();
      assert.equal(waits, 0, 'nothing waits for an owner that is alone');
      kept.clear();
      const others = setInterval(() => owners.note('u_other'), 20);
      try {
        owners.note('u_other');
        await send();
        assert.ok(waits > 0);
        const [raw] = [...kept.values()].filter(({ name }) => name === 'mail.eml');
        assert.ok(raw?.bytes.includes(lines), 'every byte of it');
      } finally {
        clearInterval(others);
        await paced.made.close();
      }
    });

    test('with a certificate of its own a sender may go over to TLS; without one there is no STARTTLS', async () => {
      const plain = await SmtpClient.connect(port);
      assert.doesNotMatch(await plain.say('EHLO x'), /STARTTLS|AUTH/);
      assert.match(await plain.say('STARTTLS'), /^5/);
      plain.close();
      const authority = new CertificateAuthority();
      const secure = await start({ tls: authority.issue(['127.0.0.1']) });
      const transport = nodemailer.createTransport({
        host: '127.0.0.1',
        port: secure.port,
        requireTLS: true,
        tls: { ca: authority.pem },
      });
      const { response } = await transport.sendMail({
        from: 'a@sender.example',
        to: `${first}@${domain}`,
        text: 'x',
      });
      transport.close();
      assert.match(response, /^250/);
      const [run] = await runsStored();
      assert.equal(JSON.parse(run?.event ?? '').receipt.secure, true);
      await secure.made.close();
    });

    test('connections from one address are bounded, and end when the service stops', async () => {
      const other = await start();
      const clients = await Promise.all(Array.from({ length: 20 }, () => SmtpClient.connect(other.port)));
      const refused = await SmtpClient.open(other.port);
      assert.match(await refused.reply(), /^421/);
      clients.pop()?.close();
      await waitFor(async () => {
        const client = await SmtpClient.open(other.port);
        clients.push(client);
        return (await client.reply()).startsWith('220');
      });
      await Promise.all([other.made.close(), other.made.close()]);
      for (const client of clients) client.close();
    });
  });
});
