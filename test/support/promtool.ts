import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The promtool of this machine, in a folder of the path. */
export function promtoolFile(): string {
  return findPromtool() ?? 'promtool';
}

/** For `skip`: false where there is promtool, or where there has to be one; else why the tests are left out. */
export function promtoolSkip(): string | false {
  if (findPromtool() !== undefined || process.env.MILLRACE_TEST_REQUIRE_PROMTOOL === '1') return false;
  return 'no promtool was found: install the package prometheus';
}

function findPromtool(): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'promtool'))
    .find((file) => existsSync(file));
}
