import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { projectRoot } from './project-files.ts';
import { exportsOf, type RunnerFixture, startRunnerFixture, stepRequest } from './runner-fixture.ts';

/**
 * One run of an action: its key, its props, and what it returns, as a value or a function that checks it. A pattern is for the message
 * of an error, which has the name `ConfigurationError` unless `errorName` says another one.
 */
export type ActionRow = [key: string, props: object, expected: unknown, errorName?: string];

/** Runs rows in the sandbox, as steps of one workflow. Each action of the folders has to be in a row that returns something. */
export function testActions(apps: readonly string[], rows: readonly ActionRow[]): void {
  let fixture: RunnerFixture;
  const bundles = new Map<string, string>();

  before(async () => {
    const paths = apps.flatMap((app) =>
      globSync(`${app}/actions/*.ts`, { cwd: join(projectRoot, 'components') }),
    );
    const { outputFiles } = await build({
      entryPoints: paths.filter((path) => !path.endsWith('.test.ts')),
      absWorkingDir: join(projectRoot, 'components'),
      ...{ bundle: true, platform: 'node', format: 'cjs', outdir: '/', outbase: '.' },
      ...{ write: false, logLevel: 'silent' },
    });
    for (const { path, text } of outputFiles) {
      const [app = ''] = path.split('/').slice(-3);
      bundles.set(`${app}-${basename(path, '.js')}`, text);
    }
    fixture = await startRunnerFixture();
  });
  after(() => fixture?.close());

  test(`every action of ${apps.join(', ')} has a row that returns something`, () => {
    const run = new Set(rows.filter(([, , expected]) => !(expected instanceof RegExp)).map(([key]) => key));
    assert.deepEqual(
      [...bundles.keys()].filter((key) => !run.has(key)),
      [],
    );
  });

  for (const [key, props, expected, errorName = 'ConfigurationError'] of rows) {
    test(`${key} ${JSON.stringify(props).slice(0, 100)}`, async () => {
      const source = bundles.get(key);
      assert.ok(source !== undefined, `there is no action ${key}`);
      const outcome = await fixture.runner.call(
        stepRequest(source, { deploymentId: 'd_actions', module: key, props: { ...props } }),
      );
      if (expected instanceof RegExp) {
        assert.equal(outcome.status, 'threw', JSON.stringify(outcome.step?.exports));
        assert.equal(outcome.error?.name, errorName, JSON.stringify(outcome.error));
        assert.match(outcome.error?.message ?? '', expected);
        return;
      }
      const exports = exportsOf(outcome);
      assert.equal(typeof exports.$summary, 'string', 'it says what it did');
      if (typeof expected === 'function') await expected(exports.$return_value);
      else assert.deepEqual(exports.$return_value, expected);
    });
  }
}
