import assert from 'node:assert/strict';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { must } from '#lib/assert.ts';
import { childrenOf } from '#runner/process-memory.ts';
import { findExecutable } from '#runner/runner-folders.ts';
import { runCommand } from '../support/command-line.ts';
import { Millrace, type MillraceOptions, testApiKey } from '../support/millrace.ts';
import { kernelSkip } from '../support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const skip = await kernelSkip();
const bwrap = findExecutable('bwrap');

/** Starts a service that finds no bubblewrap: something that is no program is in its place. */
const launcher =
  bwrap === undefined
    ? []
    : [bwrap, '--dev-bind', '/', '/', '--ro-bind', '/dev/null', bwrap, '--die-with-parent', '--'];
const missing = 'bubblewrap is not installed';

let folder: TempFolder;
before(async () => {
  folder = await createTempFolder('walls');
});
after(() => folder.remove());

function optionsFor(sandbox: string, options: Partial<MillraceOptions> = {}): MillraceOptions {
  return { dataFolder: folder.path, environment: { MILLRACE_SANDBOX: sandbox }, launcher, ...options };
}

async function start(
  sandbox: string,
  options?: Partial<MillraceOptions>,
): Promise<{ service: Millrace } & AsyncDisposable> {
  const service = await Millrace.start(optionsFor(sandbox, options));
  return { service, [Symbol.asyncDispose]: () => stop(service) };
}

/** The signal goes to the service itself: bubblewrap would not pass it on. */
async function stop(service: Millrace): Promise<void> {
  const { pid, spawnfile } = service.process;
  const [inner] = pid === undefined || spawnfile !== bwrap ? [] : childrenOf(pid);
  if (inner === undefined) {
    await service.stop();
    return;
  }
  const exited = once(service.process, 'exit');
  process.kill(inner, 'SIGTERM');
  await exited;
}

async function verify(service: Millrace): Promise<{ state: string; detail: string } | undefined> {
  const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey };
  const { stdout } = await runCommand({ folder: folder.path, environment }, ['verify', '--json']);
  const checks = JSON.parse(stdout) as { name: string; state: string; detail: string }[];
  return checks.find(({ name }) => name === 'sandbox level');
}

test('without the kernel level one user runs code, and no other is let in until the operator decides', async () => {
  let workspaceId = '';
  let userId = '';
  {
    await using started = await start('auto');
    const { service } = started;
    const made = await service.api('POST', '/v1/workspaces', { name: 'Alone' });
    assert.equal(made.status, 200);
    workspaceId = made.body.data.id;
    const refused = await service.api('POST', '/v1/users', { username: 'second', email: 's@example.com' });
    assert.equal(refused.status, 409);
    assert.equal(refused.body.code, 'sandbox_required');
    assert.match(
      refused.body.error,
      /bubblewrap is not installed.*install bubblewrap and restart the service, or set MILLRACE_SANDBOX=seat-belt/,
    );
    const ready = await service.api('GET', '/readyz');
    const { cgroups_reason, ...sandbox } = ready.body.sandbox;
    assert.deepEqual(sandbox, { level: 'seat-belt', reason: missing });
    const stranger = await (await fetch(`${service.url}/readyz`)).json();
    assert.deepEqual(stranger, { status: 'ready' });
    const { data } = (await service.api('GET', '/v1/instance')).body;
    assert.deepEqual([data.sandbox, data.sandbox_reason], ['seat-belt', missing]);
    assert.match(service.output, /bubblewrap is not installed/);
    // Tests do not run alone in a group of their own.
    assert.match(cgroups_reason, /./);
    assert.equal(data.cgroups_reason, cgroups_reason);
    assert.ok(service.output.includes(cgroups_reason), service.output);
    const level = await verify(service);
    assert.equal(level?.state, 'warning');
    assert.match(level?.detail ?? '', /seat-belt, no kernel level: bubblewrap is not installed/);
    assert.ok(level?.detail.endsWith(`; cgroups: not delegated (${cgroups_reason})`), level?.detail);
  }
  {
    await using started = await start('seat-belt');
    const user = await started.service.createUser('second');
    userId = user.id;
    const { data } = (await started.service.api('GET', '/v1/instance')).body;
    assert.deepEqual([data.sandbox, data.sandbox_reason], ['seat-belt', null]);
  }
  // Users who came in stay, and their code continues to run; no further ones are let in.
  await using started = await start('auto');
  assert.match(started.service.output, /sandbox\.kernel-level-missed/);
  const path = `/v1/workspaces/${workspaceId}/members`;
  const joining = await started.service.api('POST', path, { user_id: userId });
  assert.deepEqual([joining.status, joining.body.code], [409, 'sandbox_required']);
  const members = (await started.service.api('GET', path)).body.data;
  const own = await started.service.api('POST', path, { user_id: members[0].user_id, role: 'admin' });
  assert.equal(own.status, 200, 'another role of a member');
});

test('a service that has to have the kernel level does not start without, and says what to install', async () => {
  const child = Millrace.spawn(optionsFor('require'));
  const errors = text(must(child.stderr, 'its errors'));
  child.stdout?.resume();
  const [code] = await once(child, 'exit');
  assert.equal(code, 1);
  assert.match(
    await errors,
    /^MILLRACE_SANDBOX is "require".*bubblewrap is not installed.*apt-get install bubblewrap/m,
  );
});

test('with the kernel level others are let in, and callers that ask see the level', { skip }, async () => {
  await using started = await start('require', { launcher: [] });
  const { service } = started;
  await service.createUser('third');
  const ready = await service.api('GET', '/readyz');
  assert.deepEqual([ready.body.sandbox.level, ready.body.sandbox.reason], ['kernel', null]);
  const level = await verify(service);
  assert.equal(level?.state, 'ok');
  assert.match(level?.detail ?? '', /^kernel: walls around every process of user code; cgroups: /);
});
