import type { Ending } from '../attack-table.ts';

/** Code that takes more than its share: body of a component's `run`, which may use `fs`, `T` (a folder of its own), and `n`. */
export interface Exhaustion {
  class: string;
  name: string;
  code: string;
  seatBelt: Ending;
  kernel: Ending;
  /** What it has more of, in Node without any wall, than a process may have; `n`: the same code with this `n` finishes. */
  exceeds: 'memory' | 'time' | 'files' | 'output' | { n: number };
  n?: number;
}

type Row = readonly [name: string, ending: Ending, code: string, kernel?: Ending];

const rowsOf = (
  className: string,
  exceeds: 'memory' | 'time' | 'files' | 'output',
  rows: readonly Row[],
): Exhaustion[] =>
  rows.map(([name, seatBelt, code, kernel = seatBelt]) => ({
    ...{ class: className, name, code, seatBelt, kernel, exceeds },
  }));

/** Two figures: of the attack, and of the same code that stays below the bound. */
type CappedRow = readonly [name: string, ending: Ending, n: number, accepted: number, code: string];

const cappedOf = (className: string, rows: readonly CappedRow[]): Exhaustion[] =>
  rows.map(([name, ending, n, accepted, code]) => ({
    ...{ class: className, name, code, n, seatBelt: ending, kernel: ending, exceeds: { n: accepted } },
  }));

const outOfMemory = 'out_of_memory';

