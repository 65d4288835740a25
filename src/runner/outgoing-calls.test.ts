import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { after, before, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';

let server: Server;
let port = 0;
let open: RunnerFixture;
let closed: RunnerFixture;
before(async () => {
  server = createServer((request, response) => {
    request.resume().on('end', () => response.end(`${request.method} ${request.url}`));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
  open = await startRunnerFixture({ policy: new AddressPolicy({ allow: ['local'], deny: () => [] }) });
  closed = await startRunnerFixture();
});
after(async () => {
  // Connections are closed first, so that a failed start does not leave the test waiting.
  server.closeAllConnections();
  server.close();
  await open?.close();
  await closed?.close();
});

test('user code calls out with fetch, http and raw sockets where the policy allows it', async () => {
  const outcome = await open.run(`
    const http = require('http'); const net = require('net');
    const viaHttp = await new Promise((resolve, reject) => http.get('http://127.0.0.1:${port}/b', (response) => {
      let text = ''; response.on('data', (chunk) => { text += chunk; }).on('end', () => resolve(text)); }).on('error', reject));
    const viaSocket = await new Promise((resolve, reject) => { const socket = net.connect(${port}, '127.0.0.1'); let text = '';
      socket.on('error', reject).on('data', (chunk) => { text += chunk; }).on('end', () => resolve(text.split('\\r\\n').at(-1)));
      socket.write('GET /c HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'); });
    return [await (await fetch('http://127.0.0.1:${port}/a', { method: 'POST', body: 'x' })).text(), viaHttp, viaSocket];`);
  const [viaFetch, viaHttp, viaSocket] = resultOf(outcome) as string[];
  assert.equal(viaFetch, 'POST /a');
  assert.equal(viaHttp, 'GET /b');
  assert.equal(viaSocket, 'GET /c');
});

test('a refused connection is reported to the call that opened it, not to others beside it', async () => {
  const told: string[] = [];
  const source = `
    const { AsyncResource } = require('node:async_hooks');
    const ofNoCall = new AsyncResource('of no call');
    let othersAsked = Promise.withResolvers();
    const ask = () => fetch('http://127.0.0.1:${port}/').catch(() => {});
    module.exports = { async run({ asks, leaves, quiet }) {
      if (asks) await ask();
      if (leaves) await ofNoCall.runInAsyncScope(ask);
      if (!quiet) return othersAsked.resolve();
      await othersAsked.promise;
      othersAsked = Promise.withResolvers();
    } };`;
  const run = (name: string, event: object) =>
    closed.call(
      source,
      { deploymentId: 'dc_refused', call: { kind: 'run', event: JSON.stringify(event) } },
      { onRefused: () => told.push(name) },
    );
  await Promise.all([run('quiet', { quiet: true }), run('asks', { asks: true })]);
  assert.deepEqual(told, ['asks']);
  // The process cannot name the call, except when there is only one.
  await Promise.all([run('quiet', { quiet: true }), run('leaves', { leaves: true })]);
  assert.deepEqual(told, ['asks']);
  await run('alone', { leaves: true });
  assert.deepEqual(told, ['asks', 'alone']);
});

test('look-ups of an owner beyond its share wait for their turn', async () => {
  const lookups = (count: number) => `module.exports = { async run() {
    const { lookup } = require('dns/promises');
    const name = ${JSON.stringify(hostname())};
    return (await Promise.allSettled(Array.from({ length: ${count} }, () => lookup(name)))).length;
  } };`;
  const delayed = () => open.runner.stats().shares.lookups.delayed;
  assert.equal(
    resultOf(await open.call(lookups(64), { ownerId: 'u_modest', deploymentId: 'dc_modest' })),
    64,
  );
  assert.equal(delayed(), 0);
  assert.equal(
    resultOf(await open.call(lookups(500), { ownerId: 'u_greedy', deploymentId: 'dc_greedy' })),
    500,
  );
  assert.ok(delayed() > 0);
});

test('an owner whose processes open connections without end leaves some to others, and gets the reason', async () => {
  const local = new AddressPolicy({ allow: ['local'], deny: () => [] });
  const shared = await startRunnerFixture({ policy: local, limits: { ownersConnectionsMax: 8 } });
  try {
    const opens = (count: number) => `module.exports = { async run() {
      const net = require('net');
      const open = () => new Promise((resolve) => {
        const socket = net.connect(${port}, '127.0.0.1');
        socket.on('connect', () => resolve(socket)).on('error', resolve);
      });
      const made = await Promise.all(Array.from({ length: ${count} }, open));
      const failed = made.filter((one) => one instanceof Error);
      if (globalThis.kept === undefined) globalThis.kept = made; else for (const socket of made) socket.destroy();
      return { open: made.length - failed.length, codes: failed.map(({ code }) => code), why: failed[0]?.message };
    } };`;
    const call = async (ownerId: string, deploymentId: string, count = 4) =>
      resultOf(await shared.call(opens(count), { ownerId, deploymentId, isolated: true })) as object;
    assert.deepEqual(await call('u_greedy', 'dc_1'), { open: 4, codes: [] });
    assert.deepEqual(await call('u_greedy', 'dc_2'), {
      ...{ open: 2, codes: ['EMFILE', 'EMFILE'] },
      why: '6 of 8 connections are open for this owner, which is its share; close those that are not needed, or ask the operator for more descriptors (ulimit -n)',
    });
    assert.deepEqual(await call('u_other', 'dc_3', 2), { open: 2, codes: [] });
    assert.equal(shared.runner.stats().shares.connections.refused, 2);
    // The connections of a process end with it.
    await shared.runner.forget('dc_1');
    await shared.runner.forget('dc_2');
    assert.deepEqual(await call('u_greedy', 'dc_4'), { open: 4, codes: [] });
  } finally {
    await shared.close();
  }
});
