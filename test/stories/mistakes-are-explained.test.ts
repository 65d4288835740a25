import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';

function cell(body: string): string {
  return `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;
}

/** What users get wrong at first, and what they are answered. */
forEachSharedService((fixture) => {
  const deploy = (steps: object[]) =>
    fixture.service.api('POST', '/v1/workflows', { steps, triggers: [], settings: { name: 'mistaken' } });

  test('an unknown component is answered with the one that was meant, or with where to search for a package', async () => {
    const misspelt = await deploy([{ namespace: 'a', component: 'csv-prase' }]);
    assert.match(misspelt.body.error, /there is no component "csv-prase": did you mean "csv-parse"\?/);
    const missing = await deploy([{ namespace: 'a', component: 'slack-send-message' }]);
    assert.match(
      missing.body.error,
      /the registry does not have it\. If npm has a package for the app \(npm search pipedream slack\), an admin .* adds it: millrace registry add PACKAGE/,
    );
    assert.doesNotMatch(missing.body.error, /@pipedream\//);
    const source = await fixture.service.createSource({
      component_code: 'export default { async run() {} };',
    });
    const other = await deploy([{ namespace: 'a', component: source.id }]);
    assert.match(other.body.error, /there is no component "dc_.*": it is the id of a source/);
    const nameless = await deploy([{ namespace: 'a', component: 'nope' }]);
    assert.match(nameless.body.error, /there is no component "nope"$/);
  });

  test('a data store is given by its id or its name, and an unknown one is answered with where they are listed', async () => {
    const { service } = fixture;
    const made = await service.api('POST', '/v1/data_stores', { name: 'stock' });
    const step = (dataStore: unknown) => ({
      namespace: 'read',
      code: `export default defineComponent({ props: { store: { type: 'data_store' } }, async run() { return this.store.get('a'); } });`,
      props: { store: dataStore },
    });
    const named = await deploy([step('stock')]);
    assert.equal(named.status, 200, JSON.stringify(named.body));
    assert.equal(JSON.parse(named.body.data.steps[0].configured_props_json).store, made.body.data.id);
    const unknown = await deploy([step('orders')]);
    assert.equal(unknown.status, 400);
    assert.match(
      unknown.body.error,
      /there is no data store "orders", expected the id \(ds_…\) or the name .*; GET \/v1\/users\/me\/data_stores/,
    );
    const stranger = await service.createUser('stranger');
    await service.as(stranger).api('POST', '/v1/data_stores', { name: 'theirs' });
    assert.equal(
      (await deploy([step('theirs')])).status,
      400,
      'the name of a store of another owner is unknown',
    );
  });

  test('the answer to a request names its run, also when the run does not respond', async () => {
    const { service } = fixture;
    for (const custom of [true, false]) {
      const workflow = await service.createWorkflow({
        triggers: [{ type: 'http', props: { custom_response: custom } }],
        steps: [{ namespace: 'fail', code: cell(`throw new Error('on purpose');`) }],
      });
      const answer = await fetch(workflow.triggers[0].endpoint_url);
      assert.equal(answer.status, custom ? 400 : 200);
      const run = await service.runInState(workflow.id, 'failed');
      assert.equal(answer.headers.get('x-millrace-run-id'), run.id);
    }
  });

  test('exports of a step that runs again are refused with the reason', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [{ namespace: 'fail', code: cell(`throw new Error('on purpose');`) }],
    });
    await fetch(workflow.triggers[0].endpoint_url);
    const { id } = await service.runInState(workflow.id, 'failed');
    const refused = await service.api('POST', `/v1/runs/${id}/restart`, { steps: { fail: {} } });
    assert.match(refused.body.error, /a step that failed, and those after it, run again/);
  });
});
