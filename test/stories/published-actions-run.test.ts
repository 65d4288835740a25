/**
 * Actions of a published package without accounts, unmodified, as steps and by API. Of the scenarios of published components that
 * need no Internet: helper_functions-send-http-request, -download-file-to-tmp, -send-email-with-nodemailer, and its small ones,
 * with send-to-s3 and those about dates. Actions with accounts: published-components-use-accounts.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { HttpReceiver } from '../support/http-receiver.ts';
import { exportsOf, PublishedComponents, type PublishedStep } from '../support/published-components.ts';
import { MailServerStandIn } from '../support/service-standins/mail-server.ts';
import { startObjectStorage } from '../support/service-standins/object-storage.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';
import { waitFor } from '../support/wait-for.ts';

const s3Secret = 's3-canary-0123456789';
/** No text in any encoding, with a NUL and half a surrogate pair. */
const fileBytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x00, 0xff, 0xed, 0xa0, 0x80, 0x0d, 0x0a]);

describe('published actions run', () => {
  let published: PublishedComponents;
  let storage: ServiceStandIn;
  let mail: MailServerStandIn;
  let receiver: HttpReceiver;

  before(async () => {
    published = await PublishedComponents.prepare();
    const { authority } = published;
    storage = await startObjectStorage(authority, {
      ...{ region: 'eu-west-1', secretKey: s3Secret, bucket: 'my-bucket' },
    });
    mail = await MailServerStandIn.start(authority, 'ada', 'open sesame');
    receiver = await HttpReceiver.start({
      answer: ({ url }, response) => {
        if (url === '/missing') return { status: 404, body: { why: 'gone' } };
        if (url !== '/file.png') return { status: 201, body: { ok: true } };
        response.end(fileBytes);
      },
    });
    await published.start({
      dialect: 'sqlite',
      apps: ['helper_functions'],
      connectTo: [storage.connectTo],
      environment: {
        MILLRACE_S3_REGION: 'eu-west-1',
        MILLRACE_S3_ACCESS_KEY: 'AKIA0123456789',
        MILLRACE_S3_SECRET_KEY: s3Secret,
      },
    });
  });

  after(async () => {
    try {
      await published?.assertSealed([s3Secret]);
    } finally {
      await published?.close();
      for (const part of [storage, mail, receiver]) await part?.close();
    }
  });

  const helper = (action: string, props: Record<string, unknown>): PublishedStep => ({
    ...{ app: 'helper_functions', action, props },
  });

  test('helper_functions as steps: exports, a run that is not async, numbers, dates, a file in /tmp', async () => {
    const run = await published.runSteps(
      [
        helper('export-variables', { config: { who: '{{steps.trigger.event.body.name}}', n: 2 } }),
        helper('base64-decode-string', { data: 'SGVsbG8=' }),
        helper('random-integer', { min: 7, max: '{{3 + 5}}' }),
        helper('format-iso8601-datetime', { iso8601: '2026-11-20T13:05:00' }),
        helper('get-time-in-specific-timezone', {
          ...{ time: '2026-11-20T12:00:00Z', timezone: 'Asia/Kolkata' },
        }),
        helper('get-current-time-in-specific-timezone', { timezone: 'Asia/Kolkata' }),
        helper('get-iso-string-n-days-ago', { days: '3' }),
        helper('download-file-to-tmp', { url: `${receiver.url}/file.png`, filename: 'file.png' }),
        {
          namespace: 'read',
          code: `import { readFileSync } from 'node:fs';
              export default defineComponent({
                async run({ steps }) {
                  return readFileSync(steps.download_file_to_tmp.$return_value[1]).toString('base64');
                },
              });`,
        },
      ],
      { name: 'Ada' },
    );
    const found = exportsOf(run);
    assert.deepEqual(found.export_variables.config, { who: 'Ada', n: 2 });
    assert.equal(found.base64_decode_string.data, 'Hello');
    assert.ok([7, 8].includes(found.random_integer.$return_value), 'within the given bounds');
    assert.deepEqual(found.format_iso8601_datetime.$return_value, {
      date_time: '11/20/2026 1:05:00 pm',
      date: '11/20/2026',
      time: '1:05:00 pm',
    });
    assert.equal(found.get_time_in_specific_timezone.$return_value, '2026-11-20T17:30:00+05:30');
    assert.match(found.get_current_time_in_specific_timezone.$return_value, /^\d{4}-[\d-]+T[\d:]+\+05:30$/);
    const daysAgo = (Date.now() - Date.parse(found.get_iso_string_n_days_ago.date)) / 86_400_000;
    assert.ok(daysAgo > 2.9 && daysAgo < 3.1, `${daysAgo} days ago`);
    assert.deepEqual(found.download_file_to_tmp.$return_value, ['file.png', '/tmp/file.png']);
    assert.equal(found.read.$return_value, fileBytes.toString('base64'), 'byte for byte');
  });

  test('helper_functions-send-email-with-nodemailer, whose package declares no nodemailer, and send-to-s3', async () => {
    const email = {
      ...{ host: mail.host, port: String(mail.port), requireTLS: true, user: 'ada', pass: 'open sesame' },
      ...{ from: 'ada@example.com', to: 'bob@example.com', cc: 'eve@example.com' },
      ...{ subject: 'About {{steps.trigger.event.body.what}}', text: 'Hello Bob' },
    };
    const payload = { what: '{{steps.trigger.event.body.what}}', list: [1] };
    const event = { what: 'mills' };
    const run = await published.runSteps(
      [
        helper('send-email-with-nodemailer', email),
        helper('send-to-s3', { bucket: 'my-bucket', prefix: 'raw/', payload }),
      ],
      event,
    );
    const { send_email_with_nodemailer: sent } = exportsOf(run);
    assert.deepEqual(sent.$return_value.accepted, ['bob@example.com', 'eve@example.com']);
    const [taken] = mail.mails;
    assert.deepEqual(
      [taken?.from, taken?.to, taken?.isEncrypted],
      ['ada@example.com', ['bob@example.com', 'eve@example.com'], true],
    );
    assert.match(taken?.text ?? '', /^Subject: About mills\r\n[\s\S]*\r\nHello Bob/m);

    const [send] = await waitFor(async () => {
      const { sends } = await published.service.runDetail(run.id);
      return sends[0]?.state !== 'queued' && sends;
    });
    assert.deepEqual([send.kind, send.state, send.result.status], ['s3', 'sent', 200], JSON.stringify(send));
    const object = storage.last(`PUT /my-bucket/${send.result.key}`);
    assert.match(send.result.key, /^raw\/\d{4}\//);
    assert.deepEqual(JSON.parse(gunzipSync(object.body).toString()), { what: 'mills', list: [1] });

    const refused = await published.runSteps(
      [helper('send-email-with-nodemailer', { ...email, pass: 'wrong' })],
      event,
    );
    assert.equal(refused.state, 'failed');
    assert.match(JSON.stringify(refused), /535/);
    assert.equal(mail.mails.length, 1);
  });

  test('helper_functions-send-http-request does the request of its http_request prop', async () => {
    const sent = await published.runAction('helper_functions', 'send-http-request', {
      httpRequest: { url: `${receiver.url}/things`, params: [{ name: 'q', value: '{{1}}' }] },
    });
    assert.deepEqual(sent.os, []);
    assert.deepEqual([sent.ret.status, sent.ret.data], [201, { ok: true }]);
    const request = receiver.requests.at(-1);
    // The method is the default of the prop.
    assert.equal(request?.method, 'POST');
    assert.equal(new URL(request?.url ?? '', receiver.url).searchParams.get('q'), '{{1}}');
    const decoded = await published.runAction('helper_functions', 'base64-decode-string', {
      data: 'SGVsbG8=',
    });
    assert.deepEqual([decoded.exports, decoded.ret], [{ data: 'Hello' }, null]);
    assert.equal(decoded.component.key, 'helper_functions-base64-decode-string');

    const body = {
      contentType: 'application/json',
      mode: 'fields',
      fields: [{ name: 'who', value: '{{steps.trigger.event.body.name}}' }],
    };
    const httpRequest = { url: `${receiver.url}/step`, params: [{ name: 'q', value: '1' }], body };
    const step = await published.runSteps([helper('send-http-request', { httpRequest })], { name: 'Ada' });
    assert.equal(exportsOf(step).send_http_request.$return_value.status, 201);
    const fromStep = receiver.requests.at(-1);
    assert.deepEqual([fromStep?.method, fromStep?.url], ['POST', '/step?q=1']);
    assert.deepEqual(fromStep?.json(), { who: 'Ada' });

    const failed = await published.runSteps([
      helper('send-http-request', { httpRequest: { url: `${receiver.url}/missing` } }),
    ]);
    assert.equal(failed.error.msg, 'Request failed with status code 404');
    assert.match(JSON.stringify(failed), /actions\/send-http-request\/send-http-request\.mjs:\d+:\d+/);
  });
});
