import { appendFileSync } from 'node:fs';

/** One line of JSON for each case, in the file that `npm run test:adversarial` makes its table from. */
export interface AttackResult {
  class: string;
  level: string;
  /** What was expected became of it. */
  held: boolean;
  /** The same code works without the wall. */
  proved: boolean;
}

export const resultsVariable = 'MILLRACE_TEST_ATTACK_RESULTS';

export function addResult(result: AttackResult): void {
  const file = process.env[resultsVariable];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(result)}\n`);
}

/** Lines of the table: class × level. */
export function resultTable(results: readonly AttackResult[]): string[] {
  const rows = new Map<string, { cases: number; held: number; proved: number }>();
  for (const { class: className, level, held, proved } of results)
    for (const key of [`${className.padEnd(42)} ${level}`, `${'all'.padEnd(42)} ${level}`]) {
      const row = rows.get(key) ?? { cases: 0, held: 0, proved: 0 };
      rows.set(key, {
        cases: row.cases + 1,
        held: row.held + Number(held),
        proved: row.proved + Number(proved),
      });
    }
  const isSum = (key: string): boolean => key.startsWith('all ');
  const keys = [...rows.keys()].sort((a, b) => Number(isSum(a)) - Number(isSum(b)) || a.localeCompare(b));
  return [
    `${'class'.padEnd(42)} ${'level'.padEnd(10)} cases  held  controls that proved`,
    ...keys.map((key) => {
      const { cases, held, proved } = rows.get(key) ?? { cases: 0, held: 0, proved: 0 };
      return `${key.padEnd(53)} ${String(cases).padStart(5)} ${String(held).padStart(5)} ${String(proved).padStart(5)}`;
    }),
  ];
}
