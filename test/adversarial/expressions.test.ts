import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import {
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../support/runner-fixture.ts';
import { levelOfTests } from '../support/sandbox-level.ts';
import { addResult } from './attack-results.ts';
import { worked, wrongEnding } from './attack-surroundings.ts';
import { expressionAttacks } from './attacks/expressions.ts';

const level = levelOfTests();
const className = 'expressions';
let folder: string;
let canary: string;
let fixture: RunnerFixture;
let controls: Record<string, string>;

before(async () => {
  folder = await mkdtemp('/var/tmp/millrace-canary-');
  canary = join(folder, 'canary.txt');
  await chmod(folder, 0o755);
  await writeFile(canary, 'CANARY', { mode: 0o644 });
  fixture = await startRunnerFixture();
  const script = `const said = {}; for (const [name, text] of ${JSON.stringify(expressionAttacks.map(({ name, expression }) => [name, expression]))})
    try { said[name] = String(new Function('event', 'return ' + text)({ path: ${JSON.stringify(canary)} })); } catch (error) { said[name] = String(error.code ?? error.name); }
    console.log(JSON.stringify(said)); process.exit();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { env: {} });
  controls = JSON.parse(stdout) as Record<string, string>;
});
after(async () => {
  await fixture?.close();
  await rm(folder, { recursive: true, force: true });
});

let modules = 0;
/** What a step finds in its prop `v`, at last; the code of the error where the expression fails. */
async function propOf(value: unknown, event: unknown = {}, ownerId = 'u_expressions'): Promise<string> {
  modules += 1;
  const source = `module.exports = { props: { v: 'any' }, async run() { return this.v; } };`;
  const outcome = await fixture.runner.call(
    stepRequest(source, {
      ...{ ownerId, deploymentId: `d_of_${ownerId}`, module: `c_${modules}`, props: { v: value } },
      call: stepCall({ steps: JSON.stringify({ trigger: { event, context: {} } }) }),
    }),
  );
  assert.equal(fixture.runner.stats().level, level);
  if (outcome.status === 'finished') return String(exportsOf(outcome).$return_value);
  return String(outcome.error?.code ?? outcome.error?.message);
}

/** What an expression says; an error as its code. */
const guarded = (expression: string): string =>
  `{{ (() => { try { return String(${expression}); } catch (error) { return String(error.code ?? error.name); } })() }}`;

for (const attack of expressionAttacks)
  test(`expressions: ${attack.name}`, async () => {
    const proved = worked.test(controls[attack.name] ?? '');
    assert.ok(proved, `without a wall it ends as ${controls[attack.name]}`);
    const said = await propOf(guarded(attack.expression), { path: canary });
    const wrong = wrongEnding(said, level === 'kernel' ? attack.kernel : attack.seatBelt);
    addResult({ class: className, level, held: wrong === undefined, proved });
    assert.equal(wrong, undefined);
  });

for (const [name, event] of [
  ['a text of an event', { text: '{{1 + 1}}' }],
  ['a text of an event that closes the expression', { text: '}}{{1 + 1}}' }],
  ['a text of an event in braces of JSON', { text: '{{{{steps.trigger.event}}}}' }],
] as const)
  test(`expressions: ${name} is text`, async () => {
    const proved = (await propOf('{{1 + 1}}')) === '2';
    const said = [await propOf('{{event.text}}', event), await propOf('a {{event.text}} b', event)];
    const held = said[0] === event.text && said[1] === `a ${event.text} b`;
    addResult({ class: className, level, held, proved });
    assert.ok(held && proved, said.join());
  });

test('expressions: prototypes that are changed stay changed for the owner alone', async () => {
  await propOf("{{ (Object.prototype.polluted = 'yes', event.__proto__.alsoPolluted = 'yes') }}");
  const look = '{{ String({}.polluted) + {}.alsoPolluted }}';
  const proved = (await propOf(look)) === 'yesyes';
  const held =
    (await propOf(look, {}, 'u_neighbour')) === 'undefinedundefined' &&
    ({} as Record<string, unknown>).polluted === undefined;
  addResult({ class: className, level, held, proved });
  assert.ok(held && proved);
});

test('expressions: keys of an event change no prototype', async () => {
  const event = JSON.parse(
    '{"__proto__": {"fromEvent": "yes"}, "constructor": {"prototype": {"fromEvent": "yes"}}}',
  );
  await propOf('{{event}}', event);
  const held = (await propOf('{{ String({}.fromEvent) }}')) === 'undefined';
  const target: Record<string, unknown> = {};
  for (const key of ['__proto__']) Object.assign(target[key] as object, { provedHere: 'yes' });
  const proved = ({} as Record<string, unknown>).provedHere === 'yes';
  delete (Object.prototype as Record<string, unknown>).provedHere;
  addResult({ class: className, level, held, proved });
  assert.ok(held && proved);
});
