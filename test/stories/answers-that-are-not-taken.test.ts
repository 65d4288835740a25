import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { forEachService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

const megabyte = 1_000_000;

/** Answers with so many bytes as the query says, and emits an event of 5 MB when it says so. */
const code = `export default { name: 'Large', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true } },
  async run({ query }) {
    if (query.emit) this.$emit({ text: 'y'.repeat(5_000_000) });
    this.http.respond({ status: 200, headers: { 'content-type': 'text/plain', 'content-language': 'en' }, body: 'y'.repeat(Number(query.bytes)) });
  } };`;

forEachService((fixture) => {
  /** A request whose caller takes nothing but the first bytes of its answer. */
  const openUnread = (target: string, headers: Record<string, string> = {}) => {
    const { hostname, port, host, pathname, search } = new URL(target);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    const begun = Promise.withResolvers<string>();
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      begun.resolve(chunk.toString('latin1', 0, 15));
    });
    socket.once('close', () => begun.resolve('closed'));
    const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`GET ${pathname}${search} HTTP/1.1\r\n${lines.join('')}\r\n`);
    return { socket, begun: begun.promise };
  };
  const deploy = async () => {
    const { service } = fixture;
    const source: Source = await service.createSource({ component_code: code });
    return { id: source.id, url: source.configured_props.http.endpoint_url.replace(/\/$/, '') };
  };

  test('large replies of an endpoint that their callers do not take are bounded, and small ones are answered', async () => {
    const { url } = await deploy();
    const sockets: Socket[] = [];
    const statuses: string[] = [];
    for (let n = 0; n < 16; n += 1) {
      const { socket, begun } = openUnread(`${url}?bytes=${5 * megabyte}`);
      sockets.push(socket);
      statuses.push(await begun);
    }
    assert.ok(statuses.filter((status) => status === 'HTTP/1.1 200 OK').length >= 12, String(statuses));
    const refused = await fetch(`${url}?bytes=${5 * megabyte}`);
    assert.equal(refused.status, 503);
    assert.match(refused.headers.get('content-type') ?? '', /^application\/json/);
    assert.equal(refused.headers.get('content-language'), null);
    const { code, error } = (await refused.json()) as { code: string; error: string };
    assert.equal(code, 'overloaded');
    assert.match(error, /^\d+(\.\d+)? MB of answers wait to be taken by those who asked for them/);
    assert.equal((await fetch(`${url}?bytes=1000`)).status, 200);
    for (const socket of sockets) socket.destroy();
    await waitFor(async () => {
      const answer = await fetch(`${url}?bytes=${5 * megabyte}`);
      return answer.status === 200 && (await answer.text()).length === 5 * megabyte;
    });
  });

  test('pages of large events are not made for callers that take nothing, and come whole when they do', async () => {
    const { service } = fixture;
    const { id, url } = await deploy();
    for (let n = 0; n < 4; n += 1) await fetch(`${url}?bytes=1&emit=1`);
    const page = `${service.url}/v1/sources/${id}/event_summaries?expand=event`;
    const headers = { authorization: `Bearer ${service.key}` };
    const isWhole = async () => {
      const { data } = (await (await fetch(page, { headers })).json()) as { data: unknown[] };
      return data.length === 4;
    };
    await waitFor(isWhole);
    const unread = Array.from({ length: 40 }, () => openUnread(page, headers));
    // Any of them: which is answered first is the machine's choice, and most are not while others do not take theirs.
    assert.equal(await Promise.race(unread.map(({ begun }) => begun)), 'HTTP/1.1 200 OK');
    const answers = await Promise.all([
      fetch(`${service.url}/v1/users/me`, { headers }),
      fetch(`${service.url}/v1/sources/${id}`, { headers }),
    ]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    const taken = fetch(page, { headers });
    for (const { socket } of unread) socket.destroy();
    assert.equal(((await (await taken).json()) as { data: unknown[] }).data.length, 4);
  });
});
