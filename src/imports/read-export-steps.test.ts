import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { flattenSteps } from '#workflows/definitions/block-input.ts';
import { checkSteps } from '#workflows/definitions/workflow-input.ts';
import type { MapContext } from './map-step.ts';
import { mapWorkflow } from './map-workflow.ts';
import { checkFiles } from './read-archive.ts';
import { readProject } from './read-project.ts';

type Loose = Record<string, unknown>;

const context: MapContext = {
  account: () => undefined,
  dataStore: (oldId) => oldId,
  source: () => undefined,
  subscribes: () => false,
  action: (key, version) => ({ state: 'exact', component: `${key}@${version}`, version }),
  isSet: () => true,
  isSecret: () => false,
};
const code = 'export default { run() {} }';
const step = (namespace: string) => ({ namespace, code: `/* ${namespace} */` });
const project = (value: unknown) =>
  readProject(checkFiles({ 'manifest.json': '{}', 'a.json': JSON.stringify(value) }));
const read = (value: unknown) => {
  const { workflows, keys } = project(value);
  const [workflow] = workflows;
  assert.ok(workflow !== undefined);
  const mapped = mapWorkflow(workflow, context);
  // What is made can be deployed, as far as that can be seen without building it.
  checkSteps(mapped.steps, { fromTemplate: false });
  assert.equal(flattenSteps(mapped.steps).length, workflow.steps.length);
  return {
    workflow,
    mapped,
    unknown: keys.filter(({ outcome }) => outcome === 'unknown').map(({ key }) => key),
    names: workflow.steps.map(({ namespace, disabled }) => (disabled ? `(${namespace})` : namespace)),
    blocks: mapped.steps.filter(({ block }) => block !== undefined),
    levels: workflow.findings.map(({ level }) => level),
  };
};
/** A block with the names of the steps in it. */
const outline = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, one) =>
      key === 'steps' && Array.isArray(one)
        ? one.map((inner) => (inner.block === undefined ? inner.namespace : inner))
        : one,
    ),
  );

describe('steps of an export', () => {
  const shapes: Record<string, unknown> = {
    'in a list of deployments': { id: 'p_One111', deployments: [{ steps: [step('one'), step('two')] }] },
    'by their names': { steps: { one: { code: '/* one */' }, two: { code: '/* two */' } } },
    'by other names than their keys': { steps: { c_1: step('one'), c_2: step('two') } },
    'within records that are within lists': {
      data: [{ x: { flows: [{ cells: [step('one'), [step('two')]] }] } }],
    },
    'with code in lines, or in a record': {
      steps: [
        { namespace: 'one', code: ['/* one */'] },
        { namespace: 'two', code: { text: '/* two */' } },
      ],
    },
    'with null before the code': {
      steps: [{ ...step('one'), code: null, code_raw: '/* one */' }, step('two')],
    },
  };
  for (const [name, value] of Object.entries(shapes))
    test(`${name}, are read`, () => {
      const { workflow, names } = read(value);
      assert.deepEqual(names, ['one', 'two']);
      assert.deepEqual(
        workflow.steps.map(({ content }) => content.kind === 'code' && content.text),
        ['/* one */', '/* two */'],
      );
    });

  test('of several versions are those of the one that was deployed last; others are left out, and the report says so', () => {
    const { names, workflow } = read({
      versions: [
        { version: 1, steps: [step('old')] },
        { version: 3, steps: [step('new')] },
        { version: 2, steps: [step('old')] },
      ],
    });
    assert.deepEqual(names, ['new']);
    assert.match(
      workflow.findings[0]?.message ?? '',
      /3 versions of it: the one that was deployed last was read/,
    );
    assert.deepEqual(read({ draft: { steps: [step('draft')] }, deployed: { steps: [step('live')] } }).names, [
      'live',
    ]);
  });

  test('of several workflows in one file are workflows of their own', () => {
    const { workflows } = project({
      list: [
        { id: 'p_One111', steps: [step('one')] },
        { id: 'p_Two222', steps: [step('two')] },
      ],
    });
    assert.deepEqual(
      workflows.map(({ id, steps }) => [id, steps.length]),
      [
        ['p_One111', 1],
        ['p_Two222', 1],
      ],
    );
  });

  test('within the record with the triggers, whose id is that of a deployment, are read', () => {
    const deployed = (id: string) => ({
      ...{ id, triggers: [{ id: `hi_${id.slice(2)}` }] },
      deployments: [{ id: 'd_1', steps: [step('one')] }],
    });
    const { workflows } = project([
      deployed('p_One111'),
      deployed('p_Two222'),
      { id: 'p_Three3', triggers: [] },
    ]);
    assert.deepEqual(
      workflows.map(({ id, triggers, steps }) => [
        id,
        triggers.length,
        steps.map(({ disabled }) => disabled),
      ]),
      [
        ['p_One111', 1, [false]],
        ['p_Two222', 1, [false]],
        ['p_Three3', 0, []],
      ],
    );
  });

  test('in places where none are expected are kept, disabled, and named', () => {
    const { names, workflow } = read({
      steps: [step('one')],
      parts: [{ steps: [step('lost')] }],
      settings: { hook: step('hook') },
    });
    assert.deepEqual(names, ['one', '(lost)', '(hook)']);
    assert.match(
      workflow.findings.map(({ message }) => message).join('\n'),
      /steps in parts.*: lost are kept/,
    );
    const [first, second] = [{ steps: [step('one')] }, { steps: [step('two')] }];
    assert.deepEqual(read({ segments: [first, second] }).names, ['one', '(two)']);
  });

  test('that are no records are unknown', () => {
    assert.deepEqual(read({ steps: ['x', step('one'), null] }).unknown, ['steps[]']);
    assert.deepEqual(read({ steps: { version: 2, one: { code }, more: { a: { b: 1 } } } }).unknown, [
      'steps.more',
      'steps.more.a',
      'steps.more.a.b',
      'steps.version',
    ]);
  });

  test('keep names that may be content, such as those of records, out of the report', () => {
    const { unknown, workflow } = read({
      steps: [{ ...step('one'), 'ada@example.com, a customer': 1, [`ghp_${'a'.repeat(36)}`]: { b: 1 } }],
    });
    assert.deepEqual(unknown, ['steps[].an unusual name', 'steps[].an unusual name.b']);
    assert.doesNotMatch(JSON.stringify(workflow.findings), /customer|ghp_/);
  });
});

