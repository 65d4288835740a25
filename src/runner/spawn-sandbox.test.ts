import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { kernelSkip } from '../../test/support/sandbox-level.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { findKernelPrograms } from './kernel-command.ts';
import { buildSandboxProgram } from './sandbox-program.ts';
import { spawnSandbox } from './spawn-sandbox.ts';

/** Living processes of these groups. */
function membersOf(groups: ReadonlySet<number>): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'latin1');
      const [state = '', , group] = text.slice(text.lastIndexOf(')') + 2).split(' ');
      return state !== 'Z' && groups.has(Number(group));
    } catch {
      return false;
    }
  });
}

test('a sandbox that is ended while bubblewrap sets it up leaves nothing behind', {
  skip: await kernelSkip(),
}, async () => {
  await using folder = await createTempFolder('spawn');
  await chmod(folder.path, 0o711);
  const program = await buildSandboxProgram(folder.path);
  const kernel = findKernelPrograms(folder.path);
  assert.ok(typeof kernel !== 'string');
  const groups = new Set<number>();
  // At every moment of the few ms that it takes.
  for (let afterMs = 0; afterMs < 10; afterMs += 0.25) {
    const sandbox = spawnSandbox({
      ...{ level: 'kernel', program, kernel, scratchBytesMax: 1024 * 1024, memoryMb: 64 },
      ...(process.getuid?.() === 0 ? { uid: 61_000 } : {}),
    });
    for (const stream of sandbox.child.stdio) stream?.on('error', () => {});
    groups.add(sandbox.child.pid ?? 0);
    const exited = once(sandbox.child, 'exit');
    const untilMs = performance.now() + afterMs;
    if (afterMs >= 1) await delay(Math.floor(afterMs));
    while (performance.now() < untilMs);
    sandbox.kill();
    await exited;
    for (const stream of sandbox.child.stdio) stream?.destroy();
  }
  await waitFor(() => membersOf(groups).length === 0, { what: 'all that was started to be gone' });
});
