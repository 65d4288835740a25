import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { processActivity, processCpuMs, processMemory, processTreeCpuMs } from './process-memory.ts';

const spins =
  "const used = () => { const { user, system } = process.cpuUsage(); return user + system; }; while (used() < 300_000); process.stdout.write('spun');";
const spinsAndStays = `${spins} setInterval(() => {}, 1000);`;
/** Starts both processes, reports when both have used the CPU, and ends them when its stdin ends. */
const parent = `
  const { spawn } = require('node:child_process');
  const { once } = require('node:events');
  const start = (code) => spawn(process.execPath, ['-e', code]);
  const stays = start(${JSON.stringify(spinsAndStays)});
  const ends = start(${JSON.stringify(spins)});
  Promise.all([once(stays.stdout, 'data'), once(ends, 'exit')]).then(() => process.stdout.write('done'));
  process.stdin.on('end', () => stays.kill()).resume();
`;

test('the CPU time of a process tree includes children that run and children that have ended', {
  skip: process.platform !== 'linux',
}, async () => {
  const child = spawn(process.execPath, ['-e', parent], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  try {
    await once(child.stdout, 'data');
    const pid = child.pid ?? 0;
    const own = processCpuMs(pid) ?? 0;
    const all = processTreeCpuMs(pid) ?? 0;
    // Each number is of whole ticks of 10 ms; one child alone would be 300.
    assert.ok(all - own >= 550, `${all} ms of all, ${own} ms of its own`);
  } finally {
    child.stdin.end();
    await ended;
  }
  assert.equal(processTreeCpuMs(child.pid ?? 0), undefined);
});

test('a look at a process makes no buffers, of which V8 would count megabytes a second', {
  skip: process.platform !== 'linux',
}, () => {
  const bytes = () => process.memoryUsage().arrayBuffers;
  for (const look of [processMemory, processActivity]) {
    const before = bytes();
    let most = 0;
    for (let n = 0; n < 100; n += 1) {
      assert.ok(look(process.pid) !== undefined);
      most = Math.max(most, bytes() - before);
    }
    assert.ok(most < 256 * 1024, `${most} bytes`);
  }
});
