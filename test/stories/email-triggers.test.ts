import assert from 'node:assert/strict';
import { test } from 'node:test';
import nodemailer, { type SendMailOptions } from 'nodemailer';
import { freePort } from '../support/free-port.ts';
import { forEachService } from '../support/millrace.ts';
import { SmtpClient } from '../support/smtp-client.ts';
import { waitFor } from '../support/wait-for.ts';

const port = await freePort();

const code = `export default defineComponent({ async run({ steps }) {
  const { event } = steps.trigger;
  return { subject: event.subject, text: event.body.text, from: event.headers.from.value[0].address, tag: event.plusTag };
} });`;
const mailed = { steps: [{ namespace: 'read', code }], triggers: [{ type: 'email' }] };

forEachService(
  (fixture) => {
    const send = async (mail: SendMailOptions) => {
      const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
      try {
        return (await transport.sendMail({ from: 'Ada <ada@sender.example>', ...mail })).response;
      } catch (error) {
        return String((error as { response?: string }).response ?? error);
      } finally {
        transport.close();
      }
    };

    test('a mail to the address of a workflow runs it, and its attachments are there to fetch', async () => {
      const { service } = fixture;
      const workflow = await service.createWorkflow(mailed);
      const [trigger] = workflow.triggers;
      assert.match(trigger.id, /^ei_/);
      assert.equal(trigger.warning, null);
      assert.match(trigger.email_address, /^em[0-9a-z]{13}@\[127\.0\.0\.1\]$/);
      const picture = Buffer.from('89504e470d0a1a0a', 'hex');
      const to = trigger.email_address.replace('@', '+orders@').toUpperCase();
      const reply = await send({
        to,
        subject: 'Bestellung №5',
        text: 'Danke!',
        attachments: [
          { filename: 'order.json', content: '{"n":5}', contentType: 'application/json' },
          { filename: 'picture.png', content: picture },
        ],
      });
      assert.match(reply, /^250/);
      const run = await service.runInState(workflow.id, 'succeeded');
      assert.equal(run.emitter_id, trigger.id);
      const read = run.steps[0].exports.$return_value;
      assert.deepEqual(
        { ...read, text: read.text.trim() },
        {
          subject: 'Bestellung №5',
          text: 'Danke!',
          from: 'ada@sender.example',
          tag: 'ORDERS',
        },
      );
      const [json, png] = run.event.attachments;
      assert.deepEqual([json.content, json.contentTruncated], ['{"n":5}', false]);
      const fetched = await fetch(png.contentUrl);
      assert.deepEqual(Buffer.from(await fetched.arrayBuffer()), picture);
      const raw = await (await fetch(run.event.mail.content_url)).text();
      assert.match(raw, /^From: Ada/m);
    });

    test('31 MB, an unknown address, an inactive workflow: refused, with the reply that says so', async () => {
      const { service } = fixture;
      const workflow = await service.createWorkflow(mailed);
      const [{ email_address: to }] = workflow.triggers;
      const attachments = [{ filename: 'big.txt', content: `${'x'.repeat(997)}\n`.repeat(33 * 1024) }];
      assert.match(await send({ to, text: 'big', attachments }), /^552/);
      assert.match(await send({ to: to.replace(/^em./, 'em_'), text: 'x' }), /550|501|553/);
      await service.api('PUT', `/v1/workflows/${workflow.id}`, { active: false });
      assert.match(await send({ to, text: 'x' }), /550/);
      await service.api('PUT', `/v1/workflows/${workflow.id}`, { active: true });
      assert.match(await send({ to, text: 'x' }), /^250/);
    });

    test('hostile mails are refused or parsed, and the service continues', async () => {
      const { service } = fixture;
      const workflow = await service.createWorkflow(mailed);
      const [{ email_address: to }] = workflow.triggers;
      const mails = [
        Array.from(
          { length: 3000 },
          (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
        ).join(''),
        `Content-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\n'.repeat(200_000)}`,
        `Subject: x\rBcc: y@z.example\r\nFrom: =?utf-8?Q?a=0D=0ABcc:_z?= <a@b.example>\r\n\r\n`,
        `X: ${'x'.repeat(3_000_000)}\r\n\r\n`,
        Buffer.alloc(500_000, 0xfe).toString('latin1'),
        '',
      ];
      for (const mail of mails) {
        const client = await SmtpClient.connect(port);
        assert.match(await client.begin('a@b.example', [to]), /^354/);
        await client.send(mail);
        await client.send('\r\n.\r\n');
        assert.match(await client.reply(), /^(250|554)/);
        client.close();
      }
      assert.match(await send({ to, subject: 'still here', text: 'x' }), /^250/);
      const isThere = async () => {
        const { body } = await service.api(
          'GET',
          `/v1/workflows/${workflow.id}/runs?state=succeeded&limit=100`,
        );
        for (const { id } of body.data) {
          const { body: run } = await service.api('GET', `/v1/runs/${id}`);
          if (run.data.event.subject === 'still here') return true;
        }
        return false;
      };
      await waitFor(isThere);
    });
  },
  { environment: { MILLRACE_SMTP_PORT: String(port) }, inTurns: true },
);
