import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import {
  actionWith,
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import type { HostCall, HostCallAnswer } from './runner.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

/** Triggers another workflow, which any step can do. */
const trigger = (payload: string): string => `$.flow.trigger('p_2', ${payload})`;

let processes = 0;
/** Options of a call in a process of its own. */
const apart = () => {
  processes += 1;
  return { deploymentId: `d_apart_${processes}` };
};

async function step(
  body: string,
  onHostCall?: (hostCall: HostCall) => Promise<HostCallAnswer>,
  overrides = {},
) {
  return fixture.step(body, overrides, onHostCall === undefined ? {} : { onHostCall });
}

test('host calls of user code reach the service of their call, and the answers come back', async () => {
  const asked: HostCall[] = [];
  const outcome = await step(
    `return [await ${trigger('{ a: 1 }')}, await $.flow.trigger('p_2', undefined, { result_type: 'all_exports' })];`,
    async (hostCall) => {
      asked.push(hostCall);
      return asked.length === 1
        ? { header: {}, body: Buffer.from('{"result":2}') }
        : { header: { run_id: 'r_2' } };
    },
  );
  assert.deepEqual(exportsOf(outcome).$return_value, [{ result: 2 }, { run_id: 'r_2' }]);
  assert.deepEqual(
    asked.map(({ kind, header, body }) => [kind, header, body.toString()]),
    [
      ['trigger_workflow', { workflow_id: 'p_2' }, '{"a":1}'],
      ['trigger_workflow', { workflow_id: 'p_2', options: { result_type: 'all_exports' } }, 'null'],
    ],
  );
});

test('a refusal that the code does not catch points at the line that made the host call', async () => {
  const outcome = await step(`\n\n  await ${trigger('1')};`, async () => {
    throw new CallerError('workflow_not_found', 'there is no such workflow');
  });
  assert.equal(outcome.status, 'threw');
  assert.match(
    outcome.error?.stack ?? '',
    /^Error: there is no such workflow\n {4}at Object\.run \(.*:3:\d+\)/,
  );
});

test('a refusal is an error with message and code; internal errors of the service are not disclosed', async () => {
  const attempt = `try { await ${trigger('1')}; } catch (error) { return [error instanceof Error, error.message, error.code]; }`;
  const refused = await step(attempt, async () => {
    throw new CallerError('workflow_not_found', 'there is no such workflow');
  });
  assert.deepEqual(exportsOf(refused).$return_value, [
    true,
    'there is no such workflow',
    'workflow_not_found',
  ]);
  const secret = await step(attempt, () => {
    throw new Error('password=hunter2');
  });
  assert.deepEqual(exportsOf(secret).$return_value, [true, 'the service failed to answer', 'internal_error']);
  const nobody = await step(attempt);
  assert.deepEqual(exportsOf(nobody).$return_value, [
    true,
    'this call cannot ask the service for anything',
    'not_available',
  ]);
  const large = await step(attempt, async () => ({ header: {}, body: Buffer.alloc(1024 * 1024 + 1) }));
  assert.deepEqual((exportsOf(large).$return_value as unknown[])[2], 'answer_too_large');
  const odd = await step(attempt, async () => ({ header: { big: 1n as unknown as number } }));
  assert.deepEqual((exportsOf(odd).$return_value as unknown[])[2], 'internal_error');
});

test('host calls of one call run up to a maximum at a time, the rest in order', async () => {
  let open = 0;
  let most = 0;
  const order: string[] = [];
  const full = Promise.withResolvers<void>();
  const outcome = await step(
    `const all = await Promise.all(Array.from({ length: 200 }, (_, i) => ${trigger('i')})); return all.length;`,
    async (hostCall) => {
      open += 1;
      most = Math.max(most, open);
      order.push(hostCall.body.toString());
      // The first ones wait for each other: on a busy machine they may come in several pieces.
      if (open === 16) full.resolve();
      await full.promise;
      await new Promise((go) => setImmediate(go));
      open -= 1;
      return { header: {} };
    },
  );
  assert.equal(exportsOf(outcome).$return_value, 200);
  assert.equal(most, 16);
  assert.deepEqual(
    order,
    Array.from({ length: 200 }, (_, i) => String(i)),
  );
});

test('a call that makes very many host calls does not delay the answers to others in its process', async () => {
  const call = (module: string, body: string, onHostCall: (hostCall: HostCall) => Promise<HostCallAnswer>) =>
    fixture.runner.call(stepRequest(actionWith(body), { deploymentId: 'd_flood', module }), { onHostCall });
  let answered = 0;
  const otherAnswered = Promise.withResolvers<void>();
  const flood = call(
    'c_flood',
    `await Promise.all(Array.from({ length: 2000 }, () => ${trigger('0')})); return 'all';`,
    async () => {
      answered += 1;
      // The last host call waits for the other call, which has to get its turn before that.
      if (answered === 2000) await otherAnswered.promise;
      await new Promise((go) => setImmediate(go));
      return { header: {} };
    },
  );
  const other = await call('c_other', `await ${trigger('1')}; return 'one'`, async () => ({ header: {} }));
  assert.equal(exportsOf(other).$return_value, 'one');
  otherAnswered.resolve();
  assert.equal(exportsOf(await flood).$return_value, 'all');
  const reckless = await step(
    `let failed = 0; for (let i = 0; i < 10100; i++) ${trigger('0')}.catch(() => { failed += 1; }); await null; await null; return failed;`,
    () => new Promise(() => {}),
  );
  assert.ok(Number(exportsOf(reckless).$return_value) >= 50);
});

test('host calls are limited in size', async () => {
  const outcome = await step(
    `const errors = []; for (const payload of ['x'.repeat(1024 * 1024), 'x'.repeat(1024 * 1024 - 2)])
       try { await ${trigger('payload')}; } catch (error) { errors.push(error.message); }
     try { await $.flow.trigger('p'.repeat(70000)); } catch (error) { errors.push(error.message); } return errors;`,
    async (hostCall) => ({ header: {}, body: hostCall.body }),
  );
  assert.deepEqual(exportsOf(outcome).$return_value, [
    'more than 1 MB are sent to the service at a time',
    'the arguments of a request to the service are larger than 64 KB',
  ]);
});

test('an answer that comes after the end of its call, and host calls after the end, do no harm', async () => {
  const deploymentId = 'd_late';
  const held = Promise.withResolvers<HostCallAnswer>();
  const body = `globalThis.late ??= []; for (let i = 0; i < 40; i++) ${trigger('0')}.then(() => globalThis.late.push('answer'), (e) => globalThis.late.push(e.message)); return 1;`;
  const first = await step(body, () => held.promise, { deploymentId });
  assert.equal(first.status, 'finished');
  held.resolve({ header: {} });
  const counts = await step(
    `while (globalThis.late.length < 40) await new Promise((go) => setTimeout(go, 5)); return globalThis.late;`,
    undefined,
    { deploymentId, module: 'c_2' },
  );
  const late = exportsOf(counts).$return_value as string[];
  assert.deepEqual(
    [late.filter((what) => what === 'answer').length, late.includes('the call has ended')],
    [16, true],
  );
});

test('forged host calls end only the process that writes them', async () => {
  const frame = (id: string, header: string, payload = "''") =>
    `(() => { const h = Buffer.from(${header}); const p = Buffer.from(${payload}); const f = Buffer.alloc(13 + h.length + p.length);
      f.writeUInt32BE(f.length - 4, 0); f[4] = 24; f.writeUInt32BE(${id}, 5); f.writeUInt32BE(h.length, 9); h.copy(f, 13); p.copy(f, 13 + h.length);
      let at = 0; while (at < f.length) { try { at += require('fs').writeSync(3, f, at); } catch (error) { if (error.code !== 'EAGAIN') throw error; } } })();`;
  // The load is call 1, the step itself call 2.
  const hostCall = (fields: string, payload = "'{}'") =>
    frame('2', `'{"n":1,"kind":"x","header":2,"body":0${fields}}'`, payload);
  const forged: [string, string][] = [
    ['no name', hostCall(',"n":"a"')],
    ['a kind that is no text', hostCall(',"kind":{}')],
    ['lengths that lie', hostCall(',"header":3')],
    ['bytes left over', hostCall('', "'{}{}'")],
    ['a header that is no JSON', hostCall('', "'{]'")],
    ['a header that is no object', hostCall('', "'[]'")],
    ['the same name twice', hostCall('') + hostCall('')],
    ['a header that is too long', hostCall(',"header":70000', "'[' + ' '.repeat(69998) + ']'")],
    ['a call that was never made', frame('99', `'{"n":1,"kind":"x","header":2,"body":0}'`, "'{}'")],
    [
      'more at a time than allowed',
      `for (let n = 1; n < 30; n++) ${frame('2', `'{"n":' + n + ',"kind":"x","header":2,"body":0}'`, "'{}'")}`,
    ],
  ];
  const harmless = await step(`${hostCall('')} return 'alive';`, async () => ({ header: {} }), apart());
  assert.equal(exportsOf(harmless).$return_value, 'alive');
  for (const [what, code] of forged) {
    const never = () => new Promise<HostCallAnswer>(() => {});
    const outcome = await step(`${code} await new Promise(() => {});`, never, apart());
    assert.ok(['exited', 'limit_exceeded'].includes(outcome.status), `${what}: ${JSON.stringify(outcome)}`);
  }
  const flood = await step(
    `const go = () => { ${hostCall('', "'{}'").replace('"n":1', '"n":\' + (++globalThis.n) + \'')} setImmediate(go); }; globalThis.n = 0; go(); await new Promise(() => {});`,
    async () => ({ header: {}, body: Buffer.alloc(1024 * 1024) }),
    apart(),
  );
  assert.ok(['timed_out', 'exited', 'limit_exceeded'].includes(flood.status), flood.status);
  assert.equal(exportsOf(await step('return 1')).$return_value, 1);
});
