import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, test as defineTest } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { EgressChildren } from '../../test/support/egress-child.ts';
import { AddressPolicy } from './address-policy.ts';
import { attachEgressRelay, type EgressRelay } from './egress-relay.ts';
import type { LookupAll } from './resolve-address.ts';

// What user code does with the network of Node.js, in a real child that has none, against real servers.

const test = (name: string, body: () => Promise<void>): void =>
  void defineTest(name, { timeout: 20_000 }, body);
const authority = new CertificateAuthority();
const certificate = authority.issue(['localhost', '127.0.0.1', 'names.example']);
const servers: Server[] = [];
const ports: Record<string, number> = {};
let children: EgressChildren;

const webSocketAnswer = (key: string): string =>
  createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');

async function listen(name: string, server: Server): Promise<void> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ports[name] = (server.address() as AddressInfo).port;
}

before(async () => {
  children = await EgressChildren.prepare();
  const web = (handler: typeof createHttpServer) => handler;
  const onRequest: Parameters<typeof createHttpServer>[1] = (request, response) => {
    if (request.url === '/download') {
      response.end(Buffer.alloc(2_000_000, 'abc'));
      return;
    }
    const hash = createHash('sha256');
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      hash.update(chunk);
      bytes += chunk.length;
    });
    request.on('end', () => {
      response.setHeader('x-peer-port', String(request.socket.remotePort));
      response.end(
        JSON.stringify({ method: request.method, url: request.url, bytes, sha: hash.digest('hex') }),
      );
    });
  };
  const http = web(createHttpServer)(onRequest);
  http.on('upgrade', (request, socket) => {
    const accept = webSocketAnswer(String(request.headers['sec-websocket-key']));
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.write(Buffer.from([0x81, 5, ...Buffer.from('hello')]));
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.from([0x88, 0])));
  });
  await listen('http', http);
  await listen('https', createHttpsServer(certificate, onRequest));
  await listen(
    'echo',
    createServer((socket) => void socket.on('error', () => {}).pipe(socket)),
  );
  await listen(
    'greets',
    createServer((socket) => void socket.on('error', () => {}).end('220 hello\r\n')),
  );
  await listen(
    'tls',
    createTlsServer(certificate, (socket) => void socket.on('error', () => {}).pipe(socket)),
  );
  const h2 = createSecureServer(certificate, (request, response) => void response.end(`h2 ${request.url}`));
  await listen('h2', h2);
  await listen(
    'upgrades',
    createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write('GO');
        const { TLSSocket } = process.getBuiltinModule('node:tls');
        const secure = new TLSSocket(socket, { isServer: true, ...certificate });
        secure.on('error', () => {}).pipe(secure);
      });
    }),
  );
  const closed = createServer();
  await listen('closed', closed);
  closed.close();
});

after(async () => {
  await children.close();
  for (const server of servers) {
    if ('closeAllConnections' in server) (server.closeAllConnections as () => void)();
    server.close();
  }
});

const lookup: LookupAll = async (name) => {
  if (name === 'names.example') return [{ address: '127.0.0.1' }];
  throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' });
};

async function run(
  script: string,
  options: { allow?: string[]; maxConnections?: number; idleTimeoutMs?: number; beforeShim?: string } = {},
): Promise<{ value: unknown; relay: EgressRelay; violations: string[] }> {
  const violations: string[] = [];
  const constants = `const ports = ${JSON.stringify(ports)};
    const text = (response) => new Promise((resolve, reject) => { let all = '';
      response.on('data', (chunk) => { all += chunk; }).on('end', () => resolve(all)).on('error', reject); });
    const failure = (promise) => promise.then(() => 'no failure', (error) => error);
    const describe = ({ code, syscall, hostname, errno }) => ({ code, syscall, hostname, errno });`;
  const child = await children.start(constants + script, {
    extraCa: authority.pem,
    beforeShim: options.beforeShim ?? '',
  });
  const relay = attachEgressRelay(child.egress, {
    policy: new AddressPolicy({ allow: options.allow ?? ['public', 'local'], deny: () => [] }),
    ...(options.maxConnections === undefined ? {} : { maxConnections: options.maxConnections }),
    ...(options.idleTimeoutMs === undefined ? {} : { idleTimeoutMs: options.idleTimeoutMs }),
    onViolation: (reason) => violations.push(reason),
    lookup,
  });
  try {
    return { value: await child.result(), relay, violations };
  } finally {
    assert.deepEqual(violations, []);
    relay.close();
    assert.equal(relay.connections, 0);
  }
}

