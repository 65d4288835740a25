import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { componentWith, startRunnerFixture } from '../../test/support/runner-fixture.ts';

/** Every way in which a process ends. */
const endings = [
  "throw new Error('x');",
  "setTimeout(() => { throw new Error('x'); }, 1); await new Promise(() => {});",
  "setTimeout(() => { throw new Error('x'); }, 1);",
  'process.exit(1);',
  'for (;;);',
  "require('fs').writeSync(3, 'garbage that is no frame'); await new Promise(() => {});",
  'for (;;) this.$emit(1);',
  "require('fs').closeSync(4); await new Promise(() => {});",
  "const fs = require('fs'); fs.mkdirSync('/tmp/a/b', { recursive: true }); fs.writeFileSync('/tmp/a/b/c', 'x'); fs.chmodSync('/tmp/a', 0);",
  "require('net').connect(9, '192.0.2.1').on('error', () => {}); await new Promise(() => {});",
];

test('whatever ends a process, neither its folder nor its descriptors stay behind', async () => {
  const fixture = await startRunnerFixture({ limits: { prewarmed: 0 } });
  const run = join(
    fixture.folder,
    readdirSync(fixture.folder).find((entry) => entry.startsWith('run-')) ?? '',
  );
  const descriptors = () => readdirSync('/proc/self/fd').length;
  const folders = () => readdirSync(run).filter((name) => name.startsWith('scratch-')).length;
  try {
    // What is loaded with the first process and stays.
    await fixture.run('return 1;', { deploymentId: 'dc_0' });
    await fixture.runner.forget('dc_0');
    const before = descriptors();
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(
        endings.map(async (body, i) => {
          const deploymentId = `dc_${round}_${i}`;
          await fixture.call(componentWith(body), { deploymentId, deadlineMs: 300 });
          await fixture.runner.forget(deploymentId);
        }),
      );
      await fixture.describe('throw new Error("x");');
      await fixture.describe('module.exports = { run() {} };');
    }
    for (let tries = 0; tries < 500 && (folders() > 0 || descriptors() > before); tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(folders(), 0);
    assert.ok(descriptors() <= before, `${descriptors()} descriptors, ${before} before`);
  } finally {
    await fixture.close();
  }
});
