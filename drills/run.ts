/**
 * `npm run drill`: rehearsals on real parts that are too large for the tests: `npm run drill -- image`, `npm run drill -- debian`. Without a name
 * it lists them. They install nothing by themselves; each says what it needs when that is missing.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const ending = '.drill.ts';
const drills = readdirSync(import.meta.dirname).filter((name) => name.endsWith(ending));
const names = drills.map((name) => name.slice(0, -ending.length));
const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !names.includes(name));
if (wanted.length === 0 || unknown !== undefined) {
  const problem = unknown === undefined ? '' : `There is no drill ${JSON.stringify(unknown)}. `;
  process.stderr.write(`${problem}Drills: ${names.map((name) => `npm run drill -- ${name}`).join(', ')}\n`);
  process.exit(2);
}
const files = wanted.map((name) => join(import.meta.dirname, name + ending));
const { status } = spawnSync(
  process.execPath,
  ['--test', '--test-concurrency=1', '--test-reporter=spec', ...files],
  {
    stdio: 'inherit',
  },
);
process.exit(status ?? 1);
