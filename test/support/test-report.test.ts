import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createTempFolder } from './temp-folder.ts';

const head = `import assert from 'node:assert/strict'; import { before, describe, test } from 'node:test';\n`;

/** A process of its own: within a test file, Node's test runner runs no others. */
const program = `
import { run } from 'node:test';
const [reportModule, root, ...files] = process.argv.slice(2);
const { TestReport } = await import(reportModule);
const lines = [];
const report = new TestReport({ root, print: (line) => lines.push(line) });
for await (const event of run({ files, cwd: root })) report.take(event);
report.addCpuSeconds(new Map([['a.test.mjs', 1.5]]));
const summary = report.summary({ wallSeconds: 61.25, cpuSeconds: 90, notices: ['a notice'] });
process.stdout.write(JSON.stringify({ live: lines.join('\\n'), summary, failed: report.failed }));
`;

/** Runs these files as `npm test` does, and answers what was printed meanwhile and at the end. */
async function reportOf(
  files: Record<string, string>,
): Promise<{ live: string; summary: string[]; failed: number }> {
  await using folder = await createTempFolder('report');
  const paths = Object.keys(files).map((name) => join(folder.path, name));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder.path, name), head + text);
  const runner = join(folder.path, 'run.mjs');
  await writeFile(runner, program);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [runner, import.meta.resolve('./test-report.ts'), folder.path, ...paths],
    { env: { PATH: process.env.PATH } },
  );
  return JSON.parse(stdout);
}

test('a run without failures is one line per file, the slowest files, what was skipped and why, and the counts', async () => {
  const { live, summary, failed } = await reportOf({
    'a.test.mjs': `describe('a suite', () => { test('one', () => {}); test('two', (t) => t.diagnostic('quiet')); });`,
    'b.test.mjs': `test('three', { skip: 'no server here' }, () => {}); test('four', { skip: 'no server here' }, () => {});`,
  });
  assert.equal(failed, 0);
  assert.match(live, /^✔ +\d+\.\d s {2}a\.test\.mjs \(2\)$/m);
  assert.doesNotMatch(live + summary.join('\n'), /quiet/);
  const text = summary.join('\n');
  assert.match(text, /Slowest files:\n(.*\n)*.* 1\.5 s CPU {2}a\.test\.mjs/);
  assert.match(text, /Skipped:\n {2}2 × no server here\na notice/);
  assert.deepEqual(summary.slice(-2), [
    '2 files in 61.3 s, 90.0 s of CPU time',
    '2 passed, 0 failed, 2 skipped',
  ]);
});

test('a failure is shown in full at once, and at the end with the command and the seed that repeat it', async () => {
  const { live, summary, failed } = await reportOf({
    'a.test.mjs': `describe('outer', () => { describe('inner', () => {
      test("it's $1 (or so)", (t) => {
        t.diagnostic('seed 7: MILLRACE_TEST_SEED=7 repeats it');
        console.log('on the way');
        assert.deepEqual({ found: 1 }, { found: 2 });
      });
      test('another', () => {});
    }); });`,
  });
  assert.equal(failed, 1, 'its suites failed only because of it');
  assert.match(live, /✖ a\.test\.mjs › outer › inner › it's \$1 \(or so\)\n {2}at a\.test\.mjs:3/);
  assert.match(live, /\+ {3}found: 1\n.*- {3}found: 2/);
  const text = summary.join('\n');
  assert.ok(
    text.includes(
      String.raw`repeat: MILLRACE_TEST_SEED=7 npm test -- a.test.mjs --test-name-pattern='it'\''s \$1 \(or so\)'`,
    ),
    text,
  );
  assert.match(text, /✖ outer › inner .*\n {4}AssertionError .*strictly deep-equal:/);
  assert.match(text, /a\.test\.mjs printed:\n(.*\n)* {4}\| on the way/);
  assert.equal(summary.at(-1), '1 passed, 1 failed, 0 skipped');
});

test('a file that cannot be loaded, and a hook that throws, are failures of their own', async () => {
  const { live, summary, failed } = await reportOf({
    'a.test.mjs': `throw new Error('not loaded');`,
    'b.test.mjs': `describe('a suite', () => { before(() => { throw new Error('no room'); }); test('never runs', () => {}); });`,
  });
  assert.equal(failed, 2);
  assert.match(live, /✖ b\.test\.mjs › a suite\n(.*\n)*.*no room/);
  const text = summary.join('\n');
  assert.match(
    text,
    /✖ the file itself \(a\.test\.mjs\)\n {4}test failed\n {4}repeat: npm test -- a\.test\.mjs\n/,
  );
  assert.match(text, /Error: not loaded/);
  assert.match(text, /1 tests of b\.test\.mjs did not run because of it/);
});
