import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = fileURLToPath(new URL('../../examples/', import.meta.url));

test('the list of examples is the folder of examples', async () => {
  const listed = [...(await readFile(`${folder}README.md`, 'utf8')).matchAll(/\]\((.+)\.mjs\)/g)].map(
    (match) => match[1],
  );
  const there = (await readdir(folder)).filter((file) => file.endsWith('.mjs') && file !== 'deploy.mjs');
  assert.deepEqual(listed.sort(), there.map((file) => file.slice(0, -'.mjs'.length)).sort());
});

forEachSharedService((fixture) => {
  /** Deploys as the README says; answers the workflow. */
  async function deploy(name: string) {
    const { stdout } = await promisify(execFile)(process.execPath, [`${folder}deploy.mjs`, name], {
      env: { URL: fixture.service.url, KEY: fixture.service.key },
    });
    const id = /^(p_\w+)/.exec(stdout)?.[1];
    const { body } = await fixture.service.api('GET', `/v1/workflows/${id}`);
    // It prints where to send something to try the example.
    const isAddressed = ({ id: trigger }: { id: string }) =>
      trigger.startsWith('ti_') || new RegExp(`${trigger}  \\S+`).test(stdout);
    assert.ok(body.data.triggers.every(isAddressed), stdout);
    return body.data;
  }
  const events = async (workflowId: string, channel = '') => {
    const { body } = await fixture.service.api(
      'GET',
      `/v1/workflows/${workflowId}/event_summaries?expand=event&event_name=${channel}`,
    );
    return body.data.map((row: { event: { raw_event: unknown } }) => row.event.raw_event);
  };

  test('hello-request answers', async () => {
    const workflow = await deploy('hello-request');
    const answer = await fetch(`${workflow.triggers[0].endpoint_url}?name=Ada`);
    assert.equal(await answer.text(), 'Hello, Ada!\n');
    assert.equal(await (await fetch(workflow.triggers[0].endpoint_url)).text(), 'Hello, stranger!\n');
  });

  test('approval-by-link continues when its link is followed', async () => {
    const workflow = await deploy('approval-by-link');
    const answer = await fetch(workflow.triggers[0].endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"request": "a new chair"}',
    });
    const { approve } = (await answer.json()) as { approve: string };
    assert.equal((await fetch(approve)).status, 200);
    await fixture.service.runInState(workflow.id, 'succeeded');
    assert.deepEqual(await events(workflow.id), [{ approved: 'a new chair', from: '127.0.0.1' }]);
  });

  test('visit-counter counts, and its timer reports', async () => {
    const workflow = await deploy('visit-counter');
    const endpoint = workflow.triggers.find(
      (trigger: { endpoint_url?: string }) => trigger.endpoint_url,
    ).endpoint_url;
    for (const page of ['a', 'b']) {
      await fetch(`${endpoint}/${page}`);
      await waitFor(async () =>
        (await fixture.service.runs(workflow.id)).some((run) => run.reason === `counted /${page}`),
      );
    }
    // The first tick of an interval comes at once, before or after the visits.
    await waitFor(async () => (await events(workflow.id)).length > 0);
  });

  test('filter-an-inbox hands on orders and nothing else', async () => {
    const workflow = await deploy('filter-an-inbox');
    const inbox = workflow.triggers[0].configured_props;
    const endpoint = Object.values(inbox as Record<string, { endpoint_url?: string }>).find(
      (value) => value?.endpoint_url,
    )?.endpoint_url;
    for (const body of [{ type: 'order', items: 2 }, { type: 'spam' }, { type: 'order', items: 3 }])
      await fetch(endpoint ?? '', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    await waitFor(async () => (await fixture.service.runs(workflow.id, '&state=succeeded')).length === 3);
    assert.deepEqual(await events(workflow.id, 'orders'), [{ items: 3 }, { items: 2 }], 'in order');
  });
});
