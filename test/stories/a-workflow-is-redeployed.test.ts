import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';

forEachSharedService((fixture) => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
  });
  after(() => receiver.close());

  /** Steps that send the receiver the running version and how to resume it. */
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
});