test('a component fetches over http, by address and by name, and sees the peer', async () => {
  const { value } = await run(`
    const one = await (await fetch('http://127.0.0.1:' + ports.http + '/a')).json();
    const two = await (await fetch('http://names.example:' + ports.http + '/b', { method: 'POST', body: 'x'.repeat(10) })).json();
    const [socket] = await new Promise((resolve) => { const s = require('node:net').connect(ports.http, 'names.example');
      let looked; s.on('lookup', (_e, address, family, host) => { looked = [address, family, host]; });
      s.on('connect', () => { resolve([[s.remoteAddress, s.remotePort, s.remoteFamily, s.pending, s.readyState, ...looked]]); s.destroy(); }); });
    return [one.url, two.method, two.bytes, socket];`);
  assert.deepEqual(value, [
    '/a',
    'POST',
    10,
    ['127.0.0.1', ports.http, 'IPv4', false, 'open', '127.0.0.1', 4, 'names.example'],
  ]);
});

test('a component fetches over https when the operator trusts the authority, and not otherwise', async () => {
  const { value } = await run(`
    const named = await (await fetch('https://names.example:' + ports.https + '/s')).json();
    const address = await (await fetch('https://127.0.0.1:' + ports.https + '/t')).json();
    const wrong = await failure(fetch('https://wrong.localhost:' + ports.https + '/'));
    return [named.url, address.url, wrong.cause.code];`);
  assert.deepEqual(value, ['/s', '/t', 'ERR_TLS_CERT_ALTNAME_INVALID']);
  const child = await children.start(`
    try { await fetch('https://127.0.0.1:${ports.https}/'); } catch (error) { return error.cause.code; }`);
  const relay = attachEgressRelay(child.egress, {
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
  });
  assert.match(String(await child.result()), /UNABLE_TO_|SELF_SIGNED/);
  relay.close();
});

test('http.get and https.get work, and a keep-alive agent uses one connection again', async () => {
  const { value } = await run(`
    const http = require('node:http'), https = require('node:https');
    const get = (client, url, options) => new Promise((resolve, reject) =>
      client.get(url, options, async (response) => resolve([await text(response), response.headers['x-peer-port']])).on('error', reject));
    const plain = await get(http, 'http://127.0.0.1:' + ports.http + '/plain', {});
    const seen = new Set();
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; i < 20; i += 1) seen.add((await get(https, 'https://localhost:' + ports.https + '/k', { agent, timeout: 5000 }))[1]);
    agent.destroy();
    const parallel = await Promise.all(Array.from({ length: 30 }, (_, i) => get(http, 'http://127.0.0.1:' + ports.http + '/' + i, { agent: false })));
    return [JSON.parse(plain[0]).url, seen.size, parallel.filter(([body], i) => JSON.parse(body).url === '/' + i).length];`);
  assert.deepEqual(value, ['/plain', 1, 30]);
});

