import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { CallOptions } from '#runner/runner.ts';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../support/runner-fixture.ts';
import { levelOfTests } from '../support/sandbox-level.ts';
import { waitFor } from '../support/wait-for.ts';
import { addResult } from './attack-results.ts';
import { AttackSurroundings, endingOf } from './attack-surroundings.ts';
import { forgedFrames, frame, noEffects, relayFrame } from './attacks/frames.ts';

const level = levelOfTests();
let surroundings: AttackSurroundings;
let fixture: RunnerFixture;
/** Code can write frames of its own, and those that are in order are taken. */
let proved: Record<number, boolean>;

before(async () => {
  surroundings = await AttackSurroundings.make();
  fixture = await startRunnerFixture({ policy: surroundings.policy });
  const own = frame(21, 2, `{"status":"finished",${noEffects},"result":2}`, '42');
  const { redirect } = surroundings.values.P;
  const over = new AbortController();
  const open = relayFrame(1, 1001, `{"host":"127.0.0.2","port":${redirect}}`);
  const connecting = write(4, open, 'await new Promise(() => {});', { signal: over.signal });
  await waitFor(() => surroundings.connections('redirect') > 0, { what: 'a connection' });
  over.abort();
  await connecting;
  proved = {
    3: resultOf(await write(3, own, 'return 1;')) === 42,
    4: surroundings.connections('redirect') > 0,
  };
});
after(async () => {
  await fixture?.close();
  await surroundings?.close();
});

function write(
  descriptor: number,
  bytes: Buffer,
  next = 'await new Promise(() => {});',
  options: CallOptions = {},
) {
  return fixture.run(
    `const fs = require('fs'); let rest = Buffer.from('${bytes.toString('base64')}', 'base64');
     while (rest.length > 0) { try { rest = rest.subarray(fs.writeSync(${descriptor}, rest)); } catch (error) { if (error.code !== 'EAGAIN') throw error; await new Promise(setImmediate); } } ${next}`,
    {},
    options,
  );
}

for (const { class: className, name, descriptor, bytes, ending } of forgedFrames)
  test(`${className}: ${name}`, async () => {
    assert.ok(proved[descriptor], 'frames of the code itself that are in order are taken');
    const said = endingOf(await write(descriptor, bytes));
    assert.equal(fixture.runner.stats().level, level);
    addResult({ class: className, level, held: said === ending, proved: true });
    assert.equal(said, ending);
  });

for (const host of [
  '127.0.0.1',
  '[::1]',
  '0.0.0.0',
  '2130706433',
  'localhost',
  '::ffff:127.0.0.1',
  '127.0.0.2',
])
  test(`forged frames of the relay: a request for ${host}`, async () => {
    const { web, denied } = surroundings.values.P;
    const port = host === '127.0.0.2' ? denied : web;
    // Numbers only grow: the second frame ends the process, after the first was answered.
    const bytes = Buffer.concat([
      relayFrame(1, 1001, JSON.stringify({ host, port })),
      relayFrame(1, 1, '{}'),
    ]);
    const said = endingOf(await write(4, bytes));
    const held =
      said === 'exited' && surroundings.connections('web') + surroundings.connections('denied') === 0;
    assert.equal(fixture.runner.stats().level, level);
    addResult({ class: 'forged frames of the relay', level, held, proved: proved[4] === true });
    assert.ok(held && proved[4], said);
  });

test('the service continues, and nothing of its own was changed', async () => {
  assert.equal(resultOf(await fixture.run('return 1;')), 1);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});
