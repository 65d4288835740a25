import type { Ending } from '../attack-table.ts';

/** An expression in a prop of a step, without its braces; `event.path` is the path of the canary. */
export interface ExpressionAttack {
  name: string;
  expression: string;
  seatBelt: Ending;
  kernel: Ending;
}

const builtin = (name: string): string =>
  `event.constructor.constructor('return process')().getBuiltinModule('${name}')`;

const rows: readonly (readonly [name: string, seatBelt: Ending, kernel: Ending, expression: string])[] = [
  [
    'the constructor of a value',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    `${builtin('fs')}.readFileSync(event.path, 'utf8')`,
  ],
  [
    'the constructor of a function',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    '(() => {}).constructor(\'C\', \'return process.getBuiltinModule("fs").readFileSync(C, "utf8")\')(event.path)',
  ],
  [
    'process',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    "process.getBuiltinModule('fs').readFileSync(event.path, 'utf8')",
  ],
  [
    'the global object',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    "globalThis.process.getBuiltinModule('fs').readFileSync(event.path, 'utf8')",
  ],
  [
    'an indirect eval',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    "(0, eval)('process').getBuiltinModule('fs').readFileSync(event.path, 'utf8')",
  ],
  [
    'a program',
    'ERR_ACCESS_DENIED',
    'ERR_ACCESS_DENIED',
    `${builtin('child_process')}.execFileSync('/bin/cat', [event.path], { encoding: 'utf8' })`,
  ],
  [
    'a thread',
    'ERR_ACCESS_DENIED',
    'ERR_ACCESS_DENIED',
    `new (${builtin('worker_threads')}.Worker)('1', { eval: true }) && 'done'`,
  ],
  ['a signal', 'ERR_ACCESS_DENIED', 'ERR_ACCESS_DENIED', "process.kill(process.ppid, 0) && 'done'"],
  [
    'flags of V8',
    'ERR_ACCESS_DENIED',
    'ERR_ACCESS_DENIED',
    `${builtin('v8')}.setFlagsFromString('--no-opt') ?? 'done'`,
  ],
  [
    'another realm',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    `${builtin('vm')}.runInNewContext('p.getBuiltinModule("fs").readFileSync(C, "utf8")', { p: process, C: event.path })`,
  ],
  [
    'a getter of an object',
    'ERR_ACCESS_DENIED',
    'ENOENT',
    "({ get a() { return process.getBuiltinModule('fs').readFileSync(event.path, 'utf8'); } }).a",
  ],
  ['an internal binding', 'ERR_ACCESS_DENIED', 'ERR_ACCESS_DENIED', "process.binding('fs') && 'done'"],
];

export const expressionAttacks: readonly ExpressionAttack[] = rows.map(
  ([name, seatBelt, kernel, expression]) => ({ name, seatBelt, kernel, expression }),
);
