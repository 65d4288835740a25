import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readSettings, SettingsError } from './settings.ts';

function problemsOf(environment: Record<string, string>): string {
  try {
    readSettings(environment);
    return '';
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.message;
  }
}

describe('MILLRACE_API_KEY', () => {
  test('is refused when no request could ever carry it, without being shown', () => {
    const long = 'k'.repeat(19);
    for (const key of [
      long,
      `${long} x`,
      ` ${long}xx`,
      `${long}\tx`,
      `${long}üx`,
      `${long}\nx`,
      'k'.repeat(1025),
    ]) {
      const problems = problemsOf({ MILLRACE_API_KEY: key });
      assert.match(problems, /MILLRACE_API_KEY: expected 20 to 1,024 printable ASCII characters/);
      assert.ok(!problems.includes(long));
    }
    for (const key of [`${long}x`, 'k'.repeat(1024), '!"#$%&()*+,-./:;<=>?@~'])
      assert.equal(readSettings({ MILLRACE_API_KEY: key }).apiKey, key);
  });
});
