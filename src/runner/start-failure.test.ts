import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { findExecutable } from './runner-folders.ts';

let fixture: RunnerFixture;
let onStartFailed: (() => void) | undefined;
before(async () => {
  const logger: Logger = {
    ...silentLogger,
    error: (_: unknown, message?: string) => {
      if (message === 'runner.start-failed') onStartFailed?.();
    },
  };
  fixture = await startRunnerFixture({ limits: { prewarmed: 1, startRetryMs: 20 }, logger });
});
after(() => fixture.close());

/** A call that finds no process gets an error. After the cause has ended, the next one gets its process. */
async function assertRecovers(cause: () => () => void): Promise<void> {
  const end = cause();
  try {
    let outcome = await fixture.run('return 1;');
    // The first call gets the process that was already started.
    if (outcome.status === 'finished') outcome = await fixture.run('return 1;');
    assert.equal(outcome.status, 'cancelled');
    assert.equal(outcome.error?.code, 'no_free_process');
    // The pool tries again by itself, without a call.
    await new Promise<void>((resolve) => {
      onStartFailed = resolve;
    });
  } finally {
    end();
  }
  assert.equal(resultOf(await fixture.run('return 2;')), 2);
}

test('no room for the files of a process does not end the service', async () => {
  await assertRecovers(() => {
    const name = readdirSync(fixture.folder).find((entry) => entry.startsWith('run-')) ?? '';
    const away = join(fixture.folder, 'away');
    renameSync(join(fixture.folder, name), away);
    return () => renameSync(away, join(fixture.folder, name));
  });
});

test('a process that cannot be put on the list is ended, with its folder and its descriptors', async () => {
  const run = join(
    fixture.folder,
    readdirSync(fixture.folder).find((entry) => entry.startsWith('run-')) ?? '',
  );
  const descriptors = () => readdirSync('/proc/self/fd').length;
  const folders = () => readdirSync(run).filter((name) => name.startsWith('scratch-')).length;
  // Five descriptors of the service belong to each process.
  const unaccounted = () => descriptors() - 5 * processes();
  const processes = () => fixture.runner.stats().warm + fixture.runner.stats().prewarmed;
  const before = unaccounted();
  await assertRecovers(() => {
    renameSync(join(run, 'processes'), join(run, 'away'));
    return () => renameSync(join(run, 'away'), join(run, 'processes'));
  });
  await waitFor(() => folders() <= processes(), { what: 'no folders of no process' });
  await waitFor(() => unaccounted() <= before, { what: 'no descriptors of no process' });
});

test('no descriptors for a process do not end the service', {
  skip: findExecutable('prlimit') === undefined,
}, async () => {
  await assertRecovers(() => {
    const inUse = readdirSync('/proc/self/fd').length;
    const limits = execFileSync('prlimit', ['--nofile', '--noheadings', '--raw', '-o', 'SOFT,HARD']);
    const [soft, hard] = limits.toString().trim().split(/\s+/);
    const setLimit = (now: string) =>
      execFileSync('prlimit', [`--pid=${process.pid}`, `--nofile=${now}:${hard}`]);
    // The limit is above the current use, so that prlimit itself can be started again when some are closed.
    setLimit(String(inUse + 40));
    const held: number[] = [];
    for (;;) {
      try {
        held.push(openSync('/dev/null', 'r'));
      } catch {
        break;
      }
    }
    // Enough for the list of processes, too few for five streams.
    for (const descriptor of held.splice(0, 3)) closeSync(descriptor);
    return () => {
      for (const descriptor of held) closeSync(descriptor);
      setLimit(soft ?? '1024');
    };
  });
});
