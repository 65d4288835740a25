import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { syncedRepository } from '../../test/support/synced-repository.ts';
import { checkFiles } from './read-archive.ts';
import { readSyncedRepository } from './read-synced-repository.ts';

const read = (files: Record<string, string>) => readSyncedRepository(checkFiles(files));
const workflowYaml = (rest: string) => `schema: workflow/2022.04\nname: One\n${rest}`;
const one = (rest: string) => {
  const [workflow] = read({ 'one-p_One111/workflow.yaml': workflowYaml(rest) }).workflows;
  assert.ok(workflow !== undefined);
  return workflow;
};

describe('a synced repository', () => {
  test('every key of its files is counted, and none twice', () => {
    const files = syncedRepository();
    const expected = new Map<string, number>();
    const count = (key: string) => expected.set(key, (expected.get(key) ?? 0) + 1);
    const countAll = (value: object, at: string) => {
      for (const [key, inner] of Object.entries(value)) {
        count(`${at}${key}`);
        if (key === 'settings' && inner !== null) countAll(inner, 'settings.');
        if (['triggers', 'steps'].includes(key)) for (const item of inner) countAll(item, `${key}[].`);
        if (key === 'props') for (const _prop of Object.keys(inner)) count('steps[].props.*');
      }
    };
    for (const [path, text] of Object.entries(files)) {
      if (path.endsWith('workflow.yaml')) countAll(parse(text), '');
      if (path.endsWith('.workflow.state')) countAll(parse(text), '.workflow.state: ');
    }
    const counted = new Map<string, number>();
    for (const { key, count: uses } of read(files).keys) counted.set(key, (counted.get(key) ?? 0) + uses);
    assert.deepEqual([...counted].sort(), [...expected].sort());
    assert.ok(expected.size > 20, `${expected.size} keys`);
  });

  test('what the importer does not know is a finding of its workflow', () => {
    const { workflows, keys } = read(syncedRepository());
    assert.deepEqual(
      keys.filter(({ outcome }) => outcome === 'unknown').map(({ key }) => key),
      ['settings.warm_workers', 'steps[].version_policy'],
    );
    const digest = workflows.find(({ name }) => name === 'Yes');
    assert.deepEqual(
      digest?.findings.map(({ message, step }) => [step, message]),
      [
        ['', 'the importer does not know settings.warm_workers: 2'],
        ['private_one', 'the importer does not know steps[].version_policy: a text'],
      ],
    );
  });

  test('keys in odd forms keep their meaning', () => {
    const { workflows } = read(syncedRepository());
    const named = (name: string) => {
      const found = workflows.find((workflow) => workflow.name === name);
      assert.ok(found !== undefined, name);
      return found;
    };
    assert.deepEqual(workflows.map(({ id }) => id).sort(), [
      ...['p_Ca11er', 'p_D1gest', 'p_Empty1', 'p_Legacy', 'p_Ord3r1', 'p_S0ngs1'],
    ]);
    // Text in quotes stays text, although YAML 1.1 has a boolean of that name.
    const digest = named('Yes');
    assert.deepEqual(
      [digest.active, digest.folder, digest.settings.network],
      [false, 'shop/chat', 'net_Abc123'],
    );
    assert.deepEqual(
      digest.triggers.map(({ kind }) => kind),
      ['timer', 'source', 'subscription'],
    );
    assert.deepEqual(digest.steps[1]?.note, 'Both spellings');
    assert.deepEqual(digest.steps[2]?.content, {
      ...{ kind: 'action', key: 'billing-charge', version: '1.0.0', scope: 'acme' },
    });
    const orders = named('Orders');
    assert.deepEqual([orders.active, orders.folder], [true, '']);
    const [price, keepGoing, , skipped] = orders.steps;
    assert.equal(price?.note, 'Three each');
    assert.equal(price?.props.icon_emoji, null);
    assert.equal(keepGoing?.props.initialValue, '{{steps.price.$return_value .total}}');
    assert.equal(skipped?.disabled, true);
    assert.equal(skipped?.props.text, '{ "photos": steps.get_photos.$return_value }');
    assert.deepEqual(
      named('songs').steps.map(({ content }) => (content.kind === 'code' ? content.language : content.kind)),
      ['python', 'bash', 'go', 'missing'],
    );
    assert.deepEqual(named('Empty').steps, []);
    assert.deepEqual(
      Object.values(named('Empty').settings).filter((value) => value !== undefined),
      [],
    );
  });

  test('a value in a form that its key cannot have is described, and its texts are not shown', () => {
    const { steps, findings } = one(`settings:
  limits: {rate: 5, per: sk-private-1, on: true, deep: {a: {b: 1}}}
  list: [1, 2]
  nothing: {}
triggers:
- {}
steps:
- just a text
- namespace: {a: 1}
  uses: [sk-private-2]
  note: {text: sk-private-3}
- namespace: 12
  runtime: {name: sk-private-4}
`);
    assert.deepEqual(
      findings.map(({ step, message }) => `${step}|${message}`),
      [
        '|the importer does not know settings.limits: a mapping with rate: 5, per: a text, on: true, deep: a mapping with a: a mapping',
        '|the importer does not know settings.list: a list of 2',
        '|the importer does not know settings.nothing: an empty mapping',
        '|a step is a text, expected a mapping',
        '|its note is a mapping with text: a text, expected a text',
        '|its uses is a list of 1, expected a text',
        '12|its runtime is a mapping with name: a text, expected a text',
      ],
    );
    assert.deepEqual(
      steps.map(({ namespace, note }) => [namespace, note]),
      [
        ['', ''],
        ['', ''],
        ['12', ''],
      ],
    );
  });

  test('the folder of one workflow, and an archive with a folder around everything, are read alike', () => {
    const [alone] = read({ 'workflow.yaml': workflowYaml(''), '.workflow.state': 'id: p_Alone1' }).workflows;
    assert.deepEqual([alone?.id, alone?.folder, alone?.name], ['p_Alone1', '', 'One']);
    const [inside] = read({ 'repo-production/a/one-p_One111/workflow.yaml': workflowYaml('') }).workflows;
    assert.deepEqual([inside?.id, inside?.folder], ['p_One111', '']);
    const { workflows } = read({
      'repo-production/a/one-p_One111/workflow.yaml': workflowYaml(''),
      'repo-production/two-p_Two222/workflow.yaml': workflowYaml(''),
    });
    assert.deepEqual(
      workflows.map(({ folder }) => folder),
      ['a', ''],
    );
    const [nameless] = read({ 'some/workflow.yaml': workflowYaml('') }).workflows;
    assert.equal(nameless?.id, 'path:some');
    assert.match(nameless?.findings[0]?.message ?? '', /its id is not in the export/);
  });

  test('a workflow that cannot be read is a problem, and the others are read', () => {
    const { workflows, problems } = read({
      'one-p_One111/workflow.yaml': workflowYaml(''),
      'two-p_One111/workflow.yaml': workflowYaml(''),
      'bad-p_Bad111/workflow.yaml': 'name: [',
      'list-p_List11/workflow.yaml': '- 1',
    });
    assert.equal(workflows.length, 1);
    assert.deepEqual(
      problems.map(({ path }) => path),
      ['bad-p_Bad111/workflow.yaml', 'list-p_List11/workflow.yaml', 'two-p_One111/workflow.yaml'],
    );
    assert.match(problems[1]?.message ?? '', /it has no keys/);
    assert.match(problems[2]?.message ?? '', /it has the id of one-p_One111/);
  });

  test('settings, triggers and steps of another type are findings', () => {
    const odd = one('settings: 5\ntriggers: none\nsteps: {}\ninactive: maybe');
    assert.deepEqual(
      odd.findings.map(({ message }) => message),
      [
        'inactive is a text, expected true or false: it counts as inactive',
        'its id is not in the export: a later import recognises it by its folder',
        'settings is 5, expected a mapping: the defaults are used',
        'triggers is a text, expected a list',
        'steps is an empty mapping, expected a list',
      ].filter((message) => !message.startsWith('its id')),
    );
    assert.equal(odd.active, false);
  });

  test('YAML that was made to take memory or the stack is a problem with a sentence', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]'];
    for (const [name, before] of ['ba', 'cb', 'dc', 'ed', 'fe', 'gf', 'hg', 'ih'].map((pair) => [...pair]))
      bomb.push(`${name}: &${name} [${`*${before}, `.repeat(8)}*${before}]`);
    const { problems } = read({
      'one-p_One111/workflow.yaml': workflowYaml(''),
      'bomb-p_Bomb11/workflow.yaml': bomb.join('\n'),
      'deep-p_Deep11/workflow.yaml': `steps: ${'['.repeat(20_000)}`,
      'nested-p_Nest11/workflow.yaml': `steps: ${'['.repeat(60)}${']'.repeat(60)}`,
      'large-p_Large1/workflow.yaml': `name: ${'x'.repeat(600_000)}`,
    });
    const messages = Object.fromEntries(problems.map(({ path, message }) => [path.split('-')[0], message]));
    assert.match(messages.bomb ?? '', /alias/i);
    assert.match(messages.deep ?? '', /nested more than 50 levels/);
    assert.match(messages.nested ?? '', /nested more than 50 levels/);
    assert.match(messages.large ?? '', /larger than 512 KB/);
  });
});
