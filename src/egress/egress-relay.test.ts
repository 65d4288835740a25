import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { EgressChildren } from '../../test/support/egress-child.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { AddressPolicy } from './address-policy.ts';
import { attachEgressRelay, type EgressRelay, type EgressRelayOptions } from './egress-relay.ts';
import { EgressError } from './resolve-address.ts';

// Children that know the protocol and mean no good. What they write on descriptor 4 is made in the child itself.

const speakMux = `const fd4 = new (require('node:net').Socket)({ fd: 4 }); fd4.on('error', () => {});
  const frame = (type, id, payload = '') => { const body = Buffer.from(payload); const head = Buffer.alloc(9);
    head.writeUInt32BE(body.length, 0); head[4] = type; head.writeUInt32BE(id, 5); return Buffer.concat([head, body]); };
  const [OPEN, OPENED, ERROR, DATA, END, RESET, WINDOW] = [1, 2, 3, 4, 5, 6, 7];
  const frames = []; const waiting = []; let rest = Buffer.alloc(0);
  fd4.on('data', (chunk) => { rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUInt32BE(0)) { const length = 9 + rest.readUInt32BE(0);
      frames.push({ type: rest[4], id: rest.readUInt32BE(5), payload: String(rest.subarray(9, length)) }); rest = rest.subarray(length); }
    for (const check of waiting) check(); });
  const until = (condition) => new Promise((resolve) => { const check = () => condition() && resolve(); waiting.push(check); check(); });
  const gone = new Promise((resolve) => fd4.on('close', resolve));
  const ask = (id, request) => fd4.write(frame(OPEN, id, JSON.stringify(request)));
`;

