import { parseArgs } from 'node:util';
import { numberTooLarge, tooManyMembers } from '../src/http/json-faults.ts';

/** What is looked for in each JSON body of a request, in CPU time, beside JSON.parse of the same body. */
const { values: options } = parseArgs({ options: { rounds: { type: 'string', default: '20' } } });

const bodies = {
  'usual values, 4 MB': JSON.stringify(
    Array.from({ length: 20_000 }, (_, n) => ({
      n,
      at: 1.7e12 + n,
      name: 'a name '.repeat(20),
      list: [n, 'x'],
    })),
  ),
  'as many members as may be, and a large number': JSON.stringify({
    ...Object.fromEntries(Array.from({ length: 99_998 }, (_, n) => [`name${n}`, n])),
    large: 1e300,
  }),
  'numbers that are almost too large, 6 MB': `[${`${'1'.repeat(308)},`.repeat(20_000)}0]`,
};

/** The shortest of several, in µs of CPU time: the first ones pay for compiling. */
function cpuOf(work: () => unknown): number {
  const times = Array.from({ length: Number(options.rounds) }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...times);
}

const rows = Object.entries(bodies).map(([body, json]) => {
  const value: unknown = JSON.parse(json);
  const parsing = cpuOf(() => JSON.parse(json));
  const members = cpuOf(() => tooManyMembers(json));
  const numbers = cpuOf(() => numberTooLarge(json, value));
  return {
    body,
    'parsing µs': parsing,
    'members / parsing': (members / parsing).toFixed(2),
    'numbers / parsing': (numbers / parsing).toFixed(2),
  };
});
console.table(rows);