describe('a block of an export', () => {
  const rule = { value: '{{steps.trigger.event.body.n}}', condition: 'GREATER_THAN', second_value: 5 };

  const thenElse: [string, unknown][] = [
    ['namespace', 'yesno'],
    ['type', 'if'],
    ['condition', '{{true}}'],
    ['then', [step('h')]],
    ['else', [step('i')]],
  ];

  test('whose meaning is clear is the same block here, to be checked', () => {
    const { blocks, levels, workflow } = read({
      steps: [
        {
          ...{ namespace: 'choose', type: 'if_else' },
          branches: [
            {
              slug: 'big',
              condition: rule,
              steps: [step('a'), { namespace: 'wait', type: 'delay', duration: 5, unit: 'minutes' }],
            },
            {
              slug: 'small',
              condition: { operator: 'or', conditions: ['{{1}}', { left: 'x', op: '==', right: 'y' }] },
              steps: [],
            },
            { slug: 'else', steps: [step('b')] },
          ],
        },
        {
          ...{
            namespace: 'route',
            component_key: 'control_flow-switch@0.0.1',
            expression: 'steps.trigger.event.kind',
          },
          cases: [
            { name: 'Paid now', case: 'paid', step: step('c') },
            { name: 'default', default: true, step: step('d') },
          ],
        },
        { namespace: 'each', kind: 'loop', items: '{{[1, 2]}}', concurrency: 3, steps: [step('e')] },
        {
          namespace: 'all',
          block: 'parallel',
          branches: { one: step('f'), two: { rule: '{{true}}', steps: [step('g')] } },
        },
        {
          namespace: 'only',
          type: 'filter',
          props: { rule: { ...rule, condition: 'greaterThan' }, reason: 'too small' },
        },
        { namespace: 'stop', type: 'end_workflow', message: 'done' },
        Object.fromEntries(thenElse),
      ],
    });
    assert.deepEqual(outline(blocks), [
      {
        ...{ namespace: 'choose', block: 'if' },
        branches: [
          { slug: 'big', if: rule, steps: ['a', { namespace: 'wait', block: 'delay', seconds: 300 }] },
          {
            slug: 'small',
            if: { any: ['{{1}}', { value: 'x', condition: 'TEXT_EQUALS', second_value: 'y' }] },
            steps: [],
          },
          { slug: 'else', steps: ['b'] },
        ],
      },
      {
        ...{ namespace: 'route', block: 'switch', value: '{{steps.trigger.event.kind}}' },
        branches: [
          { slug: 'Paid_now', case: 'paid', steps: ['c'] },
          { slug: 'default', steps: ['d'] },
        ],
      },
      { namespace: 'each', block: 'map', items: '{{[1, 2]}}', concurrency: 3, steps: ['e'] },
      {
        ...{ namespace: 'all', block: 'parallel' },
        branches: [
          { slug: 'one', steps: ['f'] },
          { slug: 'two', if: '{{true}}', steps: ['g'] },
        ],
      },
      { namespace: 'only', block: 'filter', if: rule, reason: 'too small' },
      { namespace: 'stop', block: 'end', reason: 'done' },
      {
        ...{ namespace: 'yesno', block: 'if' },
        branches: [
          { slug: 'then', if: '{{true}}', steps: ['h'] },
          { slug: 'else', steps: ['i'] },
        ],
      },
    ]);
    assert.deepEqual([...new Set(levels)], ['check']);
    assert.ok(workflow.steps.every(({ disabled }) => !disabled));
  });

  const unclear: Record<string, [Loose, RegExp]> = {
    'has no type': [
      { branches: { yes: { rule, steps: [step('a')] }, no: step('b') } },
      /branch yes, rule .*GREATER_THAN.*: a\n- branch no: b/,
    ],
    'has a rule that is not known': [
      {
        type: 'if',
        branches: [
          { slug: 'x', condition: { value: 1, operator: 'MATCHES', regex: 'y' }, steps: [step('a')] },
          { slug: 'else', step: step('b') },
        ],
      },
      /branch x, rule .*MATCHES.*: a\n- branch else: b/,
    ],
    'has a branch with a key that is not known': [
      {
        type: 'parallel',
        branches: [
          { slug: 'x', mode: 'never', steps: [step('a')] },
          { slug: 'y', steps: [step('b')] },
        ],
      },
      /type: "parallel"\n- branch x: a\n- branch y: b/,
    ],
    'has two branches that may be the last': [
      {
        type: 'switch',
        value: '{{1}}',
        cases: [
          { name: 'x', steps: [step('a')] },
          { name: 'y', steps: [step('b')] },
        ],
      },
      /value: "\{\{1\}\}"\n- branch x: a\n- branch y: b/,
    ],
    'has steps under a name that is not known': [
      { type: 'map', items: '{{[1]}}', steps: [step('a')], afterwards: [step('b')] },
      /branch steps: a\n- branch afterwards: b/,
    ],
  };
  for (const [why, [block, note]] of Object.entries(unclear))
    test(`that ${why} is built by hand: its steps are kept, disabled, and its note has its branches and rules`, () => {
      const { names, blocks, workflow } = read({ steps: [{ namespace: 'odd', note: 'Mine', ...block }] });
      assert.deepEqual([names, blocks], [['odd', '(a)', '(b)'], []]);
      assert.match(workflow.steps[0]?.note ?? '', note);
      assert.match(workflow.steps[0]?.note ?? '', /^Mine\n\n/);
      assert.deepEqual(
        workflow.findings.filter(({ level }) => level === 'by_hand').map(({ step: at }) => at),
        ['odd'],
      );
    });

  test('within another one that is made here is in its branch, and steps of one that is built by hand stand beside it', () => {
    const inner = { namespace: 'inner', branches: [{ slug: 'x', mode: 1, steps: [step('a')] }] };
    const { mapped } = read({
      steps: [
        {
          namespace: 'outer',
          type: 'if',
          branches: [{ slug: 'yes', if: '{{true}}', steps: [inner, step('b')] }],
        },
        {
          namespace: 'odd',
          branches: [
            {
              slug: 'x',
              mode: 1,
              steps: [{ namespace: 'clear', type: 'map', items: '{{[]}}', steps: [step('c')] }],
            },
          ],
        },
      ],
    });
    assert.deepEqual(outline(mapped.steps.map(({ note: _note, code: _code, ...rest }) => rest)), [
      {
        namespace: 'outer',
        block: 'if',
        branches: [{ slug: 'yes', if: '{{true}}', steps: ['inner', 'a', 'b'] }],
      },
      { namespace: 'odd' },
      { namespace: 'clear', disabled: true, block: 'map', items: '{{[]}}', steps: ['c'] },
    ]);
    assert.deepEqual(
      flattenSteps(mapped.steps).map(({ at, input }) => [input.namespace, at, input.disabled === true]),
      [
        ['outer', 'steps[0]', false],
        ['inner', 'steps[0].branches[0].steps[0]', false],
        ['a', 'steps[0].branches[0].steps[1]', true],
        ['b', 'steps[0].branches[0].steps[2]', false],
        ['odd', 'steps[1]', false],
        ['clear', 'steps[2]', true],
        ['c', 'steps[2].steps[0]', true],
      ],
    );
  });

  test('has no secret in its note, and one in a rule is moved', () => {
    const secret = `ghp_${'a'.repeat(36)}`;
    const compared = { value: '{{steps.a}}', condition: 'TEXT_EQUALS', second_value: secret };
    const made = read({ steps: [{ namespace: 'only', type: 'filter', rule: compared }] }).mapped;
    assert.deepEqual(
      made.secrets.map(({ value, place }) => [value, place]),
      [[secret, 'only.if.second_value']],
    );
    const kept = read({ steps: [{ namespace: 'odd', mode: 1, type: 'filter', rule: compared }] }).mapped;
    for (const { steps, findings } of [made, kept])
      assert.ok(!JSON.stringify([steps, findings]).includes(secret));
  });
});

