import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { after, before, test } from 'node:test';
import {
  componentWith,
  pidTitled,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
} from '../support/runner-fixture.ts';
import { levelOfTests } from '../support/sandbox-level.ts';
import { addResult } from './attack-results.ts';
import { tenantAttacks } from './attacks/tenants.ts';

const level = levelOfTests();
let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

/** One component for all: an event has the code that it runs. */
const source = componentWith(
  'return await new (async () => {}).constructor("require", "module", event.code).call(this, require, module);',
);

/** An owner of code: deployments of one owner share a process if they have the same trust domain. */
interface Tenant {
  ownerId: string;
  deploymentId: string;
  trustDomain: string;
}

const victim: Tenant = { ownerId: 'u_victim', deploymentId: 'dc_victim', trustDomain: 'u_victim' };
const attackers: Record<string, Tenant> = {
  'another owner': { ownerId: 'u_other', deploymentId: 'dc_other', trustDomain: 'u_other' },
  'another owner who names the same trust domain': {
    ...{ ownerId: 'u_liar', deploymentId: 'dc_liar', trustDomain: 'u_victim' },
  },
  'a deployment of the owner with accounts of others': {
    ...{ ownerId: 'u_victim', deploymentId: 'dc_member', trustDomain: 'u_victim u_member' },
  },
};
const ownOther: Tenant = { ...victim, deploymentId: 'dc_victim_2' };

async function run(tenant: Tenant, code: string): Promise<unknown> {
  const event = JSON.stringify({ code });
  return resultOf(await fixture.call(source, { ...tenant, call: { kind: 'run', event } }));
}

for (const { name, leave, look, control } of tenantAttacks) {
  test(`other tenants: ${name}`, async () => {
    await run(victim, leave);
    const proved = (await run(control === 'owner' ? ownOther : victim, look)) === 'done';
    assert.ok(proved, 'it is there to be found');
    for (const [who, attacker] of Object.entries(attackers)) {
      const said = await run(attacker, look);
      assert.equal(fixture.runner.stats().level, level);
      addResult({ class: 'other tenants', level, held: said !== 'done', proved });
      assert.notEqual(said, 'done', who);
    }
  });
}

test('other tenants: users of processes are used once', async (t) => {
  if (!fixture.runner.stats().ownUsers) return t.skip('processes have no users of their own');
  const uids: unknown[] = [];
  for (let i = 0; i < 4; i += 1) {
    const title = `attack-${i}`;
    const outcome = fixture.run(`process.title = '${title}'; return process.pid;`, {
      deploymentId: `dc_user_${i}`,
    });
    resultOf(await outcome);
    const { uid } = statSync(`/proc/${await pidTitled(fixture, title)}`);
    uids.push(uid);
    await fixture.runner.forget(`dc_user_${i}`);
  }
  const held = new Set(uids).size === 4 && !uids.includes(process.getuid?.());
  addResult({ class: 'other tenants', level, held, proved: true });
  assert.ok(held, `users ${uids}`);
});

const program =
  "const child = require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], { detached: true, stdio: 'ignore' }); child.on('error', () => {}); child.unref(); return child.pid;";

test('other tenants: no program outlives its process', async () => {
  const open = await startRunnerFixture({ level: 'off' });
  const isAlive = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  let pid = 0;
  try {
    pid = Number(resultOf(await open.run(program, { deploymentId: 'dc_detached' })));
    await open.runner.forget('dc_detached');
    const proved = isAlive(pid);
    const outcome = await fixture.run(program, { deploymentId: 'dc_detached' });
    const held = outcome.status === 'threw' && outcome.error?.code === 'ERR_ACCESS_DENIED';
    assert.equal(fixture.runner.stats().level, level);
    addResult({ class: 'processes', level, held, proved });
    assert.ok(proved && held, JSON.stringify(outcome));
  } finally {
    if (pid > 0) process.kill(pid, 'SIGKILL');
    await open.close();
  }
});
