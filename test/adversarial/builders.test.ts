import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { BuilderWalls } from '#components/builder-walls.ts';
import { findKernelPrograms } from '#runner/bubblewrap-command.ts';
import type { KernelPrograms } from '#runner/sandbox-grant.ts';
import { conditionalCalls, refusedCalls } from '#runner/seccomp-filter.ts';
import { kernelSkip, withOpenFilter } from '../support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { addResult } from './attack-results.ts';
import { type CallAttack, callAttacks } from './attacks/builders.ts';

/** What builder processes are taken for: those that start no program, and those that start esbuild. */
const kinds = ['installer', 'bundler'] as const;
type Kind = (typeof kinds)[number];

const skip = await kernelSkip();
const numbers = Object.fromEntries(
  Object.entries({ ...refusedCalls, ...conditionalCalls }).map(([name, [x64, arm64]]) => [
    name,
    process.arch === 'x64' ? x64 : arm64,
  ]),
);

let folder: TempFolder;
/** What each attack says: behind the walls by kind, behind walls with a filter that allows everything, and without walls. */
let said: Record<Kind | 'open filter' | 'no walls', Record<string, string>>;

before(async () => {
  if (skip !== false) return;
  folder = await createTempFolder('builders');
  const tools = findKernelPrograms(folder.path);
  assert.ok(typeof tools !== 'string');
  said = {
    installer: await say('installer', tools),
    bundler: await say('bundler', tools),
    'open filter': await say('bundler', withOpenFilter(tools, folder.path)),
    'no walls': await say('bundler', undefined),
  };
});
after(() => folder?.remove());

for (const kind of kinds)
  for (const attack of callAttacks)
    test(`system calls in a builder: ${attack.name} in ${kind === 'installer' ? 'an installer' : 'a bundler'}`, {
      skip,
    }, (t) => {
      const control = said[attack.wall === 'filter' ? 'open filter' : 'no walls'][attack.name];
      const isAllowedHere = said['no walls'][attack.name] === 'reached';
      const proved = control === 'reached';
      if (isAllowedHere) assert.ok(proved, `without the wall it ends as ${control}`);
      else t.diagnostic(`this machine refuses it without walls: ${said['no walls'][attack.name]}`);
      const ending = said[kind][attack.name];
      addResult({ class: 'system calls in builders', level: 'build', held: ending === attack[kind], proved });
      assert.equal(ending, attack[kind]);
    });

/** How each attack ends in one process that was started as builder processes are, without Node's permissions. */
async function say(kind: Kind, tools: KernelPrograms | undefined): Promise<Record<string, string>> {
  const walls = new BuilderWalls();
  walls.raise(tools);
  const grant = { read: [], write: [folder.path], startsPrograms: kind === 'bundler', cwd: folder.path };
  const child = walls.start(grant, ['--experimental-ffi', '--no-warnings', '-e', script(callAttacks)]);
  child.stdin?.end();
  const [answer, errors] = await Promise.all([
    text(child.stdio[3] as NodeJS.ReadableStream),
    text(child.stdio[2] as NodeJS.ReadableStream),
  ]);
  assert.notEqual(answer, '', errors);
  return JSON.parse(answer) as Record<string, string>;
}

function script(attacks: readonly CallAttack[]): string {
  const lines = attacks.map(({ name, code }) => `say(${JSON.stringify(name)}, () => ${code});`);
  return `
    const ffi = require('node:ffi');
    const kept = [];
    const keep = (bytes) => { kept.push(bytes); return ffi.getRawPointer(bytes); };
    const text = (value) => keep(Buffer.from(value + '\\0'));
    const buffer = (...values) => keep(Buffer.from(BigInt64Array.from(values.map(BigInt)).buffer));
    const { functions } = ffi.dlopen(null, {
      syscall: { arguments: Array(7).fill('i64'), return: 'i64' },
      __errno_location: { arguments: [], return: 'pointer' },
    });
    const numbers = ${JSON.stringify(numbers)};
    const names = Object.fromEntries(Object.entries(require('os').constants.errno).map(([name, number]) => [number, name]));
    const call = (name, ...args) => {
      const result = functions.syscall(...[numbers[name], ...args, 0, 0, 0, 0, 0, 0].slice(0, 7).map(BigInt));
      if (result === -1n) {
        const error = ffi.getInt32(functions.__errno_location());
        throw Object.assign(new Error(), { code: names[error] ?? error });
      }
    };
    const said = {};
    const say = (name, attack) => {
      try { attack(); said[name] = 'reached'; }
      catch ({ code, message }) { said[name] = ['EPERM', 'ENOSYS'].includes(code) || code === undefined ? code ?? message : 'reached'; }
    };
    ${lines.join('\n')}
    require('fs').writeSync(3, JSON.stringify(said));
    process.exit(0);`;
}
