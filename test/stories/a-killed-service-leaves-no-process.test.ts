import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { availableParallelism, loadavg } from 'node:os';
import { after, before, test } from 'node:test';
import { findExecutable } from '#runner/runner-folders.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { processesBelow, runs } from '../support/process-tree.ts';
import { kernelSkip } from '../support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** How long a process may outlive the service on a machine with nothing else to do. */
const outlivesMaxMs = 1_000;
/** On a busy machine the end of any process takes longer; this many times as long as that of one that ends by itself. */
const busyFactor = 10;

const levels = [
  {
    level: 'seat-belt',
    name: 'the seat belt',
    skip: findExecutable('setpriv') === undefined && 'setpriv is not installed',
  },
  { level: 'require', name: 'the kernel level', skip: await kernelSkip() },
];

let folder: TempFolder;
/** A registry of npm that never answers. */
let silent: HttpReceiver;
before(async () => {
  folder = await createTempFolder('killed');
  // User code runs as other users, who have to reach its program there.
  await chmod(folder.path, 0o711);
  silent = await HttpReceiver.start({ answer: () => undefined });
});
after(async () => {
  await silent?.close();
  await folder?.remove();
});

/** Answers its caller, and is then under way for ever. */
const source = (name: string, body: string): string => `export default {
  name: '${name}', props: { http: { type: '$.interface.http', customResponse: true } },
  async run() { this.http.respond({ body: 'under way' }); ${body} },
};`;

for (const { level, name, skip } of levels)
  test(`when the service is killed with calls and builds under way, no process of it is left after a second, at ${name}`, {
    skip,
  }, async (t) => {
    const dataFolder = `${folder.path}/${level}`;
    const service = await Millrace.start({
      dataFolder,
      environment: {
        ...{ MILLRACE_SANDBOX: level, MILLRACE_NPM_REGISTRY: silent.url },
        // A service that was killed leaves its temporary files to the next one on its data.
        TMPDIR: folder.path,
      },
    });
    const asked = silent.requests.length;
    try {
      for (const [title, body] of [
        ['Spins', 'for (;;);'],
        ['Waits', 'await new Promise(() => {});'],
        ['Connects', `await fetch('${silent.url}');`],
      ] as const) {
        const { configured_props } = await service.createSource({
          component_code: source(title, body),
          isolated: true,
        });
        assert.equal(await (await fetch(configured_props.http.endpoint_url)).text(), 'under way');
      }
      // Its installer waits for the registry, whose name it asks for first.
      const build = service
        .api('POST', '/v1/sources', { component_code: "import x from 'anything'; export default x;" })
        .catch(() => undefined);
      await silent.waitForRequest(asked + 2);
      const pid = service.process.pid ?? 0;
      const left = processesBelow(pid, folder.path);
      const commands = left.map(({ command }) => command).join('\n');
      for (const expected of ['launcher', 'installer', 'bundler', 'esbuild', 'sandbox'])
        assert.match(commands, new RegExp(expected), expected);

      // It ends when its input does, as quickly as a process can on this machine now.
      const reference = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] });
      await once(reference, 'spawn');
      const killedAt = performance.now();
      const referenceMs = once(reference, 'exit').then(() => performance.now() - killedAt);
      reference.stdin.end();
      await service.kill();
      // What was started between the look and the kill counts as well.
      left.push(...processesBelow(pid, folder.path));
      await waitFor(() => !left.some(runs), {
        what: `the end of ${left.length} processes, of which run:\n${left.map(({ pid: one, command }) => `${one} ${command.slice(0, 200)}`).join('\n')}`,
      });
      const tookMs = performance.now() - killedAt;
      // The end is several steps of several processes, each of which waits for the processor when there is more to do than cores.
      const load = Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
      const limitMs = Math.max(outlivesMaxMs * load, busyFactor * (await referenceMs));
      t.diagnostic(
        `${left.length} processes were gone ${Math.round(tookMs)} ms after the kill, where ${Math.round(limitMs)} ms were allowed`,
      );
      assert.deepEqual(processesBelow(pid, folder.path), []);
      assert.ok(tookMs <= limitMs, `${Math.round(tookMs)} ms`);
      await build;
    } finally {
      await service.kill();
    }
  });