test('ES modules see the same network, also those that were loaded before', async () => {
  const loaded = `for (const name of ['net', 'dns', 'dns/promises', 'https']) await import('node:' + name);`;
  const { value } = await run(
    `
    const { connect } = await import('node:net'); const { lookup } = await import('node:dns/promises');
    const { get } = await import('node:https');
    const greeting = await text(connect(ports.greets, '127.0.0.1'));
    const body = await new Promise((resolve, reject) => get('https://localhost:' + ports.https + '/esm', async (r) => resolve(await text(r))).on('error', reject));
    return [greeting, await lookup('names.example'), JSON.parse(body).url];`,
    { beforeShim: loaded },
  );
  assert.deepEqual(value, ['220 hello\r\n', { address: '127.0.0.1', family: 4 }, '/esm']);
});

test('raw sockets echo, servers may speak first, half-open sockets stay open for the answer', async () => {
  const { value } = await run(`
    const net = require('node:net');
    const echoed = await new Promise((resolve, reject) => { const s = net.connect({ port: ports.echo, host: '127.0.0.1', timeout: 5000 });
      s.setNoDelay(true).setKeepAlive(true, 1000).setEncoding('utf8'); let all = '';
      s.write('be'); s.write('fore '); s.on('connect', () => { s.cork(); s.write('af'); s.write('ter', 'latin1'); s.uncork(); });
      s.on('data', (chunk) => { all += chunk; if (all === 'before after') resolve([all, s.bytesWritten, s.bytesRead]), s.end(); }).on('error', reject); });
    const first = await text(net.connect(ports.greets, '127.0.0.1'));
    const halfOpen = await text(net.connect({ port: ports.echo, host: '127.0.0.1', allowHalfOpen: true }).end('only once'));
    const again = new net.Socket(); const twice = [];
    for (let i = 0; i < 2; i += 1) { again.connect(ports.greets, '127.0.0.1'); twice.push(await text(again)); await new Promise((r) => again.destroyed ? setImmediate(r) : again.once('close', r)); }
    return [echoed, first, halfOpen, twice];`);
  assert.deepEqual(value, [
    ['before after', 12, 12],
    '220 hello\r\n',
    'only once',
    ['220 hello\r\n', '220 hello\r\n'],
  ]);
});

test('tls.connect works in all its forms, and upgrades a connected socket', async () => {
  const { value } = await run(`
    const tls = require('node:tls'), net = require('node:net');
    const talk = (socket) => new Promise((resolve, reject) => socket.on('error', reject).once('secureConnect', () => {
      socket.write('ping'); socket.once('data', (data) => { resolve([socket.authorized, socket.encrypted, String(data), socket.remoteAddress]); socket.end(); }); }));
    const byOptions = await talk(tls.connect({ host: 'names.example', port: ports.tls, servername: 'names.example' }));
    const byPort = await talk(tls.connect(ports.tls, 'localhost', { servername: 'localhost' }));
    const plain = net.connect(ports.upgrades, '127.0.0.1');
    plain.write('STARTTLS');
    await new Promise((resolve) => plain.once('data', resolve));
    const upgraded = await talk(tls.connect({ socket: plain, host: 'localhost' }));
    const refused = await new Promise((resolve) => tls.connect(ports.closed, '127.0.0.1').on('error', resolve));
    return [byOptions, byPort, upgraded, refused.code];`);
  assert.deepEqual(value, [
    [true, true, 'ping', '127.0.0.1'],
    [true, true, 'ping', '127.0.0.1'],
    [true, true, 'ping', '127.0.0.1'],
    'ECONNREFUSED',
  ]);
});

test('WebSocket and http2 work', async () => {
  const { value } = await run(`
    const message = await new Promise((resolve, reject) => { const socket = new WebSocket('ws://127.0.0.1:' + ports.http);
      socket.onerror = (event) => reject(event.error ?? event); socket.onmessage = (event) => { resolve(event.data); socket.send('x'); }; });
    const session = require('node:http2').connect('https://localhost:' + ports.h2);
    const body = await text(session.request({ ':path': '/two' })); session.close();
    return [message, body];`);
  assert.deepEqual(value, ['hello', 'h2 /two']);
});

