import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type ActionFixture, startActionFixture } from './action-fixture.ts';
import { projectRoot } from './project-files.ts';

/**
 * One run of an action: its key, its props, and what it returns, as a value or a function that checks it. A pattern is for the message
 * of an error, which has the name `ConfigurationError` unless `errorName` says another one.
 */
export type ActionRow = [key: string, props: object, expected: unknown, errorName?: string];

/** Runs rows in the sandbox, as steps of one workflow. Each action of these apps has to be in a row that returns something. */
export function testActions(apps: readonly string[], rows: readonly ActionRow[]): void {
  let fixture: ActionFixture;
  before(async () => {
    fixture = await startActionFixture();
  });
  after(() => fixture?.close());

  test(`every action of ${apps.join(', ')} has a row that returns something`, () => {
    const run = new Set(rows.filter(([, , expected]) => !(expected instanceof RegExp)).map(([key]) => key));
    const keys = apps.flatMap((app) =>
      globSync('*.ts', { cwd: join(projectRoot, 'components', app, 'actions') })
        .filter((file) => !file.endsWith('.test.ts'))
        .map((file) => `${app}-${file.replace(/\.ts$/, '')}`),
    );
    assert.ok(keys.length > 0);
    assert.deepEqual(
      keys.filter((key) => !run.has(key)),
      [],
    );
  });

  for (const [key, props, expected, errorName = 'ConfigurationError'] of rows) {
    test(`${key} ${JSON.stringify(props).slice(0, 100)}`, async () => {
      const { exports, ret, error } = await fixture.run(key, { ...props });
      if (expected instanceof RegExp) {
        assert.equal(error?.name, errorName, JSON.stringify(exports));
        assert.match(error?.message ?? '', expected);
        return;
      }
      assert.equal(error, undefined);
      assert.equal(typeof exports.$summary, 'string', 'it says what it did');
      if (typeof expected === 'function') await expected(ret);
      else assert.deepEqual(ret, expected);
    });
  }
}
