import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

function cell(body: string): string {
  return `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;
}

/** A workflow of one step with an HTTP trigger; its URL and id. */
async function workflowOf(
  service: ServiceClient,
  body: string,
  props: Record<string, unknown> = {},
): Promise<{ id: string; url: string; triggerId: string }> {
  const workflow = await service.createWorkflow({
    steps: [{ namespace: 'one', code: cell(body) }],
    triggers: [{ type: 'http', props }],
  });
  const [trigger] = workflow.triggers;
  return { id: workflow.id, url: trigger.endpoint_url, triggerId: trigger.id };
}

/** Answers with its event. */
const mirror = 'await $.respond({ status: 200, body: steps.trigger.event });';

/** Sends bytes as they are; what comes back until the connection ends. */
function raw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.on('data', (chunk: Buffer) => {
      answer += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(answer));
    socket.write(text);
  });
}

/** Sends `bytes` bytes that are never in memory as a whole; returns the status and the hash of what was sent. */
function upload(
  url: string,
  bytes: number,
  headers: Record<string, string>,
): Promise<{ status: number; sha256: string; text: string }> {
  const piece = Buffer.alloc(256 * 1024);
  const hash = createHash('sha256');
  const source = Readable.from(
    (function* () {
      for (let at = 0; at < bytes; at += piece.length) {
        piece.writeUInt32BE(at % 4_294_967_295);
        const part = Buffer.from(piece.subarray(0, Math.min(piece.length, bytes - at)));
        hash.update(part);
        yield part;
      }
    })(),
  );
  const { promise, resolve, reject } = Promise.withResolvers<{
    status: number;
    sha256: string;
    text: string;
  }>();
  const request = httpRequest(url, { method: 'POST', headers, agent: false }, (response) => {
    let text = '';
    response.on('data', (chunk: Buffer) => {
      text += chunk;
    });
    response.on('end', () => resolve({ status: response.statusCode ?? 0, sha256: hash.digest('hex'), text }));
    response.on('error', reject);
  });
  request.on('error', reject);
  source.pipe(request);
  return promise;
}

forEachSharedService((fixture) => {
  test('the event has method, path, query, headers, body, its exact text, the address and the client', async () => {
    const { service } = fixture;
    const { url } = await workflowOf(service, mirror, { custom_response: true });
    const sent = { a: [1, { b: 'ü' }] };
    const answer = await fetch(`${url}/sub/path?x=1&y=2&y=3`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json', 'X-Own': 'Yes' },
      body: JSON.stringify(sent),
    });
    const event = (await answer.json()) as Record<string, unknown> & { headers: Record<string, string> };
    assert.equal(event.method, 'PUT');
    assert.equal(event.path, '/sub/path');
    assert.deepEqual(event.query, { x: '1', y: ['2', '3'] });
    assert.equal(event.headers['x-own'], 'Yes');
    assert.equal(event.headers['content-type'], 'application/json');
    assert.deepEqual(event.body, sent);
    assert.equal(event.bodyRaw, JSON.stringify(sent));
    assert.equal(event.url, `${url.replace('http://', '')}/sub/path?x=1&y=2&y=3`);
    assert.equal(event.client_ip, '127.0.0.1');
  });

  test('without a custom response the caller gets a page that says success, once the run is stored', async () => {
    const { service } = fixture;
    const { id, url, triggerId } = await workflowOf(service, "throw new Error('not your business');");
    const answer = await fetch(url, { method: 'POST', body: 'hello' });
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
    assert.equal(answer.headers.get('access-control-allow-origin'), '*');
    assert.match(await answer.text(), /^<p><b>Success!<\/b><\/p>\n<p>.+<\/p>\n$/);
    const run = await service.runInState(id, 'failed');
    assert.equal(run.emitter_id, triggerId);
    assert.equal(run.event.body, 'hello');
  });

  test('with one, and none given, the error says so', async () => {
    const { service } = fixture;
    const silent = await workflowOf(service, 'return 1;', { custom_response: true });
    const answer = await fetch(silent.url);
    assert.equal(answer.status, 400);
    assert.equal(await answer.text(), 'No $.respond called in workflow');
    assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
    const delays = await workflowOf(service, '$.flow.delay(3_600_000);', { custom_response: true });
    const waits = await fetch(delays.url);
    assert.equal(waits.status, 400);
    assert.equal(await waits.text(), '$.respond() not called for this invocation');
    const largeBody = 'await $.respond({ status: 200, body: Buffer.alloc(20_000_000) });';
    const large = await fetch((await workflowOf(service, largeBody, { custom_response: true })).url);
    assert.deepEqual(
      [large.status, await large.json()],
      [
        500,
        {
          error: '$.respond: body has 20000000 bytes, at most 6291456 are allowed',
          code: 'reply_too_large',
          details: { bytes: 20_000_000, bytes_max: 6_291_456 },
        },
      ],
    );
  });

  test('a reply that was given before a wait is not kept back by it', async () => {
    const { service } = fixture;
    const body = "$.flow.suspend(); await $.respond({ status: 202, body: 'later' });";
    const { url } = await workflowOf(service, body, { custom_response: true });
    const answer = await fetch(url);
    assert.deepEqual([answer.status, await answer.text()], [202, 'later']);
  });

  test('unknown keys and inactive workflows are 404, and an activated one answers again at once', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return 1;');
    const statusOf = async (at: string) => (await fetch(at)).status;
    assert.equal(await statusOf(url), 200);
    const key = url.split('/').at(-1) ?? '';
    for (const wrong of [
      `${key}0`,
      key.slice(0, -1),
      key.toUpperCase(),
      `eo${'0'.repeat(13)}`,
      '%00',
      '..%2fx',
    ])
      assert.equal(await statusOf(url.replace(key, wrong)), 404, wrong);
    const set = (active: boolean) => service.api('PUT', `/v1/workflows/${id}`, { active });
    assert.equal((await set(false)).status, 200);
    // Other processes may not see it for a second.
    await waitFor(async () => (await statusOf(url)) === 404);
    assert.equal((await set(true)).status, 200);
    await waitFor(async () => (await statusOf(url)) === 200);
  });

  test('browsers may call: OPTIONS says so, and answers carry it', async () => {
    const { service } = fixture;
    const { url } = await workflowOf(service, mirror, { custom_response: true });
    const options = await fetch(url, { method: 'OPTIONS' });
    assert.equal(options.headers.get('access-control-allow-origin'), '*');
    assert.equal(options.headers.get('access-control-allow-methods'), 'GET,HEAD,PUT,PATCH,POST,DELETE');
    assert.equal((await fetch(url)).headers.get('access-control-allow-origin'), '*');
    const own = await workflowOf(
      service,
      "await $.respond({ status: 200, headers: { 'Access-Control-Allow-Origin': 'https://a.example' }, body: '' });",
      { custom_response: true },
    );
    assert.equal((await fetch(own.url)).headers.get('access-control-allow-origin'), 'https://a.example');
  });

  test('x-pd-notrigger keeps the request without running it, x-pd-nostore runs it and keeps nothing', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, mirror, { custom_response: true });
    const notRun = await fetch(url, { headers: { 'x-pd-notrigger': '1' } });
    assert.equal(notRun.status, 200);
    assert.match(await notRun.text(), /Success!/);
    const kept = await service.runInState(id, 'not_triggered');
    assert.equal(kept.event.headers['x-pd-notrigger'], '1');
    const secret = await fetch(`${url}?x-pd-nostore=1`, { method: 'POST', body: 'canary-body' });
    assert.equal(((await secret.json()) as { body: string }).body, 'canary-body');
    await waitFor(async () => {
      const { body } = await service.api('GET', `/v1/workflows/${id}/runs`);
      return !JSON.stringify(body).includes('canary-body') && body.data.length <= 1;
    });
    assert.equal(
      (await fetch(`${url}?x-pd-notrigger=0`)).headers.get('content-type'),
      'application/json; charset=utf-8',
    );
  });

  test('a trigger with a token takes only callers that have it, and the token is in no record', async () => {
    const { service } = fixture;
    const token = 'canary-token-5f1c';
    const { id, url } = await workflowOf(service, mirror, {
      custom_response: true,
      auth: { type: 'static_bearer_token', token },
    });
    for (const given of [
      undefined,
      'Bearer',
      'Bearer wrong-token-000',
      `Basic ${token}`,
      `Bearer ${token}x`,
    ]) {
      const headers = new Headers();
      if (given !== undefined) headers.set('authorization', given);
      const refused = await fetch(url, { headers });
      assert.equal(refused.status, 401, String(given));
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
      assert.equal(((await refused.json()) as { code: string }).code, 'unauthorized');
    }
    const taken = await fetch(url, { headers: { authorization: `bearer  ${token}` } });
    assert.equal(taken.status, 200);
    assert.ok(!(await taken.text()).includes(token));
    const run = await service.runInState(id, 'succeeded');
    assert.ok(!JSON.stringify(run).includes(token));
  });

  test('512 KB are taken, more is 413, and nothing of it runs', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return steps.trigger.event.bodyRaw.length;');
    const most = await fetch(url, { method: 'POST', body: 'x'.repeat(512 * 1024) });
    assert.equal(most.status, 200);
    const over = await fetch(url, { method: 'POST', body: 'x'.repeat(512 * 1024 + 1) });
    assert.equal(over.status, 413);
    const run = await service.runInState(id, 'succeeded');
    assert.equal(run.steps[0].exports.$return_value, 512 * 1024);
    const { body } = await service.api('GET', `/v1/workflows/${id}/runs`);
    assert.equal(body.data.length, 1);
  });

  test('a form comes as its fields; small files are in it, larger ones behind URLs that the step can read', async () => {
    const { service } = fixture;
    const { url } = await workflowOf(
      service,
      `const { body } = steps.trigger.event;
         const text = await (await fetch(body.large.url)).text();
         await $.respond({ status: 200, body: { body, length: text.length } });`,
      { custom_response: true },
    );
    const form = new FormData();
    form.set('field', 'value');
    form.set('small', new File(['tiny'], 's.txt', { type: 'text/plain' }));
    form.set('large', new File(['<script>'.repeat(1000)], '../../l 1.html', { type: 'text/html' }));
    const answer = await fetch(url, { method: 'POST', body: form });
    const { body, length } = (await answer.json()) as { body: Record<string, never>; length: number };
    assert.equal(body.field, 'value');
    assert.deepEqual(body.small, {
      filename: 's.txt',
      mimetype: 'text/plain',
      url: 'data:text/plain;base64,dGlueQ==',
    });
    assert.equal(length, 8000);
    const file: { url: string } = body.large ?? { url: '' };
    assert.match(
      file.url,
      new RegExp(`^${service.url}/files/file_\\w{12}\\?expires=\\d+&signature=[0-9a-f]{64}$`),
    );
    const page = await fetch(file.url);
    assert.equal(page.headers.get('content-type'), 'text/html');
    assert.match(page.headers.get('content-disposition') ?? '', /^attachment; filename="l 1.html"/);
    assert.match(page.headers.get('content-security-policy') ?? '', /sandbox/);
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(await page.text(), '<script>'.repeat(1000));
  });

  test('a body of any size is set aside, and the step reads it by its URL, as others do until its time is over', async () => {
    const { service } = fixture;
    const { url } = await workflowOf(
      service,
      `const { createHash } = require('node:crypto');
         const { event } = steps.trigger;
         const answer = await fetch(event.body.raw_body_url);
         const hash = createHash('sha256'); let bytes = 0;
         for await (const chunk of answer.body) { hash.update(chunk); bytes += chunk.length; }
         await $.respond({ status: 200, body: { event, type: answer.headers.get('content-type'), bytes, sha256: hash.digest('hex') } });`.replace(
        "const { createHash } = require('node:crypto');",
        "const { createHash } = await import('node:crypto');",
      ),
      { custom_response: true },
    );
    const bytes = 20 * 1024 * 1024;
    const sent = await upload(url, bytes, {
      'x-pd-upload-body': '1',
      'content-type': 'video/mp4',
      'transfer-encoding': 'chunked',
    });
    assert.equal(sent.status, 200, sent.text);
    const { event, type, bytes: read, sha256 } = JSON.parse(sent.text);
    assert.equal(read, bytes);
    assert.equal(sha256, sent.sha256);
    assert.equal(type, 'video/mp4');
    assert.deepEqual(Object.keys(event.body), ['raw_body_url']);
    assert.equal(event.bodyRaw, undefined);
    assert.equal(event.headers['content-type'], 'video/mp4');

    const fileUrl: string = event.body.raw_body_url;
    const part = await fetch(fileUrl, { headers: { range: `bytes=${bytes - 10}-` } });
    assert.equal(part.status, 206);
    assert.equal(part.headers.get('content-range'), `bytes ${bytes - 10}-${bytes - 1}/${bytes}`);
    assert.equal((await part.arrayBuffer()).byteLength, 10);
    const last = await fetch(fileUrl, { headers: { range: 'bytes=-3' } });
    assert.equal((await last.arrayBuffer()).byteLength, 3);
    const beyond = await fetch(fileUrl, { headers: { range: `bytes=${bytes}-` } });
    assert.equal(beyond.status, 416);
    const head = await fetch(fileUrl, { method: 'HEAD' });
    assert.equal(head.headers.get('content-length'), String(bytes));
    assert.equal((await head.arrayBuffer()).byteLength, 0);
    for (const wrong of [
      fileUrl.replace(/signature=./, (it) => `signature=${it.endsWith('0') ? '1' : '0'}`),
      fileUrl.replace(/expires=(\d+)/, (_it, seconds) => `expires=${Number(seconds) + 1}`),
      fileUrl.replace(/&signature=.*/, ''),
      fileUrl.replace(/file_\w+/, 'file_000000000000'),
    ]) {
      const refused = await fetch(wrong);
      assert.equal(refused.status, 404);
      assert.equal(((await refused.json()) as { code: string }).code, 'not_found');
    }
  });

  test('an upload that is too large is 413 and leaves nothing, one that breaks off starts nothing', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return 1;');
    const declared = await upload(`${url}?pipedream_upload_body=1`, 130 * 1024 * 1024, {
      'content-length': String(130 * 1024 * 1024),
    }).catch((error: NodeJS.ErrnoException) => ({ status: 0, text: String(error.code) }));
    // A client that keeps sending may find the connection closed before it reads the answer.
    if (declared.status !== 0) assert.equal(declared.status, 413);
    else assert.match(declared.text, /EPIPE|ECONNRESET/);
    const undeclared = await upload(`${url}?pipedream_upload_body=1`, 21 * 1024 * 1024, {
      'transfer-encoding': 'chunked',
    });
    assert.equal(undeclared.status, 413);
    assert.equal(JSON.parse(undeclared.text).code, 'body_too_large');
    const path = new URL(url).pathname;
    const host = new URL(url).host;
    const cutOff = connect(Number(new URL(url).port), '127.0.0.1');
    await new Promise<void>((resolve) =>
      cutOff.write(
        `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nx-pd-upload-body: 1\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(2_000_000)}`,
        () => resolve(),
      ),
    );
    cutOff.destroy();
    assert.equal(
      (await fetch(`${url}?pipedream_upload_body=1`, { method: 'POST', body: 'fine' })).status,
      200,
    );
    await service.runInState(id, 'succeeded');
    const { body } = await service.api('GET', `/v1/workflows/${id}/runs`);
    assert.equal(body.data.length, 1);
  });

  test('requests that are framed twice are refused, and what hides behind one is a request of its own or none', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return 1;');
    const { pathname, host } = new URL(url);
    const start = `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\n`;
    for (const text of [
      `${start}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/users/me HTTP/1.1\r\n\r\n`,
      `${start}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
      `${start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      `${start}Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n`,
      `${start}Content-Length: -1\r\n\r\n`,
    ]) {
      const answer = await raw(url, text);
      assert.match(answer, /^HTTP\/1\.1 400 /, text);
      assert.equal(answer.match(/HTTP\/1\.1/g)?.length, 1, answer);
    }
    assert.equal((await service.api('GET', `/v1/workflows/${id}/runs`)).body.data.length, 0);
  });

  test('forms that are broken or hostile come as text, and pollute nothing', async () => {
    const { service } = fixture;
    const { url } = await workflowOf(service, mirror, { custom_response: true });
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    const send = async (body: string) =>
      (await (await fetch(url, { method: 'POST', headers, body })).json()) as { body: unknown };
    const part = (disposition: string, content: string) =>
      `--x\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${content}\r\n`;
    assert.equal(typeof (await send('--x\r\nnonsense')).body, 'string');
    assert.equal(
      typeof (await send(part('name="a"; filename="f"', 'never ends').slice(0, -2))).body,
      'string',
    );
    const polluted = await send(
      `${part('name="__proto__"', 'x')}${part('name="constructor"', 'y')}--x--\r\n`,
    );
    assert.deepEqual(Object.entries(polluted.body as object), [
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
    const many = Array.from({ length: 3000 }, (_, i) => part(`name="f${i}"; filename="a"`, '')).join('');
    assert.equal((await fetch(url, { method: 'POST', headers, body: `${many}--x--\r\n` })).status, 200);
  });

  test('a run that waits continues when its resume URL is called, with what was sent, and once', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'ask',
          code: cell(
            'const urls = $.flow.suspend(); await $.respond({ status: 200, immediate: true, body: urls });',
          ),
        },
        { namespace: 'after', code: cell('return steps.ask.$resume_data;') },
      ],
      triggers: [{ type: 'http', props: { custom_response: true } }],
    });
    const begin = async () => {
      const answer = await fetch(workflow.triggers[0].endpoint_url);
      return (await answer.json()) as { resume_url: string; cancel_url: string };
    };
    const first = await begin();
    assert.ok(first.resume_url.startsWith(`${service.url}/in/resume/`), first.resume_url);
    await service.runInState(workflow.id, 'waiting');
    for (const forged of [
      first.resume_url.slice(0, -1) + (first.resume_url.endsWith('a') ? 'b' : 'a'),
      first.cancel_url.replace('/cancel/', '/resume/'),
      first.resume_url.replace('/0.1/', '/1.1/'),
      first.resume_url.replace('/0.1/', '/0.2/'),
    ])
      assert.equal((await fetch(forged)).status, 404, forged);
    assert.equal((await fetch(`${service.url}/in/resume/x/0.1/y`)).status, 404);
    const options = await fetch(first.resume_url, { method: 'OPTIONS' });
    assert.equal(options.headers.get('access-control-allow-origin'), '*');
    const resumed = await fetch(`${first.resume_url}?ok=1`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"answer":42}',
    });
    assert.equal(resumed.status, 200);
    assert.deepEqual(await resumed.json(), { status: 'resumed' });
    const run = await service.runInState(workflow.id, 'succeeded');
    const data = run.steps.at(-1).exports.$return_value;
    assert.deepEqual(data.body, { answer: 42 });
    assert.deepEqual(data.query, { ok: '1' });
    assert.equal(data.method, 'POST');
    const again = await fetch(first.resume_url);
    const told = (await again.json()) as { status: string; resumed_at: string };
    assert.deepEqual([again.status, told.status], [200, 'already_resumed'], 'what happened before');
    assert.ok(Date.parse(told.resumed_at) <= Date.now());
    const pageAgain = await fetch(first.resume_url, { headers: { accept: 'text/html' } });
    assert.match(
      await pageAgain.text(),
      /<title>Already resumed .*The workflow continued with the first request; yours changed nothing\./s,
    );
    const late = await fetch(first.cancel_url);
    assert.equal(late.status, 410);
    const { code, details } = (await late.json()) as { code: string; details: { used_at: string } };
    assert.deepEqual([code, details.used_at], ['run_over', told.resumed_at]);

    const second = await begin();
    await service.runInState(workflow.id, 'waiting');
    const page = await fetch(second.cancel_url, { headers: { accept: 'text/html,*/*' } });
    assert.equal(page.status, 200);
    assert.match(page.headers.get('content-type') ?? '', /^text\/html/);
    assert.equal(page.headers.get('referrer-policy'), 'no-referrer');
    assert.match(await page.text(), /<title>Cancelled · Millrace<\/title>/);
    await service.runInState(workflow.id, 'cancelled');
    assert.equal((await fetch(second.resume_url, { headers: { accept: 'text/html' } })).status, 410);
    // A link that lost its end in a mail, or has a wrong token.
    for (const broken of [second.resume_url.slice(0, -3), second.resume_url.replace(/\/[^/]+$/, '')]) {
      const page = await fetch(broken, { headers: { accept: 'text/html' } });
      assert.deepEqual([page.status, page.headers.get('referrer-policy')], [404, 'no-referrer']);
      assert.match(await page.text(), /<title>Link not found · Millrace<\/title>/);
      const answer = await fetch(broken);
      assert.match(((await answer.json()) as { code: string }).code, /^(not_found|unknown_endpoint)$/);
    }
  });

  test('a step reaches endpoints and files of its own service, and never its API', async () => {
    const { service } = fixture;
    const target = await workflowOf(service, mirror, { custom_response: true });
    const { url } = await workflowOf(
      service,
      `const codeOf = (url) => fetch(url, { headers: { authorization: 'Bearer test-key-0123456789abcdefghij' } })
           .then((response) => response.status, (error) => error.cause?.code ?? error.message);
         const own = await (await fetch('${target.url}/hop', { method: 'POST', body: 'from a step' })).json();
         const port = new URL('${service.url}').port;
         await $.respond({ status: 200, body: { own, api: await codeOf('${service.url}/v1/users/me'), metrics: await codeOf('${service.url}/metrics'),
           beside: await codeOf('http://localhost:' + port + '/v1/users/me') } });`,
      { custom_response: true },
    );
    const { own, api, metrics, beside } = (await (await fetch(url)).json()) as Record<string, never>;
    assert.equal((own as { body?: string } | undefined)?.body, 'from a step');
    assert.deepEqual([api, metrics, beside], [403, 403, 'EACCES']);
  });
});
