import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { silentLogger } from '#lib/logger.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { Launcher } from './launcher.ts';
import { ProcessStarter } from './process-starter.ts';
import type { SandboxFolders } from './runner-folders.ts';
import { defaultRunnerLimits } from './runner-limits.ts';
import { systemTimer } from './runner-timer.ts';

/** True when the process has ended, and its output is in the streams. */
function hasEnded(pid: number): boolean {
  try {
    return /\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}

test('streams are closed of a process that said something and could not be put on the list', async () => {
  await using folder = await createTempFolder('starter');
  await chmod(folder.path, 0o711);
  const program = join(folder.path, 'program.js');
  writeFileSync(program, "process.stderr.write('it runs');");
  const logger = silentLogger;
  const launcher = await Launcher.create({ programs: folder.path, streams: folder.path, logger });
  const streams: Socket[] = [];
  const launch = launcher.launch.bind(launcher);
  launcher.launch = async (request) => {
    const launched = await launch(request);
    streams.push(...Object.values(launched.streams));
    return launched;
  };
  const folders = {
    processStarted: (pid: number) => {
      // The service is busy until the process has ended.
      while (!hasEnded(pid));
      throw new Error('no room for the list');
    },
    newScratch: () => folder.path,
    removeScratch: async () => undefined,
    processesEnded: () => undefined,
  } as unknown as SandboxFolders;
  const starter = new ProcessStarter({
    ...{ launcher, program, folders, extraCa: '', addons: false, logger, timer: systemTimer },
    confinement: { level: 'off', distinctUsers: false, setpriv: undefined, prlimit: undefined },
    policy: new AddressPolicy({ allow: [], deny: () => [] }),
    limits: defaultRunnerLimits,
    connectionShare: () => assert.fail('no process was made'),
    onEnded: () => undefined,
    onRemoved: () => undefined,
  });
  try {
    const outcome = await starter.start({});
    assert.match(String(outcome), /no room for the list/);
    await waitFor(() => streams.length === 5 && streams.every(({ closed }) => closed), {
      what: 'the end of its streams',
    });
  } finally {
    await starter.close();
    await launcher.close();
    for (const stream of streams) stream.destroy();
  }
});