let children: EgressChildren;
let port = 0;
const accepted: Socket[] = [];
const server = createServer((socket) => {
  accepted.push(socket);
  socket.on('error', () => {});
});
before(async () => {
  children = await EgressChildren.prepare();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
after(async () => {
  await children.close();
  for (const socket of accepted) socket.destroy();
  server.close();
});

async function start(script: string, options: Partial<EgressRelayOptions> = {}) {
  const child = await children.start(`${speakMux} const port = ${port}; ${script}`, { shim: false });
  const violations: string[] = [];
  const relay = attachEgressRelay(child.egress, {
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
    onViolation: (reason) => violations.push(reason),
    ...options,
  });
  return { child, relay, violations };
}

test('a child that speaks the protocol itself gains nothing: forbidden addresses are refused', async () => {
  const policy = new AddressPolicy({ allow: ['public'], deny: () => [] });
  const { child, relay, violations } = await start(
    `const hosts = ['127.0.0.1', '[::1]', '0.0.0.0', '2130706433', '169.254.169.254', 'localhost', '10.0.0.1', '::ffff:127.0.0.1'];
    hosts.forEach((host, i) => ask(2 * i + 1, { host, port }));
    ask(101, { host: '1.1.1.1', port: 0 }); ask(103, { host: '1.1.1.1', port: 70000 }); ask(105, { port }); ask(107, []); ask(109, null);
    ask(111, { host: 7, port: '1' }); ask(113, { lookup: '127.0.0.1' }); ask(115, { host: '1.1.1.1@127.0.0.1', port });
    await until(() => frames.length === 16);
    fd4.destroy();
    return Object.fromEntries(frames.map((one) => [one.id, one.type === ERROR ? JSON.parse(one.payload).code : one.type]));`,
    { policy },
  );
  const codes = (await child.result()) as Record<string, unknown>;
  for (const id of [1, 3, 5, 7, 9, 11, 13, 15, 101, 103, 113]) assert.equal(codes[id], 'EACCES', String(id));
  for (const id of [105, 107, 109, 111]) assert.equal(codes[id], 'EINVAL', String(id));
  assert.equal(codes[115], 'ENOTFOUND');
  assert.deepEqual(violations, []);
  relay.close();
  assert.equal(accepted.length, 0);
});

test('a child that may ask for some hosts by name gets no others, neither connected nor looked up', async () => {
  const asked: unknown[] = [];
  const { child, relay } = await start(
    `ask(1, { host: '127.0.0.1', port }); ask(3, { host: 'localhost', port }); ask(5, { host: '127.0.0.1', port: port + 1 });
    ask(7, { lookup: 'localhost' }); ask(9, { lookup: '127.0.0.1' });
    await until(() => [1, 3, 5, 7, 9].every((id) => frames.some((one) => one.id === id)));
    fd4.destroy();
    return Object.fromEntries([1, 3, 5, 7, 9].map((id) => { const one = frames.find((frame) => frame.id === id); return [id, one.type === ERROR ? JSON.parse(one.payload).code : one.type]; }));`,
    {
      permits: (host, to) => {
        asked.push([host, to]);
        return host === '127.0.0.1' && (to === undefined || to === port);
      },
    },
  );
  const opened = 2;
  assert.deepEqual(await child.result(), { 1: opened, 3: 'EACCES', 5: 'EACCES', 7: 'EACCES', 9: opened });
  assert.deepEqual(asked[3], ['localhost', undefined]);
  relay.close();
});

const breaches: Record<string, string> = {
  garbage: `fd4.write(require('node:crypto').randomBytes(100_000));`,
  'a giant frame': `fd4.write(Buffer.from([0x7f, 0xff, 0xff, 0xff, 4, 0, 0, 0, 1]));`,
  'a duplicate id': `ask(1, { host: '127.0.0.1', port }); ask(1, { host: '127.0.0.1', port });`,
  'data before the answer': `fd4.write(Buffer.concat([frame(OPEN, 1, JSON.stringify({ host: '127.0.0.1', port })), frame(DATA, 1, 'x')]));`,
  'more than the window': `ask(1, { host: '127.0.0.1', port }); await until(() => frames.length === 1);
    for (let i = 0; i < 2000; i += 1) fd4.write(frame(DATA, 1, Buffer.alloc(65536)));`,
};
for (const [what, script] of Object.entries(breaches)) {
  test(`${what} on descriptor 4 is reported, closes the relay, and leaves others alone`, async () => {
    const good = await start(`ask(1, { host: '127.0.0.1', port }); await until(() => frames.length >= 1);
      process.stdout.write('ready'); await gone;`);
    const bad = await start(`${script} await gone; return 'cut off';`);
    assert.equal(await bad.child.result(), 'cut off');
    await waitFor(() => bad.violations.length === 1 && bad.relay.connections === 0);
    await waitFor(() => good.relay.connections === 1);
    assert.deepEqual(good.violations, []);
    good.relay.close();
    await once(good.child.process, 'exit');
  });
}

test('10 000 requests at once get 64 connections; the others are refused with EMFILE', async () => {
  const { child, relay, violations } = await start(
    `for (let i = 0; i < 10_000; i += 1) ask(2 * i + 1, { host: '127.0.0.1', port });
    await until(() => frames.length === 10_000);
    const counts = {};
    for (const one of frames) { const what = one.type === OPENED ? 'opened' : JSON.parse(one.payload).code; counts[what] = (counts[what] ?? 0) + 1; }
    fd4.destroy();
    return counts;`,
  );
  const counts = (await child.result()) as { opened: number; EMFILE: number };
  assert.deepEqual(counts, { opened: 64, EMFILE: 9_936 });
  await waitFor(() => relay.connections === 0);
  assert.deepEqual(violations, []);
});

test('look-ups, and connections by name, wait for the turn of their owner, and can be refused', async () => {
  const turns: string[] = [];
  const share = {
    take: () => undefined,
    leave: () => {},
    lookup: async <T>(lookup: () => Promise<T>): Promise<T> => {
      turns.push('turn');
      if (turns.length > 2) throw new EgressError('EMFILE', 'which is its share');
      return lookup();
    },
  };
  const { child, relay } = await start(
    `ask(1, { lookup: 'one.test' }); await until(() => frames.length >= 2);
    ask(3, { host: 'two.test', port }); await until(() => frames.length >= 3);
    ask(5, { lookup: 'three.test' }); await until(() => frames.length >= 4);
    ask(7, { host: '127.0.0.1', port }); await until(() => frames.length >= 5);
    fd4.destroy();
    return frames.map((one) => one.type === ERROR ? JSON.parse(one.payload) : one.type);`,
    { share, lookup: async () => [{ address: '127.0.0.1' }] },
  );
  assert.deepEqual(await child.result(), [2, 5, 2, { code: 'EMFILE', message: 'which is its share' }, 2]);
  assert.equal(turns.length, 3, 'an address is not looked up');
  relay.close();
});

test('50 greedy downloads of one child leave the requests of another fast', async () => {
  const block = Buffer.alloc(1_000_000, 1);
  const origin = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (first: Buffer) => {
      if (String(first) === 'echo') {
        socket.end('echo');
        return;
      }
      const more = () => {
        while (!socket.destroyed && socket.write(block));
      };
      socket.on('drain', more);
      more();
    });
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const originPort = (origin.address() as AddressInfo).port;
  const options = { policy: new AddressPolicy({ allow: ['local'], deny: () => [] }) };
  const greedy = await children.start(
    `for (let i = 0; i < 50; i += 1) require('node:net').connect(${originPort}, '127.0.0.1', function () { this.write('more'); this.resume(); });
    await new Promise(() => {});`,
  );
  // The median time of a connection, a request and its answer, in ms.
  const modest = () =>
    children.start(
      `const once = () => new Promise((resolve, reject) => {
        const begun = performance.now();
        require('node:net').connect(${originPort}, '127.0.0.1', function () { this.write('echo'); })
          .on('data', () => {}).on('error', reject).on('end', () => resolve(performance.now() - begun));
      });
      await once();
      const times = [];
      for (let i = 0; i < 41; i += 1) times.push(await once());
      return times.sort((a, b) => a - b)[20];`,
    );
  const medianMs = async () => {
    const child = await modest();
    const relay = attachEgressRelay(child.egress, options);
    const median = (await child.result()) as number;
    relay.close();
    return median;
  };
  const quietMs = await medianMs();
  const greedyRelay = attachEgressRelay(greedy.egress, options);
  await waitFor(() => greedyRelay.bytesIn > 50_000_000);
  const before = greedyRelay.bytesIn;
  const besideMs = await medianMs();
  const downloaded = greedyRelay.bytesIn - before;
  greedyRelay.close();
  greedy.process.kill('SIGKILL');
  origin.close();
  assert.ok(downloaded > 20_000_000, `${downloaded} bytes were downloaded meanwhile`);
  // The downloads use the processors too, and other programs use them while tests run.
  const boundMs = Math.max(20 * quietMs, 250);
  assert.ok(besideMs < boundMs, `${besideMs} ms beside downloads, ${quietMs} ms in quiet times`);
});

test('connections that a child closed, but whose data the receiver does not take, still count', async () => {
  const child = await children.start(
    `const net = require('node:net'); const open = [];
    for (let i = 0; i < 4; i += 1) open.push(net.connect(${port}, '127.0.0.1'));
    for (const socket of open) socket.write(Buffer.alloc(20_000_000));
    await new Promise((resolve) => process.once('SIGUSR2', resolve));
    for (const socket of open) socket.destroy();
    return await new Promise((resolve) => net.connect(${port}, '127.0.0.1')
      .on('connect', function () { this.destroy(); resolve('connected'); }).on('error', (error) => resolve(error.code)));`,
  );
  const policy = new AddressPolicy({ allow: ['local'], deny: () => [] });
  const relay = attachEgressRelay(child.egress, { policy, maxConnections: 4 });
  await stalled(relay);
  assert.ok(relay.bytesOut < 80_000_000);
  child.process.kill('SIGUSR2');
  assert.equal(await child.result(), 'EMFILE');
  assert.equal(relay.connections, 0, 'the end of the child ends them');
});

test('what left a child before it destroyed the connection still arrives, as with sockets of its own', async () => {
  const seen = accepted.length;
  const child = await children.start(
    `const socket = require('node:net').connect(${port}, '127.0.0.1');
    socket.write(Buffer.alloc(20_000_000));
    await new Promise((resolve) => process.once('SIGUSR2', resolve));
    socket.destroy();
    setInterval(() => {}, 1_000);
    await new Promise(() => {});`,
  );
  const policy = new AddressPolicy({ allow: ['local'], deny: () => [] });
  const relay = attachEgressRelay(child.egress, { policy });
  await stalled(relay);
  child.process.kill('SIGUSR2');
  await waitFor(() => relay.channels === 0);
  const socket = accepted[seen];
  assert.ok(socket !== undefined);
  let received = 0;
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  await once(socket, 'close');
  assert.equal(received, relay.bytesOut);
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
});

/** The other end does not read, so at some point the stream stops. */
async function stalled(relay: EgressRelay): Promise<void> {
  let last = -1;
  let still = 0;
  await waitFor(() => {
    still = relay.bytesOut === last && last > 1_000_000 ? still + 1 : 0;
    last = relay.bytesOut;
    return still === 40;
  });
}

test('a large transfer keeps the memory of the parent flat, in both directions, also when one side stalls', async () => {
  const total = 300_000_000;
  let uploaded = 0;
  const sink = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (first: Buffer) => {
      if (String(first.subarray(0, 4)) === 'down') {
        const chunk = Buffer.alloc(1_000_000, 1);
        let left = total / chunk.length;
        const more = (): void => {
          if (left === 0) return void socket.end();
          left -= 1;
          socket.write(chunk, more);
        };
        more();
        return;
      }
      uploaded = first.length;
      socket.on('data', (data) => {
        uploaded += data.length;
        if (uploaded >= total) socket.end('done');
      });
    });
  }).listen(0, '127.0.0.1');
  await once(sink, 'listening');
  const sinkPort = (sink.address() as AddressInfo).port;
  const child = await children.start(
    `const net = require('node:net');
    const stalled = net.connect(${sinkPort}, '127.0.0.1', () => stalled.write('down')); stalled.pause();
    const down = await new Promise((resolve) => { let bytes = 0; const s = net.connect(${sinkPort}, '127.0.0.1', () => s.write('down'));
      s.on('data', (data) => { bytes += data.length; }).on('end', () => resolve(bytes)); });
    await new Promise((resolve, reject) => { const s = net.connect(${sinkPort}, '127.0.0.1'); let left = ${total / 1_000_000};
      const chunk = Buffer.alloc(1_000_000, 2); const more = () => { if (left-- > 0) s.write(chunk, more); }; more();
      s.on('data', resolve).on('error', reject); });
    stalled.destroy();
    return down;`,
  );
  const relay = attachEgressRelay(child.egress, {
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
    onViolation: (reason) => assert.fail(reason),
  });
  const start = process.memoryUsage().rss;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 20);
  assert.equal(await child.result(), total);
  clearInterval(watch);
  assert.equal(uploaded, total);
  assert.ok(relay.bytesIn > total && relay.bytesOut >= total);
  assert.ok(most - start < 150_000_000, `grew by ${Math.round((most - start) / 1e6)} MB`);
  relay.close();
  sink.close();
});

