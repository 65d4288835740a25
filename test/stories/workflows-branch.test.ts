import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';

/** A code step that returns the value of an expression over `steps`. */
const returns = (namespace: string, expression: string) => ({
  namespace,
  code: `export default defineComponent({ async run({ steps, $ }) { return ${expression}; } });`,
});

const fails = (namespace: string, message: string) => ({
  namespace,
  code: `export default defineComponent({ run() { throw new RangeError('${message}'); } });`,
});

const amount = '{{steps.trigger.event.body.amount}}';

forEachSharedService((fixture) => {
  /** Runs a workflow once with a body; its run, with the exports of what has ended at the top by namespace. */
  async function runOnce(steps: object[], body: object = {}, settings: object = {}, state = 'succeeded') {
    const { service } = fixture;
    const workflow = await service.createWorkflow({ triggers: [{ type: 'http' }], steps, settings });
    return { workflow, ...(await runAgain(workflow, body, state)) };
  }

  async function runAgain(
    workflow: { id: string; triggers: { endpoint_url: string }[] },
    body: object,
    state = 'succeeded',
  ) {
    const { service } = fixture;
    await fetch(workflow.triggers[0]?.endpoint_url ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const run = await service.runInState(workflow.id, state);
    const names = run.steps.map(({ namespace }: { namespace: string }) => namespace);
    return { run, names };
  }

  const resultOf = (
    run: { steps: { namespace: string; exports: Record<string, unknown> }[] },
    name: string,
  ) => run.steps.findLast((step) => step.namespace === name)?.exports.$return_value;

  test('if: the first branch whose rule is met is taken, and after it only the result of the block is seen', async () => {
    const steps = [
      {
        namespace: 'size',
        block: 'if',
        branches: [
          {
            slug: 'big',
            if: { value: amount, condition: 'GREATER_THAN', second_value: 100 },
            steps: [
              returns('inner', `steps.size.branch + ' ' + steps.trigger.event.body.amount`),
              returns('twice', `steps.inner.$return_value.repeat(2)`),
            ],
          },
          {
            slug: 'fair',
            if: '{{steps.trigger.event.body.amount > 10}}',
            steps: [returns('fair', `'fair'`)],
          },
          { slug: 'other', steps: [] },
        ],
      },
      returns('after', `[steps.size, typeof steps.inner, typeof steps.fair]`),
    ];
    const { workflow, run, names } = await runOnce(steps, { amount: 200 });
    assert.deepEqual(names, ['size', 'inner', 'twice', 'after']);
    assert.deepEqual(resultOf(run, 'after'), [
      { branch: 'big', $summary: 'Branch big', $return_value: 'big 200big 200' },
      'undefined',
      'undefined',
    ]);
    const fair = await runAgain(workflow, { amount: 11 });
    assert.deepEqual(fair.names, ['size', 'fair', 'after']);
    const other = await runAgain(workflow, { amount: 1 });
    assert.deepEqual(other.names, ['size', 'after']);
    assert.deepEqual((resultOf(other.run, 'after') as [object])[0], {
      ...{ branch: 'other', $summary: 'Branch other', $return_value: null },
    });
  });

  test('a rule relies on the rules of the branches before it: it is not evaluated when one of them is met', async () => {
    const { run } = await runOnce([
      {
        namespace: 'guarded',
        block: 'if',
        branches: [
          { slug: 'none', if: { value: '{{steps.trigger.event.body.order}}', condition: 'NOT_EXISTS' } },
          { slug: 'many', if: '{{steps.trigger.event.body.order.lines.length > 3}}' },
        ],
      },
    ]);
    assert.equal(run.steps[0].exports.branch, 'none');
    const { workflow } = await runOnce([returns('a', '1')]);
    await fixture.service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: [
        {
          namespace: 'bad',
          block: 'if',
          branches: [{ slug: 'x', if: '{{steps.trigger.event.body.order.lines}}' }],
        },
      ],
    });
    const failed = await runAgain(workflow, {}, 'failed');
    assert.match(
      failed.run.error.msg,
      /branches\[0\]\.if\.value: .*steps\.trigger\.event\.body\.order\.lines/,
    );
  });

  test('switch: the case that is the value, in text or number, else the branch without a case', async () => {
    const steps = [
      {
        namespace: 'kind',
        block: 'switch',
        value: '{{steps.trigger.event.body.kind}}',
        branches: [
          { slug: 'one', case: 1, steps: [returns('a', `'a'`)] },
          { slug: 'two', case: '{{"t" + "wo"}}', steps: [returns('b', `'b'`)] },
          { slug: 'rest', steps: [returns('c', `'c'`)] },
        ],
      },
      returns('after', 'steps.kind.$return_value'),
    ];
    const { workflow, run } = await runOnce(steps, { kind: '1' });
    assert.equal(resultOf(run, 'after'), 'a');
    assert.equal(resultOf((await runAgain(workflow, { kind: 'two' })).run, 'after'), 'b');
    assert.equal(resultOf((await runAgain(workflow, {})).run, 'after'), 'c');
  });

  test('parallel: all branches whose rule is met run at the same time, and the result is by slug', async () => {
    const meets = (namespace: string) => ({
      namespace,
      code: `export default defineComponent({ async run({ steps, $ }) {
        globalThis.arrived ??= Promise.withResolvers(); globalThis.count = (globalThis.count ?? 0) + 1;
        if (globalThis.count === 3) globalThis.arrived.resolve();
        await globalThis.arrived.promise;
        return [Object.keys(steps)];
      } });`,
    });
    const { run } = await runOnce([
      returns('before', '1'),
      {
        namespace: 'both',
        block: 'parallel',
        branches: [
          { slug: 'one', steps: [meets('a')] },
          { slug: 'two', steps: [meets('b'), returns('b2', 'Object.keys(steps)')] },
          { slug: 'yes', if: '{{1 + 1 === 2}}', steps: [meets('c')] },
          { slug: 'no', if: false, steps: [returns('never', '1')] },
        ],
      },
      returns('after', '[steps.both, Object.keys(steps)]'),
    ]);
    const [both, seen] = resultOf(run, 'after') as [Record<string, Record<string, object>>, string[]];
    assert.deepEqual(both.branches, ['one', 'two', 'yes']);
    const keys = ['trigger', 'before', 'both'];
    assert.deepEqual(both.$return_value, {
      one: { $return_value: [keys] },
      two: { $return_value: [...keys, 'b'] },
      yes: { $return_value: [keys] },
    });
    assert.deepEqual(seen, keys);
  });

  test('map: the steps run for each item, a bounded number at a time, and the results keep the order', async () => {
    const { run, names } = await runOnce(
      [
        {
          namespace: 'each',
          block: 'map',
          items: '{{steps.trigger.event.body.list}}',
          concurrency: 3,
          steps: [
            {
              namespace: 'work',
              // The first three wait for each other: on a busy machine one could end before the next begins.
              code: `export default defineComponent({ async run({ steps, $ }) {
                globalThis.now = (globalThis.now ?? 0) + 1; globalThis.most = Math.max(globalThis.most ?? 0, globalThis.now);
                globalThis.three ??= Promise.withResolvers(); if (globalThis.now === 3) globalThis.three.resolve();
                await globalThis.three.promise;
                await new Promise((resolve) => setTimeout(resolve, 30 - steps.each.index * 3));
                globalThis.now -= 1;
                return { of: steps.each.item, index: steps.each.index, most: globalThis.most };
              } });`,
            },
            returns('name', `steps.work.$return_value.of.name + steps.each.index`),
          ],
        },
        returns('after', '[steps.each, typeof steps.work]'),
      ],
      { list: 'abcdefgh'.split('').map((name) => ({ name })) },
    );
    assert.deepEqual(resultOf(run, 'after'), [
      { count: 8, $return_value: ['a0', 'b1', 'c2', 'd3', 'e4', 'f5', 'g6', 'h7'] },
      'undefined',
    ]);
    assert.equal(names.filter((name: string) => name === 'work').length, 8);
    const iterations = run.steps
      .filter((step: { namespace: string }) => step.namespace === 'name')
      .map((step: { iteration: string }) => step.iteration);
    assert.deepEqual(iterations.sort(), ['0', '1', '2', '3', '4', '5', '6', '7']);
    const most = run.steps
      .filter((step: { namespace: string }) => step.namespace === 'work')
      .map((step: { exports: { $return_value: { most: number } } }) => step.exports.$return_value.most);
    assert.equal(Math.max(...most), 3);
  });

  test('an answer shows the first 1,000 records of steps in maps, failures first, and those of one item when asked', async () => {
    const { service } = fixture;
    const { run } = await runOnce([
      {
        namespace: 'each',
        block: 'map',
        items: '{{Array.from({ length: 1010 }, (_, n) => n)}}',
        concurrency: 50,
        on_error: 'continue',
        steps: [
          {
            namespace: 'odd',
            code: `export default defineComponent({ run({ steps }) {
              if (steps.each.index === 1009) throw new Error('the last');
              return steps.each.item; } });`,
          },
        ],
      },
      returns('after', 'steps.each.count'),
    ]);
    assert.deepEqual([run.steps.length, run.steps_left_out, resultOf(run, 'after')], [1002, 10, 1010]);
    const [each, first, second] = run.steps;
    assert.deepEqual([each.namespace, first.iteration, second.iteration], ['each', '0', '1']);
    assert.ok(
      run.steps.some(
        (step: { state: string; iteration: string }) => step.state === 'caught' && step.iteration === '1009',
      ),
    );
    const one = await service.api('GET', `/v1/runs/${run.id}?iteration=1005`);
    assert.deepEqual(
      one.body.data.steps.map((step: { iteration: string; exports: object }) => [
        step.iteration,
        step.exports,
      ]),
      [['1005', { $return_value: 1005 }]],
    );
    const wrong = await service.api('GET', `/v1/runs/${run.id}?iteration=x`);
    assert.equal(wrong.status, 400);
    assert.match(wrong.body.error, /iteration/);
  });

  test('blocks within blocks: a map in a map in a branch, each item with its own place', async () => {
    const { run } = await runOnce(
      [
        {
          namespace: 'any',
          block: 'if',
          branches: [
            {
              slug: 'yes',
              if: '{{steps.trigger.event.body.rows.length > 0}}',
              steps: [
                {
                  namespace: 'rows',
                  block: 'map',
                  items: '{{steps.trigger.event.body.rows}}',
                  steps: [
                    {
                      namespace: 'cells',
                      block: 'map',
                      items: '{{steps.rows.item}}',
                      steps: [
                        returns(
                          'cell',
                          `steps.rows.index + ':' + steps.cells.index + '=' + steps.cells.item`,
                        ),
                      ],
                    },
                  ],
                },
              ],
            },
          ],
        },
        returns('after', 'steps.any.$return_value'),
      ],
      { rows: [[1, 2], [], [3]] },
    );
    assert.deepEqual(resultOf(run, 'after'), [['0:0=1', '0:1=2'], [], ['2:0=3']]);
    const cell = run.steps.findLast((step: { namespace: string }) => step.namespace === 'cell');
    assert.equal(cell.iteration, '2-0');
  });

  test('filter ends the run, or leaves the block; delay, end and call are steps like others', async () => {
    const { service } = fixture;
    const called = await service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [returns('double', 'steps.trigger.event.n * 2')],
      settings: { auto_deploy: true },
    });
    const { run } = await runOnce(
      [
        {
          namespace: 'odd',
          block: 'map',
          items: [1, 2, 3, 4],
          steps: [
            { namespace: 'isOdd', block: 'filter', if: '{{steps.odd.item % 2 === 1}}', otherwise: 'leave' },
            { namespace: 'short', block: 'delay', seconds: 0.01 },
            { namespace: 'called', block: 'call', workflow: called.id, event: { n: '{{steps.odd.item}}' } },
          ],
        },
        returns('after', 'steps.odd.$return_value'),
        {
          namespace: 'stops',
          block: 'filter',
          if: { all: [true, { not: '{{1 === 1}}' }] },
          reason: 'enough',
        },
        returns('never', '1'),
      ],
      {},
    );
    assert.deepEqual(resultOf(run, 'after'), [2, null, 6, null]);
    assert.equal(resultOf(run, 'never'), undefined);
    assert.equal(run.reason, 'enough');
    const ended = await runOnce([
      { namespace: 'end', block: 'end', reason: 'because {{1 + 1}}' },
      returns('never', '1'),
    ]);
    assert.deepEqual([ended.run.reason, ended.names], ['because 2', ['end']]);
  });

  test('on_error: the run fails, or the block ends with the error, or its error branch runs', async () => {
    const risky = (more: object) => [
      {
        namespace: 'risky',
        block: 'if',
        branches: [{ slug: 'x', steps: [fails('bad', 'too far')] }],
        ...more,
      },
      returns('after', 'steps.risky'),
    ];
    const { workflow, run } = await runOnce(risky({ on_error: 'continue' }));
    const error = { code: 'RangeError', msg: 'too far', namespace: 'bad' };
    assert.deepEqual(resultOf(run, 'after'), {
      ...{ branch: 'x', $summary: 'Branch x', $return_value: null, $error: error, $errors: [error] },
    });
    const bad = run.steps.find((step: { namespace: string }) => step.namespace === 'bad');
    assert.deepEqual([bad.state, bad.error.msg], ['caught', 'too far']);
    const deploy = (steps: object[]) =>
      fixture.service.api('POST', `/v1/workflows/${workflow.id}/deployments`, { steps });
    await deploy(
      risky({ on_error: 'branch', error_steps: [returns('handle', `'handled: ' + steps.risky.$error.msg`)] }),
    );
    const handled = await runAgain(workflow, {});
    assert.equal(
      (resultOf(handled.run, 'after') as { $return_value: string }).$return_value,
      'handled: too far',
    );
    await deploy(risky({}));
    const failed = await runAgain(workflow, {}, 'failed');
    assert.deepEqual([failed.run.error.code, failed.run.error.namespace], ['RangeError', 'bad']);
    await deploy([
      {
        namespace: 'each',
        block: 'map',
        items: [1, 2, 3],
        on_error: 'continue',
        steps: [
          {
            namespace: 'odd',
            code: `export default defineComponent({ run({ steps }) {
              if (steps.each.item === 2) throw new Error('two');
              return steps.each.item;
            } });`,
          },
        ],
      },
      returns('after', 'steps.each'),
    ]);
    const each = await runAgain(workflow, {});
    assert.deepEqual(resultOf(each.run, 'after'), {
      count: 3,
      $return_value: [1, null, 3],
      $error: { index: 1, code: 'Error', msg: 'two', namespace: 'odd' },
      $errors: [{ index: 1, code: 'Error', msg: 'two', namespace: 'odd' }],
    });
  });

  test('a step has retries and a time limit of its own', async () => {
    const { run } = await runOnce([
      {
        namespace: 'flaky',
        retries: { times: 2, seconds: 1 },
        code: `export default defineComponent({ run() { globalThis.tries = (globalThis.tries ?? 0) + 1;
          if (globalThis.tries < 2) throw new Error('not yet'); return globalThis.tries; } });`,
      },
      {
        namespace: 'each',
        block: 'map',
        items: [1, 2],
        on_error: 'continue',
        steps: [
          {
            namespace: 'slow',
            // The other item has to end in this time on a busy machine too.
            timeout_seconds: 10,
            code: 'export default defineComponent({ run({ steps }) { return steps.each.item === 1 ? 1 : new Promise(() => {}); } });',
          },
        ],
      },
      returns('after', '[steps.flaky.$return_value, steps.each.$return_value, steps.each.$error.code]'),
    ]);
    assert.deepEqual(resultOf(run, 'after'), [2, [1, null], 'Timeout']);
  });

  test('a block with retries runs again as a whole, and the answer shows each attempt', async () => {
    const { run } = await runOnce([
      {
        namespace: 'both',
        block: 'parallel',
        retries: { times: 2, seconds: 1 },
        branches: [
          { slug: 'a', steps: [returns('one', "'one'")] },
          {
            slug: 'b',
            steps: [
              {
                namespace: 'flaky',
                code: `export default defineComponent({ run() { globalThis.tries = (globalThis.tries ?? 0) + 1;
                  if (globalThis.tries < 2) throw new Error('not yet'); return globalThis.tries; } });`,
              },
            ],
          },
        ],
      },
      returns('after', 'steps.both.$return_value.b.$return_value'),
    ]);
    assert.equal(resultOf(run, 'after'), 2);
    const records = run.steps.map(
      (step: { namespace: string; attempt: string; try: number; state: string }) =>
        `${step.namespace} ${step.attempt} ${step.try} ${step.state}`,
    );
    assert.deepEqual(records, [
      ...['both  1 succeeded', 'both  2 failed', 'both  3 succeeded'],
      ...['one 1 1 succeeded', 'one 2 2 succeeded'],
      ...['flaky 1 1 caught', 'flaky 2 2 succeeded'],
      'after  1 succeeded',
    ]);
  });

  test('a block that is not over in time ends with the steps in it, its error is handled, and the answer shows its limit', async () => {
    const steps = [
      {
        namespace: 'both',
        block: 'parallel',
        timeout_seconds: 1,
        on_error: 'continue',
        branches: [
          { slug: 'hangs', steps: [returns('hang', 'new Promise(() => setInterval(() => {}, 1000))')] },
          { slug: 'waits', steps: [{ namespace: 'wait', block: 'delay', seconds: 3600 }] },
        ],
      },
      returns('after', 'steps.both.$error.msg'),
    ];
    const { run, workflow } = await runOnce(steps);
    assert.equal(resultOf(run, 'after'), 'block both did not end within 1 seconds');
    const states = run.steps.map(
      ({ namespace, state }: { namespace: string; state: string }) => `${namespace} ${state}`,
    );
    assert.ok(states.includes('both caught') && states.includes('after succeeded'), states.join());
    assert.ok(!states.includes('hang succeeded'), states.join());
    const shown = await fixture.service.api('GET', `/v1/workflows/${workflow.id}`);
    assert.equal(shown.body.data.steps[0].timeout_seconds, 1);
    const again = await fixture.service.api('POST', `/v1/runs/${run.id}/restart`, {});
    assert.equal(again.status, 200, JSON.stringify(again.body));
  });

  test('a run is restarted from a step in a block, and continues where it ended without one', async () => {
    const { service } = fixture;
    const { workflow, run } = await runOnce(
      [
        {
          namespace: 'size',
          block: 'if',
          branches: [
            {
              slug: 'big',
              if: '{{steps.trigger.event.body.n > 1}}',
              steps: [returns('one', 'Date.now()'), returns('two', 'steps.one.$return_value + 1')],
            },
            { slug: 'small', steps: [returns('three', '3')] },
          ],
        },
        {
          namespace: 'each',
          block: 'map',
          items: [1, 2, 3],
          steps: [
            {
              namespace: 'work',
              code: `export default defineComponent({ run({ steps }) {
                globalThis.seen ??= {}; const { item } = steps.each;
                globalThis.seen[item] = (globalThis.seen[item] ?? 0) + 1;
                if (item === 2 && globalThis.seen[2] === 1) throw new Error('once');
                return globalThis.seen[item];
              } });`,
            },
          ],
        },
      ],
      { n: 2 },
      {},
      'failed',
    );
    const restart = async (id: string, body: object = {}) => {
      const answer = await service.api('POST', `/v1/runs/${id}/restart`, body);
      if (answer.status >= 400) return answer;
      return service.runInState(workflow.id, 'succeeded');
    };
    const one = await restart(run.id);
    assert.equal(resultOf(one, 'one'), resultOf(run, 'one'));
    const works = one.steps.filter((step: { namespace: string }) => step.namespace === 'work');
    assert.equal(works.length, 3);
    const again = await restart(one.id, { from_step: 'two', steps: { one: { $return_value: 41 } } });
    assert.equal(resultOf(again, 'two'), 42);
    const refused = await restart(one.id, { from_step: 'three' });
    assert.equal(refused.status, 400);
    assert.match(refused.body.error, /has not taken the branch that the step is in; restart from size/);
    const block = await restart(one.id, { from_step: 'each', steps: { size: { branch: 'small' } } });
    assert.match(block.body.error, /steps\.size: this is a block/);
  });

  test('what cannot be a definition is refused, naming the place', async () => {
    const { service } = fixture;
    const refusal = async (steps: object[]) => {
      const answer = await service.api('POST', '/v1/workflows', { steps });
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
      return answer.body.error;
    };
    const branch = (more: object = {}) => ({ slug: 'a', if: true, steps: [], ...more });
    const block = (more: object) => ({ namespace: 'b', block: 'if', branches: [branch()], ...more });
    const deep = (depth: number): object =>
      depth === 0
        ? returns('leaf', '1')
        : { namespace: `d${depth}`, block: 'if', branches: [{ slug: 'a', steps: [deep(depth - 1)] }] };
    for (const [steps, expected] of [
      [[block({ block: 'loop' })], /block/],
      [[block({ retries: { times: 11, seconds: 1 } })], /^steps\[0\]\.retries\.times: must be <= 10/],
      [[block({ retries: 3 })], /^steps\[0\]\.retries/],
      [[block({ timeout_seconds: 31_536_001 })], /timeout_seconds/],
      [
        [{ ...returns('x', '1'), timeout_seconds: 751 }],
        /^steps\[0\]\.timeout_seconds: expected a whole number from 1 to 750/,
      ],
      [
        [{ namespace: 'x', component: 'http-custom-request@0.9.9', props: {} }],
        /^steps\[0\]\.component: there is no component "http-custom-request@0\.9\.9"; there is version "\d/,
      ],
      [[block({ branches: [] })], /^steps\[0\]\.branches: expected a list of 1 to 100 branches, found \[\]/],
      [[block({ branches: [branch({ slug: '' })] })], /^steps\[0\]\.branches\[0\]\.slug: expected at most/],
      [[block({ branches: [branch(), branch()] })], /^steps\[0\]\.branches\[1\]\.slug: another branch/],
      [[block({ branches: [{ slug: 'x' }, branch()] })], /^steps\[0\]\.branches\[0\]\.if: required/],
      [
        [block({ branches: [branch({ if: 'yes' })] })],
        /^steps\[0\]\.branches\[0\]\.if: a text must be one expression/,
      ],
      [
        [block({ branches: [branch({ if: '{{steps.trigger.event. > 1}}' })] })],
        /^steps\[0\]\.branches\[0\]\.if: the expression .* \(line 1, column 24\): Unexpected token '>'$/,
      ],
      [
        [block({ branches: [branch({ if: { any: [{ value: 1, condition: 'LIKE' }] } })] })],
        /^steps\[0\]\.branches\[0\]\.if\.any\[0\]\.condition: expected one of CONTAINS/,
      ],
      [
        [block({ branches: [branch({ steps: [returns('x', '1'), { namespace: 'b' }] })] })],
        /^steps\[0\]\.branches\[0\]\.steps\[1\]\.namespace: steps\[0\] is called "b" already/,
      ],
      [
        [block({ branches: [branch({ steps: [{ namespace: 'c', code: 5 }] })] })],
        /steps\[0\]\.code: expected text, found 5/,
      ],
      [[block({ items: [] })], /^steps\[0\]\.items: there is no such field/],
      [[{ namespace: 'm', block: 'map', steps: [] }], /^steps\[0\]\.items: required/],
      [[{ ...returns('x', '1'), branches: [] }], /^steps\[0\]\.branches: only blocks have this field/],
      [
        [
          block({ branches: [branch({ steps: [returns('in', '1')] })] }),
          { namespace: 'c', block: 'end', reason: '{{steps.in.x}}' },
        ],
        /^steps\[1\]\.reason: the expression names steps\.in, which cannot have run before/,
      ],
      [
        [
          block({
            branches: [
              branch({ steps: [returns('one', '1')] }),
              {
                slug: 'z',
                steps: [
                  { namespace: 'two', component: 'crypto-hash', props: { a: ['x {{ steps["one"].y }}'] } },
                ],
              },
            ],
          }),
        ],
        /^steps\[0\]\.branches\[1\]\.steps\[0\]\.props\.a\[0\]: the expression names steps\.one/,
      ],
      [[block({ on_error: 'branch' })], /^steps\[0\]\.error_steps: required/],
      [[block({ code: 'export default {}' })], /^steps\[0\]\.code: there is no such field/],
      [[deep(11)], /blocks may be 10 deep/],
      [
        [
          {
            namespace: 'm',
            block: 'map',
            items: [],
            steps: Array.from({ length: 500 }, (_, n) => returns(`s${n}`, '1')),
          },
        ],
        /at most 500 steps/,
      ],
    ] as const)
      assert.match(await refusal([...steps]), expected);
  });
});
