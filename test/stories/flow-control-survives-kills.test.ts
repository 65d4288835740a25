import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { forEachService, type Millrace } from '../support/millrace.ts';
import { usePostgresNodes } from '../support/postgres-nodes.ts';
import { waitFor } from '../support/wait-for.ts';

const slow = `export default defineComponent({
  async run({ steps }) { await new Promise((resolve) => setTimeout(resolve, 30)); return steps.trigger.event.body.n; },
});`;
const limit = 2;
const customers = ['a', 'b', 'c'];
const count = 60;

// biome-ignore lint/suspicious/noExplicitAny: workflows and runs of every shape.
type Json = any;

const definition = {
  steps: [{ namespace: 'a', code: slow }],
  triggers: [{ type: 'http' }],
  settings: {
    flow_control: { concurrency: { limit, key: '{{event.body.customer}}' } },
    timeout_seconds: 30,
  },
};

/** Sends an event for each number; resolves with those that were accepted. */
async function send(url: (n: number) => string, numbers: readonly number[]): Promise<number[]> {
  const accepted: number[] = [];
  for (const n of numbers) {
    const answer = await fetch(url(n), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ n, customer: customers[n % customers.length] }),
    }).catch(() => undefined);
    if (answer?.status === 200) accepted.push(n);
  }
  return accepted;
}

async function allRuns(service: Millrace, workflowId: string): Promise<Json[]> {
  const runs = await service.runs(workflowId);
  return Promise.all(runs.map(({ id }: { id: string }) => service.runDetail(id)));
}

async function checkAll(service: Millrace, workflowId: string, accepted: readonly number[]): Promise<void> {
  await waitFor(async () => (await service.runs(workflowId, '&state=succeeded')).length >= accepted.length, {
    what: 'all accepted events to have run',
  });
  const runs = await allRuns(service, workflowId);
  assert.deepEqual(
    runs.map((run) => run.event.body.n).sort((a, b) => a - b),
    [...accepted].sort((a, b) => a - b),
  );
  for (const customer of customers) {
    // A place is held from the beginning of a run to its end, also while its node is dead.
    const own = runs.filter((run) => run.event.body.customer === customer);
    const times = own.flatMap((run) => [
      { at: Date.parse(run.started_at), change: 1 },
      { at: Date.parse(run.ended_at), change: -1 },
    ]);
    times.sort((one, other) => one.at - other.at || one.change - other.change);
    let underWay = 0;
    for (const { change } of times) {
      underWay += change;
      assert.ok(underWay <= limit, `${underWay} runs of ${customer} at once`);
    }
  }
  const { body } = await service.api('GET', `/v1/workflows/${workflowId}/queue`);
  assert.equal(body.data.waiting + body.data.arrived, 0);
}

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n);

forEachService((fixture) => {
  test('a kill in the middle of a queue loses no event and leaves no place taken', async () => {
    const workflow = await fixture.service.createWorkflow(definition);
    const path = new URL(workflow.triggers[0].endpoint_url).pathname;
    const url = () => `${fixture.service.url}${path}`;
    const accepted = await send(url, upTo(0, count / 2));
    await waitFor(async () => (await fixture.service.runs(workflow.id, '&state=succeeded')).length > 2);
    await fixture.restart('kill');
    accepted.push(...(await send(url, upTo(count / 2, count))));
    assert.equal(accepted.length, count);
    await checkAll(fixture.service, workflow.id, accepted);
  });
});

describe('two nodes on one PostgreSQL', { skip: postgresSkip() }, () => {
  const { node } = usePostgresNodes({ leaseSeconds: 3 });

  test('when one of them is killed, the other one continues its queue within the limits', async () => {
    const [first, second] = [node(0), node(1)];
    const workflow = await first.createWorkflow(definition);
    const path = new URL(workflow.triggers[0].endpoint_url).pathname;
    const url = (n: number) => `${(n % 2 === 0 ? first : second).url}${path}`;
    const accepted = await send(url, upTo(0, count));
    await waitFor(async () => (await first.runs(workflow.id, '&state=succeeded')).length > 2);
    await second.kill();
    await checkAll(first, workflow.id, accepted);
  });
});
