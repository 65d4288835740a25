import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { findExecutable } from './runner-folders.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

test('the process has limits of the system, which apply before Node starts', {
  skip: findExecutable('prlimit') === undefined && 'prlimit is not installed',
}, async () => {
  const pid = resultOf(await fixture.run('return process.pid;'));
  const limits = await readFile(`/proc/${pid}/limits`, 'utf8');
  const hard = (name: string) => new RegExp(`^${name} +\\S+ +(\\S+)`, 'm').exec(limits)?.[1];
  assert.deepEqual(['Max core file size', 'Max file size', 'Max msgqueue size'].map(hard), ['0', '0', '0']);
  assert.equal(hard('Max open files'), '1024');
  assert.match(hard('Max data size') ?? '', /^\d+$/);
  assert.equal(hard('Max processes') === '128', fixture.runner.stats().ownUsers);
});

test('the process has no permission for any file, including its own program', async () => {
  const rights = resultOf(
    await fixture.run(
      `const fs = require('fs'); const has = (right, path) => process.permission.has(right, path);
       const paths = ['/', '/tmp', '/etc/passwd', '/proc/self/mem', process.argv[1], process.execPath, '/dev/null'];
       return [has('fs'), has('fs.read'), has('fs.write'), has('child'), has('worker'), has('addon'), has('net'), ...paths.map((path) => has('fs.read', path) || has('fs.write', path)),
         (() => { try { return fs.readFileSync('/etc/passwd').length; } catch (error) { return error.code; } })()];`,
    ),
  );
  assert.deepEqual(rights, [...Array(14).fill(false), 'ERR_ACCESS_DENIED']);
});
