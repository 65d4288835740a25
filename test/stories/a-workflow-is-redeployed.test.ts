import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

forEachService((fixture) => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
  });
  after(() => receiver.close());

  /** Steps that tell the receiver which version runs and how to resume it. */
  const steps = (version: string) => [
    {
      namespace: 'first',
      code: `export default defineComponent({ async run({ $ }) {
        const { resume_url } = $.flow.suspend(60_000);
        await fetch('${receiver.url}/${version}/first', { method: 'POST', body: resume_url });
      } });`,
    },
    {
      namespace: 'second',
      code: `export default defineComponent({ async run() { return '${version}'; } });`,
    },
  ];

  test('a deployment that says which one it follows on overwrites no other', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({ steps: steps('v1') });
    const path = `/v1/workflows/${workflow.id}/deployments`;
    const follows = workflow.deployment_id;
    const first = await service.api('POST', path, { steps: steps('v2'), follows });
    assert.equal(first.status, 200, JSON.stringify(first.body));
    const late = await service.api('POST', path, { steps: steps('v3'), follows });
    assert.deepEqual([late.status, late.body.code], [409, 'conflict']);
    const both = await Promise.all(
      ['v4', 'v5'].map((version) =>
        service.api('POST', path, { steps: steps(version), follows: first.body.data.deployment_id }),
      ),
    );
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
  });

  test('runs end on the deployment they began with; new events use the new one', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: steps('v1'),
      triggers: [{ type: 'http', props: {} }],
    });
    const url = workflow.triggers[0].endpoint_url;
    await fetch(url, { method: 'POST' });
    const old = await service.runInState(workflow.id, 'waiting');
    const deployed = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: steps('v2'),
      triggers: workflow.triggers.map(({ id }: { id: string }) => ({ id })),
    });
    assert.equal(deployed.status, 200, JSON.stringify(deployed.body));
    assert.notEqual(deployed.body.data.deployment_id, workflow.deployment_id);
    assert.equal(deployed.body.data.triggers[0].endpoint_url, url, 'the trigger stays');
    assert.deepEqual(
      deployed.body.data.steps.map(({ id }: { id: string }) => id),
      workflow.steps.map(({ id }: { id: string }) => id),
      'steps of the same name keep their ids',
    );
    await fetch(url, { method: 'POST' });
    await waitFor(() => receiver.requests.some((request) => request.url === '/v2/first'));
    await waitFor(async () => (await service.runs(workflow.id, '&state=waiting')).length === 2);
    const inactive = await service.api('PUT', `/v1/workflows/${workflow.id}`, { active: false });
    assert.equal(inactive.body.data.active, false);
    assert.equal((await fetch(url, { method: 'POST' })).status, 404, 'an inactive workflow takes no events');
    await fixture.restart('kill');
    for (const { body } of receiver.requests.splice(0)) {
      // The service listens elsewhere since it was restarted.
      const { pathname } = new URL(body.toString());
      assert.equal((await fetch(`${fixture.service.url}${pathname}`, { method: 'POST' })).status, 200);
    }
    const ended = await waitFor(async () => {
      const runs = await fixture.service.runs(workflow.id, '&state=succeeded');
      return runs.length === 2 && runs;
    });
    const [newRun, oldRun] = await Promise.all(ended.map(({ id }) => fixture.service.runDetail(id)));
    assert.equal(oldRun.id, old.id);
    assert.equal(oldRun.deployment_id, workflow.deployment_id);
    assert.equal(oldRun.steps.at(-1).exports.$return_value, 'v1');
    assert.equal(newRun.deployment_id, deployed.body.data.deployment_id);
    assert.equal(newRun.steps.at(-1).exports.$return_value, 'v2');
  });
});
