import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settingDefinitions } from '#config/settings.ts';
import { errorCatalogue } from '#http/error-response.ts';
import { projectFiles, readProjectFile } from './support/project-files.ts';

/**
 * A setting or an error code that no test names can be broken without a red test. Being named does not prove that a test would
 * fail; it is where to look for the one that does.
 */
const thisFile = 'test/named-by-tests.test.ts';

/** Settings that no test file names, and why. */
const settingsElsewhere: Record<string, string> = {};

/** Error codes that no test file names, and why. */
const codesElsewhere: Record<string, string> = {};

const testTexts = projectFiles()
  .filter((file) => file.endsWith('.test.ts') && file !== thisFile)
  .map(readProjectFile);

/** What no test names and what is excused without need. */
function unnamed(
  names: readonly string[],
  elsewhere: Record<string, string>,
  form: (name: string) => RegExp,
) {
  const isNamed = (name: string) => testTexts.some((text) => form(name).test(text));
  return {
    missing: names.filter((name) => !(name in elsewhere) && !isNamed(name)),
    excused: Object.keys(elsewhere).filter((name) => !names.includes(name) || isNamed(name)),
  };
}

describe('the tests', () => {
  test('name every setting', () => {
    const names = Object.values(settingDefinitions).map(({ env }) => env);
    assert.deepEqual(
      unnamed(names, settingsElsewhere, (name) => new RegExp(`\\b${name}\\b`)),
      { missing: [], excused: [] },
      'add a test that fails when the setting is ignored, such as to test/stories/settings-at-work.test.ts',
    );
  });

  test('name every error code', () => {
    assert.deepEqual(
      unnamed(Object.keys(errorCatalogue), codesElsewhere, (code) => new RegExp(`['"\`]${code}['"\`]`)),
      { missing: [], excused: [] },
      'add a test that provokes the error and looks at its status, code and message',
    );
  });
});
