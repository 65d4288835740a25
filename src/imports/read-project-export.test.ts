import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkFiles } from './read-archive.ts';
import { readProject } from './read-project.ts';

const read = (files: Record<string, unknown>) =>
  readProject(
    checkFiles(
      Object.fromEntries(
        Object.entries(files).map(([path, value]) => [
          path,
          typeof value === 'string' ? value : JSON.stringify(value),
        ]),
      ),
    ),
  );
const manifest = {
  workflows: [
    { id: 'p_Ord3r1', name: 'Orders' },
    { id: 'p_L0st11', name: 'Lost', status: 'skipped' },
  ],
};
const code = 'export default { run() {} }';
const orders = {
  id: 'p_Ord3r1',
  name: 'Orders',
  active: true,
  settings: { lambda_timeout: 45, novelty: 1, limits: { per_second: 5, label: 'sk-private' } },
  triggers: [
    { id: 'hi_0rders', type: 'http', custom_response: true },
    { id: 'ti_D4ily1', configured_props: { cron: { cron: '0 9 * * *', timezone: 'Europe/Berlin' } } },
    { id: 'ti_Every1', interval_seconds: 900 },
    { id: 'dc_S0urce', component_key: 'rss-new-item-in-feed' },
  ],
  steps: [
    { id: 'c_1', namespace: 'price', lang: 'nodejs20.x', code, props: { a: '{{steps.trigger.event.body}}' } },
    {
      namespace: 'send',
      component_key: 'slack-send-message',
      component_version: '0.0.9',
      params_json: '{"slack":{"authProvisionId":"apn_S1ack1"}}',
    },
    { namespace: 'old', code_raw: code, codeRaw: code, disabled: true, mood: 'good' },
    {
      namespace: 'choose',
      branches: [
        { rule: {}, steps: [{ namespace: 'left', code }] },
        { steps: [{ namespace: 'right', component: { key: 'pinned', version: '1.0.0' } }] },
      ],
    },
  ],
};

