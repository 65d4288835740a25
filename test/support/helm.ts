import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The helm of this machine: that which `MILLRACE_TEST_HELM` names, or in a folder of the path. */
export function helmFile(): string {
  return findHelm() ?? 'helm';
}

/** For `skip`: false where there is helm, or where there has to be one; else why the tests are left out. */
export function helmSkip(): string | false {
  if (findHelm() !== undefined || process.env.MILLRACE_TEST_REQUIRE_HELM === '1') return false;
  return 'no helm was found: put it on the path, or name it by MILLRACE_TEST_HELM';
}

function findHelm(): string | undefined {
  const named = process.env.MILLRACE_TEST_HELM;
  if (named !== undefined && named !== '') return named;
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'helm'))
    .find((file) => existsSync(file));
}
