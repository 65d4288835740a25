import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const code = 'export default defineComponent({ async run({ steps }) { return steps.trigger.event; } });';

const timed = (props: Record<string, unknown>) => ({
  steps: [{ namespace: 'seen', code }],
  triggers: [{ type: 'timer', props }],
});

async function listed(service: ServiceClient, path: string): Promise<Record<string, unknown>[]> {
  const { status, body } = await service.api('GET', path);
  assert.equal(status, 200, JSON.stringify(body));
  return body.data;
}

forEachSharedService((fixture) => {
  const ticksOf = (id: string) => listed(fixture.service, `/v1/workflows/${id}/ticks?limit=100`);
  const runsOf = (id: string) => listed(fixture.service, `/v1/workflows/${id}/runs?limit=100`);

  test('an interval runs its workflow at once, with the event of a schedule, and the tick is in the ledger', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow(timed({ interval_seconds: 3600 }));
    const [trigger] = workflow.triggers;
    assert.match(trigger.id, /^ti_/);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.emitter_id, trigger.id);
    const { event } = run;
    assert.deepEqual(run.steps[0].exports.$return_value, event);
    assert.deepEqual(Object.keys(event).sort(), [
      'interval_seconds',
      'timestamp',
      'timezone_configured',
      'timezone_utc',
    ]);
    assert.equal(event.interval_seconds, 3600);
    for (const zone of [event.timezone_configured, event.timezone_utc]) {
      assert.equal(zone.timezone, 'UTC');
      assert.equal(Math.floor(Date.parse(zone.iso8601.timestamp) / 1000), event.timestamp);
      assert.deepEqual(Object.keys(zone.date), ['day', 'month', 'year']);
      assert.deepEqual(Object.keys(zone.time), ['hour', 'minute', 'second', 'millisecond']);
      assert.deepEqual(Object.keys(zone.pretty), ['date', 'time', 'time_24h']);
      assert.deepEqual(Object.keys(zone.metadata), ['day_name', 'day_of_week', 'start_of_week']);
    }
    const [tick, ...others] = await ticksOf(workflow.id);
    assert.deepEqual(others, []);
    assert.deepEqual([tick?.trigger_id, tick?.planned_at, tick?.ticks], [trigger.id, event.timestamp, 1]);
    // On a busy machine it is two seconds late, which the ledger says.
    assert.ok(['fired', 'late'].includes(String(tick?.outcome)), String(tick?.outcome));
    assert.deepEqual(tick?.run, {
      ...{ id: run.id, state: 'succeeded', error: null },
      ended_at: Math.floor(Date.parse(run.ended_at) / 1000),
    });
  });

  test('a cron trigger waits for its time, in its zone', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow(
      timed({ cron: '*/15 * * * * *', timezone: 'Asia/Kathmandu' }),
    );
    const first = await waitFor(async () => (await service.runs(workflow.id, '&state=succeeded')).at(-1));
    const run = await service.runDetail(first.id);
    assert.equal(run.event.cron, '*/15 * * * * *');
    assert.equal(run.event.timestamp % 15, 0);
    assert.equal(run.event.timezone_configured.timezone, 'Asia/Kathmandu');
    assert.match(run.event.timezone_configured.iso8601.timestamp, /\+05:45$/);
    await service.api('DELETE', `/v1/workflows/${workflow.id}`);
  });

  test('an inactive workflow does not tick; when it is activated its timers restart', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow(timed({ interval_seconds: 3600 }));
    await waitFor(async () => (await ticksOf(workflow.id)).length === 1);
    const set = async (active: boolean) => {
      const { status } = await service.api('PUT', `/v1/workflows/${workflow.id}`, { active });
      assert.equal(status, 200);
    };
    await set(false);
    await set(true);
    await waitFor(async () => (await ticksOf(workflow.id)).length === 2);
    await waitFor(async () => (await runsOf(workflow.id)).length === 2);
  });

  test('the ledger pages both ways, and is private to its owner', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'seen', code }],
      triggers: [3600, 7200, 10_800].map((seconds) => ({
        type: 'timer',
        props: { interval_seconds: seconds },
      })),
    });
    await waitFor(async () => (await ticksOf(workflow.id)).length === 3);
    const page = (query: string) => service.api('GET', `/v1/workflows/${workflow.id}/ticks?limit=1${query}`);
    const seen: string[] = [];
    let cursor = '';
    for (let n = 0; n < 3; n += 1) {
      const { body } = await page(cursor === '' ? '' : `&after=${cursor}`);
      seen.push(body.data[0].trigger_id);
      cursor = body.page_info.end_cursor;
    }
    assert.equal(new Set(seen).size, 3);
    const { body } = await page(`&before=${cursor}`);
    assert.equal(body.data[0].trigger_id, seen[1]);
    assert.equal((await page('&after=nonsense')).body.code, 'unknown_cursor');
    assert.equal((await service.api('GET', '/v1/workflows/p_000000000000/ticks')).status, 404);
  });
});
