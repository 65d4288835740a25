import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const count = 25;

/** Workflows, each with code of its own, which is built, an action that ships, and a data store that all share. */
function repository(): Record<string, string> {
  const files: Record<string, string> = {};
  for (let n = 0; n < count; n += 1) {
    const folder = `folder${n % 3}/workflow-${n}-p_Many${String(n).padStart(2, '0')}`;
    files[`${folder}/workflow.yaml`] = `schema: workflow/2022.04
name: Workflow ${n}
settings:
  error_notification: true
triggers:
- id: hi_Many${n}
steps:
- namespace: keep
  runtime: nodejs20.x
  uses: filter-continue-based-on-condition@0.0.1
  props:
    initialValue: "{{steps.trigger.event.body.n}}"
    condition: GREATER_THAN_EQUALS
    secondValue: 1
- namespace: double
  runtime: nodejs20.x
  uses: "./double/entry.js"
  props:
    number: "{{steps.trigger.event.body.n}}"
    store:
      storeId: ds_Shared
- namespace: answer
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.1
  props:
    resStatusCode: 200
    resBody: "{{steps.double.$return_value}}"
`;
    files[`${folder}/double/entry.js`] = `export default defineComponent({
  props: { number: { type: "integer" }, store: { type: "data_store" } },
  async run() { await this.store.set("last-${n}", this.number); return { of: ${n}, twice: this.number * 2 }; },
});`;
  }
  return files;
}

forEachService((fixture) => {
  // biome-ignore lint/suspicious/noExplicitAny: reports are looked into.
  type Answer = any;
  const data = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const answer = await fixture.service.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };

  test('an import of 25 workflows that is killed in the middle ends with each of them once, and they answer', async () => {
    const begun = await data('POST', '/v1/imports', { files: repository(), activate: true });
    let kills = 0;
    for (const least of [1, 10]) {
      const now = await waitFor(async () => {
        const row = await data('GET', `/v1/imports/${begun.id}`);
        return row.progress.done >= least && row;
      });
      if (now.state !== 'running') continue;
      kills += 1;
      await fixture.restart('kill');
    }
    assert.ok(kills > 0, 'it was under way');
    const row = await waitFor(async () => {
      const now = await data('GET', `/v1/imports/${begun.id}`);
      return ['done', 'failed'].includes(now.state) && now;
    });
    assert.deepEqual([row.state, row.error, row.progress], ['done', null, { done: count, total: count }]);
    const { report } = row;
    assert.deepEqual([report.counts.created, report.counts.converted], [count, count]);
    assert.ok(report.keys.every(({ outcome }: Answer) => outcome !== 'unknown'));
    const workflows = await data('GET', '/v1/users/me/workflows?limit=100');
    assert.deepEqual(
      workflows.map(({ id }: Answer) => id).sort(),
      report.workflows.map(({ workflow_id }: Answer) => workflow_id).sort(),
      'nothing twice, nothing else',
    );
    assert.equal((await data('GET', '/v1/users/me/data_stores')).length, 1);
    for (const at of [0, 11, 24]) {
      const { name, triggers } = report.workflows[at];
      const response = await fetch(triggers[0].address, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"n":21}' },
      });
      assert.deepEqual(await response.json(), { of: Number(name.split(' ')[1]), twice: 42 });
    }
    const again = await data('POST', '/v1/imports', { files: repository() });
    const second = await waitFor(async () => {
      const now = await data('GET', `/v1/imports/${again.id}`);
      return now.state === 'done' && now;
    });
    assert.equal(second.report.counts.unchanged, count);
  });
});
