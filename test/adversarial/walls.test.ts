import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../support/runner-fixture.ts';
import { levelOfTests } from '../support/sandbox-level.ts';
import { addResult } from './attack-results.ts';
import { AttackSurroundings, worked, wrongEnding } from './attack-surroundings.ts';
import type { Attack } from './attack-table.ts';
import { programAttacks } from './attacks/code.ts';
import { fileAttacks } from './attacks/files.ts';
import { networkAttacks } from './attacks/network.ts';

const level = levelOfTests();
let surroundings: AttackSurroundings;
let fixture: RunnerFixture;
/** What each attack says without the wall. */
let controls: Record<string, string>;

const attacks = [...fileAttacks, ...programAttacks, ...networkAttacks];

before(async () => {
  surroundings = await AttackSurroundings.make();
  fixture = await startRunnerFixture({ policy: surroundings.policy });
  controls = {};
  // Each class in a process of its own: what one leaves in V8 is not the business of the next.
  for (const ofClass of Object.values(Object.groupBy(attacks, (attack) => attack.class)))
    Object.assign(controls, await surroundings.sayBare(ofClass?.filter(isBare) ?? []));
  const open = await startRunnerFixture({ policy: surroundings.openPolicy });
  for (const attack of attacks.filter(({ control }) => control === 'open policy'))
    controls[attack.name] = await surroundings.say(open, attack);
  await open.close();
});
after(async () => {
  await fixture?.close();
  await surroundings?.close();
});

for (const attack of attacks)
  test(`${attack.class}: ${attack.name}`, async (t) => {
    if (attack.code.includes('P.web6') && surroundings.values.P.web6 === 0) return t.skip('there is no IPv6');
    const proved = worked.test(controls[attack.name] ?? '');
    if (needsControl(attack)) assert.ok(proved, `without a wall it ends as ${controls[attack.name]}`);
    const said = await surroundings.say(fixture, attack);
    assert.equal(fixture.runner.stats().level, level);
    const wrong = wrongEnding(said, level === 'kernel' ? attack.kernel : attack.seatBelt);
    addResult({ class: attack.class, level, held: wrong === undefined, proved });
    assert.equal(wrong, undefined);
  });

test('the process that was attacked from is still one that works', async () => {
  assert.equal(resultOf(await fixture.evaluate('return 1;')), 1);
});

function isBare({ control }: Attack): boolean {
  return control === undefined || control === 'root';
}

function needsControl({ control }: Attack): boolean {
  return control !== 'none' && (control !== 'root' || process.getuid?.() === 0);
}