export const exhaustions: readonly Exhaustion[] = [
  ...rowsOf('exhaustion: memory', 'memory', [
    ['arrays', outOfMemory, 'const all = []; for (;;) all.push(new Array(1000).fill(all.length));'],
    [
      'texts',
      outOfMemory,
      "let text = 'x'; const all = []; for (;;) { all.push(text + all.length); text += text.length < 1e6 ? text : ''; all.push([...text]); }",
    ],
    [
      'a map',
      outOfMemory,
      'const all = new Map(); for (let i = 0; i < 16e6; i += 1) all.set(i, { i }); await new Promise(() => {});',
    ],
    [
      'buffers, one by one',
      outOfMemory,
      'const all = []; for (;;) { all.push(Buffer.alloc(10_000_000, 1)); await new Promise((r) => setTimeout(r, 5)); }',
    ],
    ['buffers, at once', outOfMemory, 'const all = []; for (;;) all.push(Buffer.alloc(1_000_000, 1));'],
    [
      'a shared buffer',
      outOfMemory,
      'const all = new Uint8Array(new SharedArrayBuffer(600e6)); for (let i = 0; i < all.length; i += 4096) all[i] = 1; await new Promise(() => {});',
    ],
    [
      'WebAssembly',
      outOfMemory,
      'const memory = new WebAssembly.Memory({ initial: 1 }); for (;;) { memory.grow(160); new Uint8Array(memory.buffer).fill(1); await new Promise((r) => setTimeout(r, 5)); }',
    ],
    [
      'what gzip unpacks to',
      outOfMemory,
      "const { gzipSync, gunzip } = require('zlib'); const bomb = gzipSync(Buffer.alloc(100e6)); const all = []; for (;;) all.push(await new Promise((resolve) => gunzip(bomb, (_, data) => resolve(data))));",
    ],
    [
      'JSON',
      outOfMemory,
      "const all = []; const text = '[' + '{},'.repeat(1e6) + '{}]'; for (;;) all.push(JSON.parse(text));",
    ],
    ['promises', outOfMemory, 'const all = []; for (;;) all.push(new Promise(() => {}).then(() => all));'],
    ['timers', outOfMemory, 'for (;;) setTimeout(() => {}, 1e8);'],
    [
      'random bytes in the pool',
      outOfMemory,
      "const all = []; for (;;) all.push(await new Promise((resolve) => require('crypto').randomBytes(20e6, (_, bytes) => resolve(bytes))));",
    ],
  ]),
  ...rowsOf('exhaustion: CPU', 'time', [
    ['a loop', 'timed_out', 'started(); for (;;);'],
    ['microtasks', 'timed_out', 'started(); for (;;) await 1;'],
    [
      'nextTick',
      'timed_out',
      'started(); const again = () => process.nextTick(again); again(); await new Promise(() => {});',
    ],
    ['a regular expression', 'timed_out', "started(); return /^(a+)+$/.test('a'.repeat(64) + 'b');"],
    [
      'a wait without end',
      'timed_out',
      'started(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);',
    ],
    [
      'a stop by signal',
      'timed_out',
      "started(); process.kill(process.pid, 'SIGSTOP'); await new Promise(() => {});",
    ],
    [
      'what ignores signals',
      'timed_out',
      "process.on('SIGTERM', () => {}); process.on('exit', () => { for (;;); }); started(); for (;;);",
    ],
    ['a big number', 'timed_out', 'started(); return String((3n ** 9_000_000n) ** 3n).length;'],
    ['sorting', 'timed_out', 'started(); for (;;) Array.from({ length: 1e5 }, Math.random).sort();'],
    [
      'passwords in the pool',
      'timed_out',
      "started(); for (;;) await Promise.all([1, 2, 3, 4].map(() => new Promise((r) => require('crypto').pbkdf2('a', 'b', 1e6, 64, 'sha512', r))));",
    ],
    [
      'a timer that spins',
      'timed_out',
      'setInterval(() => { started(); for (;;); }); await new Promise(() => {});',
    ],
    [
      'a promise that never settles',
      'timed_out',
      'setInterval(() => {}, 1000); started(); await new Promise(() => {});',
    ],
  ]),
  ...rowsOf('exhaustion: disk', 'files', [
    [
      'many blocks',
      'ENOSPC',
      "for (let i = 0; i < 4000; i += 1) fs.writeFileSync(T + '/' + i, Buffer.alloc(1e5, 1));",
    ],
    ['one file', 'ENOSPC', "for (;;) fs.appendFileSync(T + '/a', Buffer.alloc(1e6, 1));"],
    [
      'a file with a hole',
      'EFBIG',
      "fs.writeFileSync(T + '/a', ''); fs.truncateSync(T + '/a', 400e6); fs.writeSync(fs.openSync(T + '/a', 'r+'), Buffer.alloc(1e5, 1), 0, 1e5, 390e6); for (;;) fs.appendFileSync(T + '/a', Buffer.alloc(1e6, 1));",
    ],
    [
      'inodes',
      ['ENOSPC', 'limit_exceeded'],
      "for (let i = 0; i < 21_000; i += 1) fs.closeSync(fs.openSync(T + '/' + i, 'w')); await new Promise(() => {});",
      'limit_exceeded',
    ],
  ]),
  ...rowsOf('exhaustion: logs', 'output', [
    [
      'lines on standard output',
      'limit_exceeded',
      "const line = 'x'.repeat(65536); for (;;) { try { fs.writeSync(1, line + '\\n'); } catch {} }",
    ],
    [
      'one line on standard error',
      'limit_exceeded',
      "const line = 'x'.repeat(65536); for (;;) { try { fs.writeSync(2, line); } catch {} }",
    ],
  ]),
  ...cappedOf('exhaustion: events, state and answers', [
    [
      'events',
      'limit_exceeded',
      1e6,
      10,
      'for (let i = 0; i < n; i += 1) { try { this.$emit(i); } catch {} }',
    ],
    ['one event', 'limit_exceeded', 100e6, 10, "this.$emit('x'.repeat(n));"],
    [
      'events together',
      'limit_exceeded',
      1000,
      2,
      "for (let i = 0; i < n; i += 1) this.$emit('x'.repeat(1e6));",
    ],
    [
      'keys of the db',
      'limit_exceeded',
      1e6,
      10,
      "for (let i = 0; i < n; i += 1) this.db.set('k' + i, 'x'.repeat(1000));",
    ],
    ['one value of the db', 'limit_exceeded', 100e6, 10, "this.db.set('a', 'x'.repeat(n));"],
    ['one key of the db', 'limit_exceeded', 1e6, 10, "this.db.set('k'.repeat(n), 1);"],
    ['the returned value', 'limit_exceeded', 100e6, 10, "return 'x'.repeat(n);"],
    [
      'the answer to a request',
      'reply_too_large',
      20e6,
      10,
      "this.http.respond({ status: 200, body: 'x'.repeat(n) });",
    ],
    [
      'the stack',
      ['RangeError'],
      1e7,
      10,
      'const deeper = (left) => left === 0 ? 0 : deeper(left - 1) + 1; deeper(n);',
    ],
    ['one array', ['RangeError'], 2 ** 33, 10, 'return new Array(n).length;'],
    [
      'descriptors',
      ['EMFILE', 'ENOSPC', 'limit_exceeded', outOfMemory],
      1e6,
      10,
      "for (let i = 0; i < n; i += 1) fs.openSync(T + '/a', 'w');",
    ],
    [
      'connections',
      ['EMFILE'],
      2000,
      10,
      "const made = await Promise.allSettled(Array.from({ length: n }, () => new Promise((resolve, reject) => { const s = require('net').connect(P.redirect, '127.0.0.2'); s.on('error', reject).on('connect', () => resolve(s)); }))); for (const { value } of made) value?.destroy(); const failed = made.find(({ reason }) => reason); if (failed) throw failed.reason;",
    ],
  ]),
];
