import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { forwarderCode } from '../../cli/forwarder-code.ts';
import { type Ended, runCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

/** Old endpoints forward to new ones while their senders are moved, and the answers of both are compared. */

const newCode = `export default defineComponent({ async run({ steps, $ }) {
  const { method, path, query, headers, bodyRaw } = steps.trigger.event;
  await $.respond({ status: 201, headers: { 'content-type': 'text/x-new', 'x-seen': headers['x-order'] ?? '' },
    body: JSON.stringify({ method, path, query, bodyRaw, type: headers['content-type'] }) });
} });`;

forEachSharedService((fixture) => {
  let folder: TempFolder;
  before(async () => {
    folder = await createTempFolder('senders-are-moved');
  });
  after(() => folder.remove());

  const run = (...words: string[]): Promise<Ended> =>
    runCommand(
      {
        folder: folder.path,
        environment: { MILLRACE_URL: fixture.service.url, MILLRACE_API_KEY: fixture.service.key },
      },
      words,
    );
  /** A workflow with one code step that answers requests. */
  const endpoint = async (code: string): Promise<{ id: string; url: string }> => {
    const { status, body } = await fixture.service.api('POST', '/v1/workflows', {
      settings: { name: 'moved', auto_deploy: true },
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [{ namespace: 'only', code }],
    });
    assert.equal(status, 200, JSON.stringify(body));
    return { id: body.data.id, url: body.data.triggers[0].endpoint_url };
  };

  test('an old endpoint with the printed step answers as the new one does', async () => {
    const target = await endpoint(newCode);
    const printed = await run('forward', target.id);
    assert.equal(printed.code, 0, printed.stderr);
    const old = await endpoint(printed.stdout);
    const sent = ' { "a" : 1.0, "b": "é" }\n';
    const send = (url: string) =>
      fetch(`${url}/a/b?x=1&x=2&y=z%26`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json', 'x-order': 'o-7' },
        body: sent,
      });
    const answers = [];
    for (const url of [target.url, old.url]) {
      const answer = await send(url);
      answers.push([
        answer.status,
        answer.headers.get('content-type'),
        answer.headers.get('x-seen'),
        await answer.text(),
      ]);
    }
    assert.deepEqual(answers[1], answers[0]);
    const [, , , text] = answers[1] ?? [];
    assert.deepEqual(JSON.parse(String(text)), {
      method: 'PUT',
      path: '/a/b',
      query: { x: ['1', '2'], y: 'z&' },
      bodyRaw: sent,
      type: 'application/json',
    });
  });

  test('when the new endpoint is down or leads back, the answer says so', async () => {
    await writeFile(
      join(folder.path, 'down.txt'),
      `# old new\n* -> http://127.0.0.1:${await freePort()}/in/x\n`,
    );
    const down = await endpoint((await run('forward', '--table', 'down.txt')).stdout);
    const answer = await fetch(down.url, { method: 'POST', body: 'x' });
    assert.deepEqual(
      [answer.status, await answer.json()],
      [502, { error: 'the new endpoint cannot be reached: ECONNREFUSED' }],
    );
    const circle = await endpoint(newCode);
    const code = (await run('forward', circle.id)).stdout;
    await fixture.service.api('POST', `/v1/workflows/${circle.id}/deployments`, {
      steps: [{ namespace: 'only', code }],
    });
    const looped = await fetch(circle.url, { method: 'POST', body: 'x' });
    assert.deepEqual(
      [looped.status, ((await looped.json()) as { error: string }).error],
      [508, 'the request was forwarded already: the new endpoint leads back to the old one'],
    );
  });

  test('requests of a workflow are sent to both endpoints, and differences end with 1', async () => {
    const answering = (body: string) =>
      `export default defineComponent({ async run({ steps, $ }) { const { event } = steps.trigger; await $.respond({ status: 200, headers: { 'content-type': 'application/json' }, body: ${body} }); } });`;
    const old = await endpoint(
      answering(
        'JSON.stringify({ n: event.body?.n ?? 0, at: Date.now(), list: [{ id: Math.random(), v: 1 }] })',
      ),
    );
    const same = await endpoint(
      answering('\'{ "list": [{ "v": 1, "id": 5 }], "at": 1, "n": \' + (event.body?.n ?? 0) + \' }\''),
    );
    const other = await endpoint(answering('JSON.stringify({ n: 8, at: 1, list: [{ id: 1, v: 1 }] })'));
    for (const n of [7, 8])
      await fetch(old.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
    const rules = ['--from', old.url, '--of', old.id, '--ignore', 'at', '--ignore', 'list.id'];
    const equal = await run('compare', ...rules, '--to', same.url);
    assert.equal(equal.code, 0, equal.stdout + equal.stderr);
    assert.match(equal.stderr, /2 of 2 answers are the same/);
    await writeFile(
      join(folder.path, 'requests.jsonl'),
      '{"method":"POST","path":"/","headers":{"content-type":"application/json"},"body":{"n":7}}\n{"method":"POST","body":{"n":8},"headers":{"content-type":"application/json"}}\n',
    );
    const differing = await run(
      'compare',
      '--from',
      old.url,
      '--to',
      other.url,
      '--requests',
      'requests.jsonl',
      '--ignore',
      'at',
      '--ignore',
      'id',
      '--json',
    );
    assert.equal(differing.code, 1);
    assert.deepEqual(JSON.parse(differing.stdout), [
      { request: 'POST /', from: 200, to: 200, differences: ['body.n: 7 -> 8'] },
      { request: 'POST /', from: 200, to: 200, differences: [] },
    ]);
    const strict = await run(
      'compare',
      '--from',
      old.url,
      '--to',
      same.url,
      '--requests',
      'requests.jsonl',
      '--limit',
      '1',
    );
    assert.equal(strict.code, 1);
    assert.match(strict.stdout, /body\.at: /);
    const gone = await run(
      'compare',
      '--from',
      old.url,
      '--to',
      `http://127.0.0.1:${await freePort()}`,
      '--requests',
      'requests.jsonl',
      '--json',
    );
    assert.deepEqual(
      [gone.code, JSON.parse(gone.stdout)[0].to, JSON.parse(gone.stdout)[0].differences],
      [1, null, ['--to: ECONNREFUSED']],
    );
  });
});

describe('the forwarding step where there is only the parsed body', () => {
  interface Seen {
    url: string | undefined;
    type: string | undefined;
    host: string | undefined;
    body: string;
  }
  let base: string;
  let isSilent = false;
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    if (isSilent) return;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    seen.push({
      url: request.url,
      type: request.headers['content-type'],
      host: request.headers.host,
      body: Buffer.concat(parts).toString(),
    });
    response.writeHead(302, { location: '/elsewhere', 'set-cookie': 'a=b' }).end('moved');
  });
  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/new`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  interface Reply {
    status: number;
    headers: Record<string, string>;
    body: Uint8Array | string;
  }
  /** Runs the text as the old platform would. */
  const forward = async (event: object, options = { timeoutSeconds: 25 }): Promise<Reply> => {
    const code = forwarderCode(
      [
        { from: 'https://old-1.example/', to: base },
        { from: 'old-2.example', to: `${base}2/` },
      ],
      options,
    );
    const text = `const defineComponent = (component) => component;\n${code}`;
    const { default: step } = await import(`data:text/javascript,${encodeURIComponent(text)}`);
    const replies: Reply[] = [];
    await step
      .run({ steps: { trigger: { event } }, $: { respond: async (reply: Reply) => replies.push(reply) } })
      .catch(() => undefined);
    const [reply] = replies;
    assert.ok(reply !== undefined && replies.length === 1, 'one answer');
    return reply;
  };

  test('JSON, forms and text arrive as such, at the endpoint of the host that they were sent to', async () => {
    const headersOf = (host: string, type: string) => ({
      host,
      'content-type': type,
      'content-length': '999',
      connection: 'close',
      'x-amzn-trace-id': 'x',
    });
    const reply = await forward({
      method: 'POST',
      path: '/p',
      query: { a: 'b' },
      headers: headersOf('old-1.example', 'application/json'),
      body: { a: [1] },
    });
    assert.deepEqual(
      [
        reply.status,
        reply.headers.location,
        reply.headers['set-cookie'],
        Buffer.from(reply.body as Uint8Array).toString(),
      ],
      [302, '/elsewhere', 'a=b', 'moved'],
    );
    await forward({
      method: 'POST',
      path: '/',
      headers: headersOf('OLD-2.example', 'application/x-www-form-urlencoded'),
      body: { a: 'ö&' },
    });
    await forward({
      method: 'DELETE',
      path: '/',
      headers: headersOf('old-2.example', 'text/plain'),
      body: 'plain',
    });
    const { host } = new URL(base);
    assert.deepEqual(seen, [
      { url: '/in/new/p?a=b', type: 'application/json', host, body: '{"a":[1]}' },
      { url: '/in/new2', type: 'application/x-www-form-urlencoded', host, body: 'a=%C3%B6%26' },
      { url: '/in/new2', type: 'text/plain', host, body: 'plain' },
    ]);
  });

  test('what cannot be forwarded is answered with the reason', async () => {
    const errorOf = ({ status, body }: Reply) => [status, JSON.parse(String(body)).error];
    assert.deepEqual(errorOf(await forward({ headers: { host: 'unknown.example' } })), [
      502,
      'there is no new endpoint for unknown.example',
    ]);
    const form = {
      method: 'POST',
      headers: { host: 'old-1.example', 'content-type': 'multipart/form-data; boundary=x' },
      body: {},
    };
    assert.match(String(errorOf(await forward(form))[1]), /multipart forms cannot be forwarded/);
    isSilent = true;
    const late = await forward(
      { method: 'POST', headers: { host: 'old-1.example' }, body: 'x' },
      { timeoutSeconds: 0.05 },
    );
    assert.deepEqual(errorOf(late), [
      504,
      'the new endpoint gave no answer within 0.05 seconds; it may have got the request',
    ]);
  });
});
