import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { componentWith, processesOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** Every way in which a process can end. */
const endings = [
  "throw new Error('x');",
  "setTimeout(() => { throw new Error('x'); }, 1); await new Promise(() => {});",
  "setTimeout(() => { throw new Error('x'); }, 1);",
  'process.exit(1);',
  'for (let n = 0; ; n += 1) if (n === 1000) this.http.respond({});',
  "require('fs').writeSync(3, 'garbage that is no frame'); await new Promise(() => {});",
  'for (;;) this.$emit(1);',
  "require('fs').closeSync(4); await new Promise(() => {});",
  "const fs = require('fs'); fs.mkdirSync('/tmp/a/b', { recursive: true }); fs.writeFileSync('/tmp/a/b/c', 'x'); fs.chmodSync('/tmp/a', 0);",
  "require('net').connect(9, '192.0.2.1').on('error', () => {}); this.http.respond({}); await new Promise(() => {});",
];

test('the end of a process, for any reason, leaves neither its folder nor its descriptors behind', async () => {
  const timer = new ManualTimer();
  const fixture = await startRunnerFixture({ timer });
  const run = join(
    fixture.folder,
    readdirSync(fixture.folder).find((entry) => entry.startsWith('run-')) ?? '',
  );
  const descriptors = () => readdirSync('/proc/self/fd').length;
  const folders = () => readdirSync(run).filter((name) => name.startsWith('scratch-')).length;
  const processes = async () => (await processesOf(fixture)).length;
  try {
    // The first process loads modules that stay loaded.
    await fixture.run('return 1;', { deploymentId: 'dc_0', isolated: true });
    await fixture.runner.forget('dc_0');
    const before = descriptors();
    // Where deadlines end the calls, every call waits for its deadline by then.
    let waiting = endings.filter((body) => body.includes('respond')).length;
    const onRespond = () => {
      waiting -= 1;
      if (waiting === 0) timer.advance(300);
    };
    await Promise.all(
      endings.map(async (body, i) => {
        const deploymentId = `dc_ending_${i}`;
        await fixture.call(
          componentWith(body),
          { deploymentId, deadlineMs: 300, isolated: true },
          { onRespond },
        );
        await fixture.runner.forget(deploymentId);
      }),
    );
    await fixture.describe('throw new Error("x");');
    await fixture.describe('module.exports = { run() {} };');
    await waitFor(async () => folders() + (await processes()) === 0 && descriptors() <= before, {
      what: 'no folder, no process, and no more descriptors than before',
    });
  } finally {
    await fixture.close();
  }
});
