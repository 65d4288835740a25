import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readProjectFile } from './support/project-files.ts';

/** The oldest Node on which `npm ci` has nothing to complain about; the npm of that Node installs the Node we run on. */
const oldestSilentNode = '20.19.0';

interface LockedPackage {
  engines?: { node?: string } | string[];
  deprecated?: string;
  hasInstallScript?: boolean;
}

const { packages } = JSON.parse(readProjectFile('package-lock.json')) as {
  packages: Record<string, LockedPackage>;
};
const installed = Object.entries(packages).filter(([path]) => path.startsWith('node_modules/'));

const requireOfNpm = createRequire(fileURLToPath(import.meta.resolve('@npmcli/arborist')));
/** The one npm judges engines with. */
const { satisfies } = requireOfNpm('semver') as { satisfies(version: string, range: string): boolean };

test('npm ci warns of no package that needs a newer Node than the oldest one we name', () => {
  const unfit = installed.flatMap(([path, { engines }]) => {
    const range = Array.isArray(engines) ? undefined : engines?.node;
    return range === undefined || satisfies(oldestSilentNode, range) ? [] : [`${path} needs Node ${range}`];
  });
  assert.deepEqual(unfit, []);
});

test('npm ci warns of no deprecated package', () => {
  const deprecated = installed.filter(([, entry]) => entry.deprecated !== undefined);
  assert.deepEqual(deprecated, []);
});

test('npm ci asks about no install script: each is allowed by name, and no other package is', () => {
  const { allowScripts } = JSON.parse(readProjectFile('package.json')) as {
    allowScripts: Record<string, boolean>;
  };
  const withScript = installed.filter(([, entry]) => entry.hasInstallScript === true);
  assert.deepEqual(
    Object.keys(allowScripts).sort(),
    withScript.map(([path]) => path.replace(/^.*node_modules\//, '')).sort(),
  );
});