test('closing the relay ends the connections of the child and the dialled sockets', async () => {
  const seen = accepted.length;
  const { child, relay } = await start(`ask(1, { host: '127.0.0.1', port }); await gone; return 'over';`);
  await waitFor(() => accepted.length > seen);
  relay.close();
  relay.close();
  assert.equal(await child.result(), 'over');
  const socket = accepted.at(-1);
  await waitFor(
    () => socket?.destroyed === true || socket?.readableEnded === true || socket?.resume().destroyed,
  );
});

test('a name is looked up within the slots of connections, also when the child gives up', async () => {
  let asked = 0;
  let answer = (): void => {};
  const slow = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { child, relay } = await start(
    `for (let id = 1; id < 40; id += 2) { ask(id, { host: 'slow' + id + '.example', port }); fd4.write(frame(RESET, id)); }
    for (let id = 41; id < 80; id += 2) { ask(id, { lookup: 'slow' + id + '.example' }); }
    await until(() => frames.filter((one) => one.type === ERROR).length >= 12);
    fd4.destroy();`,
    {
      maxConnections: 8,
      lookup: async () => {
        asked += 1;
        await slow;
        return [];
      },
    },
  );
  await child.result();
  assert.ok(asked <= 16, `${asked} look-ups at once`);
  answer();
  await waitFor(() => relay.connections === 0);
});
