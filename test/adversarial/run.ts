/** `npm run test:adversarial`: only the attacks on the sandbox, with their outcomes, class by class. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AttackResult, resultsVariable, resultTable } from './attack-results.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-attacks-'));
const file = join(folder, 'results');
try {
  const { status } = spawnSync(process.execPath, ['test/run-tests.ts', 'test/adversarial/*.test.ts'], {
    cwd: join(import.meta.dirname, '../..'),
    env: { ...process.env, [resultsVariable]: file },
    stdio: 'inherit',
  });
  const lines = readFileSync(file, { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean);
  const results = lines.map((line) => JSON.parse(line) as AttackResult);
  console.log(['', ...resultTable(results)].join('\n'));
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