test('two megabytes arrive complete in both directions, also over TLS', async () => {
  const { value, relay } = await run(`
    const { createHash, randomBytes } = require('node:crypto');
    const body = randomBytes(2_000_000); const sha = createHash('sha256').update(body).digest('hex'); const same = [];
    for (const origin of ['http://127.0.0.1:' + ports.http, 'https://localhost:' + ports.https]) {
      const answer = await (await fetch(origin + '/', { method: 'POST', body })).json();
      const down = Buffer.from(await (await fetch(origin + '/download')).arrayBuffer());
      same.push(answer.bytes, answer.sha === sha, down.equals(Buffer.alloc(2_000_000, 'abc')));
    }
    return same;`);
  assert.deepEqual(value, [2_000_000, true, true, 2_000_000, true, true]);
  assert.ok(relay.bytesOut > 4_000_000 && relay.bytesIn > 4_000_000);
});

test('what was written before destroy still arrives', async () => {
  let received = '';
  const sink = createServer((socket) => void socket.on('data', (chunk) => (received += chunk)));
  await listen('sink', sink);
  const ended = once(sink, 'connection').then(([socket]) => once(socket, 'close'));
  // The end of the child would end what is still on its way: it lives until the sink has seen the end.
  const gate = createServer((socket) => void ended.then(() => socket.end()));
  await listen('gate', gate);
  await run(`const net = require('node:net');
    await new Promise((resolve) => { const s = net.connect(ports.sink, '127.0.0.1');
      s.write('x'.repeat(200_000), () => { s.destroy(); resolve(); }); });
    await new Promise((resolve) => net.connect(ports.gate, '127.0.0.1').on('end', resolve).resume());`);
  await ended;
  assert.equal(received.length, 200_000);
});

test('failures carry the codes of Node.js: refused, forbidden, unknown', async () => {
  const { value } = await run(
    `const net = require('node:net'), dns = require('node:dns');
    const connect = (...args) => new Promise((resolve) => net.connect(...args).on('error', resolve).on('connect', () => resolve('connected')));
    const refused = await connect(ports.closed, '127.0.0.1');
    const forbidden = await connect(80, '10.0.0.1');
    const unknown = await connect(80, 'nowhere.example');
    const unix = await connect('/var/run/docker.sock');
    const viaFetch = (await failure(fetch('http://169.254.169.254/latest'))).cause;
    const lookups = [await failure(dns.promises.lookup('nowhere.example')),
      await new Promise((resolve) => dns.lookup('nowhere.example', resolve)),
      await failure(require('node:util').promisify(dns.lookup)('nowhere.example'))];
    let badPort; try { net.connect(70000); } catch (error) { badPort = error.code; }
    return [describe(refused), describe(forbidden), describe(unknown), describe(unix), viaFetch.code, viaFetch.message,
      lookups.map(describe), badPort];`,
    { allow: ['127.0.0.0/8'] },
  );
  const unknown = { code: 'ENOTFOUND', syscall: 'getaddrinfo', hostname: 'nowhere.example', errno: -3008 };
  const [refused, forbidden, ...rest] = value as Record<string, unknown>[];
  assert.deepEqual(refused, { code: 'ECONNREFUSED', syscall: 'connect', errno: -111 });
  assert.deepEqual(forbidden, { code: 'EACCES', syscall: 'connect', errno: -13 });
  const message =
    'connect EACCES 169.254.169.254:80 is not allowed: it is a cloud metadata address. MILLRACE_EGRESS is "127.0.0.0/8"; the operator can open more there (local, or a CIDR)';
  assert.deepEqual(rest, [
    unknown,
    { code: 'EACCES', syscall: 'connect' },
    'EACCES',
    message,
    [unknown, unknown, unknown],
    'ERR_SOCKET_BAD_PORT',
  ]);
});