describe('a project export', () => {
  test('is read wherever its parts stand, and every key that is not understood is reported', () => {
    const { format, workflows, problems, keys } = read({
      'project/manifest.json': manifest,
      'project/shop/orders.json': orders,
    });
    assert.equal(format, 'project_export');
    const [one] = workflows;
    assert.ok(one !== undefined);
    assert.deepEqual(
      [one.id, one.name, one.folder, one.active, one.settings.timeout],
      ['p_Ord3r1', 'Orders', 'shop', true, 45],
    );
    assert.deepEqual(one.triggers, [
      { id: 'hi_0rders', kind: 'http', customResponse: true },
      { id: 'ti_D4ily1', kind: 'timer', schedule: { cron: '0 9 * * *', timezone: 'Europe/Berlin' } },
      { id: 'ti_Every1', kind: 'timer', schedule: { interval_seconds: 900 } },
      { id: 'dc_S0urce', kind: 'source' },
    ]);
    assert.deepEqual(
      one.steps.map(({ namespace, content, disabled }) => [namespace, content.kind, disabled]),
      [
        ['price', 'code', false],
        ['send', 'action', false],
        ['old', 'code', true],
        ['choose', 'missing', false],
        ['left', 'code', true],
        ['right', 'action', true],
      ],
    );
    assert.deepEqual(one.steps[1]?.content, {
      kind: 'action',
      key: 'slack-send-message',
      version: '0.0.9',
      scope: '',
    });
    assert.deepEqual(one.steps[1]?.props, { slack: { authProvisionId: 'apn_S1ack1' } });
    assert.deepEqual(
      one.findings.map(({ level, step, message }) => [level, step, message]),
      [
        [
          'by_hand',
          'choose',
          'it is a block of control flow: build it here, with its steps (left, right), which are kept, disabled; its note has its branches and rules',
        ],
        [
          'check',
          '',
          'the importer does not know settings.limits: a mapping with per_second: 5, label: a text, settings.novelty: 1, steps[].mood: a text',
        ],
      ],
    );
    assert.deepEqual(problems, [
      { path: 'project/manifest.json', message: 'p_L0st11 (Lost) is in the manifest and was not exported' },
    ]);
    assert.deepEqual(
      keys.filter(({ outcome }) => outcome === 'unknown').map(({ key }) => key),
      [
        ...['settings.limits', 'settings.limits.label', 'settings.limits.per_second'],
        ...['settings.novelty', 'steps[].mood'],
      ],
    );
  });

  test('is read in other shapes: records around the workflow, other names of its parts', () => {
    const { workflows } = read({
      'manifest.json': {},
      'a.json': {
        data: {
          workflow: { id: 'p_Inner1', name: 'Inner', inactive: true },
          deployment: {
            triggers: [{ type: 'cron', cron: '* * * * *' }],
            cells: [{ slug: 'one', codeRaw: code }],
          },
        },
      },
    });
    const [one] = workflows;
    assert.deepEqual([one?.id, one?.name, one?.active], ['p_Inner1', 'Inner', false]);
    assert.deepEqual(one?.triggers, [
      { id: '', kind: 'timer', schedule: { cron: '* * * * *', timezone: 'UTC' } },
    ]);
    assert.deepEqual(
      one?.steps.map(({ namespace }) => namespace),
      ['one'],
    );
  });

  test('has the sources and the subscriptions that its triggers describe, each once', () => {
    const feed = {
      ...{ id: 'dc_Feed11', name: 'Feed', component_key: 'rss-new-item-in-feed@1.2.6' },
      configured_props: { url: 'https://example.com/feed', timer: { cron: null, interval_seconds: 900 } },
    };
    const { objects, workflows, keys } = read({
      'manifest.json': {},
      'a.json': {
        id: 'p_First1',
        triggers: [
          feed,
          { id: 'dc_0nlyId', type: 'source' },
          { id: 'sub_Chan11', emitter_id: 'dc_Feed11', event_name: 'late' },
        ],
        steps: [],
      },
      'b.json': {
        id: 'p_Second',
        triggers: [
          feed,
          {
            id: 'dc_C0de11',
            source: { active: false, component: { code }, configured_props_json: '{"a":1}' },
          },
        ],
        steps: [],
      },
    });
    assert.deepEqual(
      objects?.sources.map(({ id, name, active, component, props }) => [id, name, active, component, props]),
      [
        [
          'dc_Feed11',
          'Feed',
          true,
          { key: 'rss-new-item-in-feed', version: '1.2.6', code: '' },
          feed.configured_props,
        ],
        ['dc_C0de11', 'dc_C0de11', false, { key: '', version: '', code }, { a: 1 }],
      ],
    );
    assert.deepEqual(objects?.subscriptions, [
      { id: 'sub_Chan11', emitterId: 'dc_Feed11', listenerId: 'p_First1', eventName: 'late' },
    ]);
    assert.deepEqual(
      workflows.flatMap(({ triggers }) => triggers.map(({ id }) => id)),
      ['dc_Feed11', 'dc_0nlyId', 'sub_Chan11', 'dc_Feed11', 'dc_C0de11'],
    );
    assert.deepEqual(
      keys.filter(({ outcome }) => outcome === 'unknown').map(({ key }) => key),
      [],
    );
  });

  test('that has files that cannot be read says which, and one without workflows is refused', () => {
    const { problems } = read({
      'manifest.json': {},
      'a.json': orders,
      'b.json': '{',
      'c.json': { nothing: 1 },
      'd.json': orders,
      'e.json': '['.repeat(100_000),
    });
    assert.deepEqual(problems, [
      { path: 'b.json', message: 'it is not well-formed JSON' },
      { path: 'c.json', message: 'there are no steps and no triggers in it' },
      { path: 'd.json', message: 'another file has a workflow of its id' },
      { path: 'e.json', message: 'it is nested more than 60 levels deep' },
    ]);
    assert.throws(() => read({ 'manifest.json': {} }), {
      code: 'invalid_import',
      message: /there is no workflow in the export/,
    });
    // Any repository may have a file of that name.
    assert.equal(
      read({ 'manifest.json': {}, 'a-p_One111/workflow.yaml': 'name: One' }).format,
      'synced_repository',
    );
  });
});