describe('whatever the form of an export', () => {
  let count = 0;
  const next = (prefix: string) => {
    count += 1;
    return `${prefix}${count}`;
  };
  const scalar = fc.constantFrom<unknown>('text', 5, true, null, ['x'], { deep1: { deep2: 1 } });
  /** Unknown keys, each with a name of its own. */
  const withMore = (record: Loose) =>
    fc
      .array(scalar, { maxLength: 2 })
      .map((values): Loose => ({ ...record, ...Object.fromEntries(values.map((one) => [next('zq'), one])) }));
  const oneStep = fc
    .constantFrom('code', 'code_raw', 'codeRaw')
    .chain((name) =>
      withMore({ [name]: '', props: { code: 'a value', steps: [{ code: 'a value' }] } }).map((record) => ({
        record,
        name,
      })),
    )
    .map(({ record, name }) => ({ namespace: next('n'), ...record, [name]: next('/* code ') }));
  const types = fc.constantFrom(
    {},
    { type: 'if' },
    { type: 'switch' },
    { kind: 'parallel' },
    { block: 'map' },
    { type: 'other' },
  );
  const { list } = fc.letrec<{ list: unknown; block: Loose; branch: unknown; step: Loose }>((tie) => ({
    step: fc.oneof({ depthSize: 'small', withCrossShrink: true }, oneStep, tie('block')),
    list: fc.oneof(
      fc.array(tie('step'), { maxLength: 3 }),
      fc
        .array(oneStep, { maxLength: 3 })
        .map((steps) => Object.fromEntries(steps.map(({ namespace, ...rest }) => [namespace, rest]))),
      oneStep,
    ),
    branch: fc.oneof(
      oneStep,
      tie('list'),
      fc
        .tuple(
          tie('list'),
          fc.constantFrom('steps', 'step', 'cells', 'zqparts'),
          fc.constantFrom({}, { slug: 's' }, { condition: '{{true}}' }, { rule: { a: 1 } }, { case: 1 }),
        )
        .chain(([steps, name, more]) => withMore({ ...more, [name]: steps })),
    ),
    block: fc
      .tuple(
        types,
        fc.constantFrom('branches', 'cases', 'blocks', 'then', 'steps', 'zqwhatever'),
        fc.oneof(
          fc.array(tie('branch'), { maxLength: 3 }),
          fc.dictionary(fc.constantFrom('yes', 'no', 'else', 'zqname'), tie('branch'), { maxKeys: 3 }),
        ),
      )
      .chain(([type, name, branches]) => withMore({ namespace: next('b'), ...type, [name]: branches })),
  }));
  const wrapped = list.chain((steps) =>
    fc.oneof(
      withMore({ steps }),
      withMore({}).map((more) => ({
        ...more,
        data: { workflow: { name: 'One', ...more }, deployment: { cells: steps } },
      })),
      withMore({}).map((more) => ({ deployments: [{ nodes: steps, ...more }] })),
      withMore({}).map((more) => ({ [next('zq')]: [{ [next('zq')]: { steps, triggers: [], ...more } }] })),
      withMore({}).map((more) => ({ triggers: [], [next('zq')]: steps, ...more })),
    ),
  );

  const codesIn = (value: unknown): string[] =>
    [...JSON.stringify(value).matchAll(/\/\* code \d+/g)].map(([found]) => found);
  const keysIn = (value: unknown): string[] => {
    if (Array.isArray(value)) return value.flatMap(keysIn);
    if (typeof value !== 'object' || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => [key, ...(key === 'props' ? [] : keysIn(inner))]);
  };

  test('no code is lost, every key is understood or in the report, and what is made can be deployed', () => {
    fc.assert(
      fc.property(wrapped, (value) => {
        const found = project({ id: 'p_One111', ...value });
        const steps = found.workflows.flatMap((one) => one.steps);
        const codes = steps.flatMap(({ content }) => (content.kind === 'code' ? [content.text] : []));
        assert.deepEqual(codes.toSorted(), codesIn(value).toSorted());
        const known = new Set([
          ...found.keys.flatMap(({ key }) => key.split(/[.[\]]+/)),
          ...steps.flatMap(({ namespace, block, note }) => [
            namespace,
            ...(block?.branches ?? []).map(({ slug }) => slug),
            ...(note.match(/[\w]+/g) ?? []),
          ]),
        ]);
        assert.deepEqual(
          keysIn(value).filter((key) => !known.has(key)),
          [],
        );
        for (const workflow of found.workflows) {
          const { steps: made } = mapWorkflow(workflow, context);
          checkSteps(made, { fromTemplate: false });
          assert.equal(flattenSteps(made).length, workflow.steps.length);
        }
      }),
      { numRuns: 300 },
    );
  });
});