test('dns.lookup answers with vetted addresses, in every calling style', async () => {
  const { value } = await run(`
    const dns = require('node:dns');
    const styles = [
      await new Promise((resolve) => dns.lookup('names.example', (...answer) => resolve(answer))),
      await new Promise((resolve) => dns.lookup('names.example', { all: true }, (...answer) => resolve(answer))),
      await new Promise((resolve) => dns.lookup('names.example', 4, (...answer) => resolve(answer))),
      await new Promise((resolve) => dns.lookup('127.0.0.1', (...answer) => resolve(answer))),
      await dns.promises.lookup('localhost', { all: true }),
      (await failure(dns.promises.lookup('names.example', { family: 6 }))).code];
    return styles;`);
  const one = [null, '127.0.0.1', 4];
  const both = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  assert.deepEqual(value, [one, [null, [both[0]]], one, one, both, 'ENOTFOUND']);
});

test('around the shim there is nothing: sockets, listening and UDP are denied by Node.js itself', async () => {
  const child = await children.start(
    `const net = require('node:net'); const seen = [];
    const code = (work) => new Promise((resolve) => { process.once('uncaughtException', (error) => resolve(error.code));
      try { work((error) => resolve(error.code)); } catch (error) { resolve(error.code); } });
    seen.push(await code((done) => net.connect(${ports.http}, '127.0.0.1').on('error', done).on('connect', () => done({ code: 'connected' }))));
    seen.push(await code((done) => net.connect('/var/run/docker.sock').on('error', done)));
    seen.push(await code((done) => net.createServer().on('error', done).listen(0, '127.0.0.1', () => done({ code: 'listening' }))));
    seen.push(await code((done) => require('node:dgram').createSocket('udp4').send('x', 9, '127.0.0.1', (error) => done(error ?? { code: 'sent' }))));
    process.exitCode = 0; setImmediate(() => process.exit());
    return seen;`,
    { shim: false },
  );
  assert.deepEqual(
    await child.result(),
    Array.from({ length: 4 }, () => 'ERR_ACCESS_DENIED'),
  );
});

test('destroyed sockets leave no connection behind', async () => {
  const { value } = await run(
    `const net = require('node:net'), tls = require('node:tls'); const codes = new Set();
    const once = (make) => new Promise((resolve) => { const s = make(() => s.destroy()); s.on('error', (error) => codes.add(error.code)).on('close', resolve); });
    for (let i = 0; i < 50; i += 1) await once((opened) => net.connect(ports.echo, '127.0.0.1', opened));
    for (let i = 0; i < 20; i += 1) await once((opened) => tls.connect(ports.tls, 'localhost', opened));
    for (let i = 0; i < 20; i += 1) await once((opened) => (setImmediate(opened), net.connect(ports.echo, '127.0.0.1')));
    for (let i = 0; i < 5; i += 1) await failure(fetch('http://127.0.0.1:' + ports.http, { signal: AbortSignal.timeout(1) }));
    return [...codes];`,
    { maxConnections: 8 },
  );
  assert.deepEqual(value, []);
});

test('the 65th connection at once fails with EMFILE', async () => {
  const { value } = await run(
    `const net = require('node:net'); const open = []; const codes = {};
    await Promise.all(Array.from({ length: 200 }, () => new Promise((resolve) => {
      const s = net.connect(ports.echo, '127.0.0.1'); open.push(s);
      const count = (what) => { codes[what] = (codes[what] ?? 0) + 1; resolve(); };
      s.on('connect', () => count('connected')).on('error', (error) => count(error.code)); })));
    for (const s of open) s.destroy();
    return codes;`,
  );
  assert.deepEqual(value, { connected: 64, EMFILE: 136 });
});

test('a connection without a byte for the idle time ends with ETIMEDOUT', async () => {
  const { value } = await run(
    `return await new Promise((resolve) => require('node:net').connect(ports.echo, '127.0.0.1').on('error', (error) => resolve(error.code)));`,
    { idleTimeoutMs: 100 },
  );
  assert.equal(value, 'ETIMEDOUT');
});
