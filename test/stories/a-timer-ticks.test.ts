import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const timed = `
export default {
  name: 'Timed', props: { timer: '$.interface.timer', note: { type: 'string', optional: true } },
  run(event) { this.$emit({ event, timer: this.timer }); },
};`;

async function refusedTimer(service: ServiceClient, timer: unknown) {
  const { status, body } = await service.api('POST', '/v1/sources', {
    component_code: timed,
    configured_props: { timer },
  });
  return [status, body.details?.parameter];
}

forEachSharedService((fixture) => {
  test('a timer of 14 seconds is refused, by the name of its prop; one of 15 seconds runs at once', async () => {
    const { service } = fixture;
    assert.deepEqual(await refusedTimer(service, { intervalSeconds: 14 }), [400, 'configured_props.timer']);
    const before = Math.floor(Date.now() / 1000);
    const source = await service.createSource({
      component_code: timed,
      configured_props: { timer: { intervalSeconds: 15 } },
    });
    const activated = Math.ceil(Date.now() / 1000);
    assert.deepEqual(source.configured_props.timer, { cron: null, interval_seconds: 15 });
    const events = await waitFor(async () => {
      const found = await service.events(source.id);
      return found.length > 0 && found;
    });
    // A busy machine may have come to the second tick: the oldest is the first.
    const { event, timer } = events.at(-1).event;
    assert.deepEqual(Object.keys(event).sort(), ['interval_seconds', 'timestamp']);
    assert.equal(event.interval_seconds, 15);
    assert.ok(
      event.timestamp >= before && event.timestamp <= activated,
      'the first tick is due at activation',
    );
    assert.deepEqual(timer, { type: '$.interface.timer', intervalSeconds: 15 });
    const { body } = await service.api('GET', `/v1/sources/${source.id}/ticks`);
    const oldest = body.data.at(-1);
    assert.deepEqual(
      [oldest.prop, oldest.outcome, oldest.ticks, oldest.planned_at],
      ['timer', 'fired', 1, event.timestamp],
    );
    assert.equal(body.page_info.count, body.data.length);
  });

  test('a row of the ledger says how its own run ended', async () => {
    const { service } = fixture;
    const every = { timer: { intervalSeconds: 3600 } };
    const ended = async (component_code: string) => {
      const { id } = await service.createSource({ component_code, configured_props: every });
      return waitFor(async () => {
        const { run } = (await service.api('GET', `/v1/sources/${id}/ticks`)).body.data[0] ?? {};
        return typeof run?.ended_at === 'number' && [run.state, run.error];
      });
    };
    const props = `props: { timer: '$.interface.timer' }`;
    assert.deepEqual(await ended(`export default { name: 'Good', ${props}, run() {} };`), [
      'succeeded',
      null,
    ]);
    assert.deepEqual(
      await ended(`export default { name: 'Bad', ${props}, run() { throw new RangeError('too far'); } };`),
      ['failed', 'RangeError: too far'],
    );
  });

  test('a timer of another form is refused, also when a source is changed, which then continues as it was', async () => {
    const { service } = fixture;
    for (const timer of [
      { intervalSeconds: '60' },
      { intervalSeconds: 15.5 },
      { intervalSeconds: -60 },
      { intervalSeconds: 1e15 },
      { cron: 'every morning' },
      { cron: '0 9 * * *', timezone: 'Europe/Atlantis' },
      { cron: '* * * * * *' },
      { cron: '0 0 30 2 *' },
      {},
      [],
      'hourly',
      60,
      null,
    ]) {
      assert.deepEqual(
        [timer, ...(await refusedTimer(service, timer))],
        [timer, 400, 'configured_props.timer'],
      );
    }
    const source = await service.createSource({
      component_code: timed,
      configured_props: { timer: { intervalSeconds: 3600 } },
    });
    const wrong = await service.api('PUT', `/v1/sources/${source.id}`, {
      configured_props: { timer: { intervalSeconds: 1 } },
    });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, 'configured_props.timer']);
    const still = (await service.api('GET', `/v1/sources/${source.id}`)).body.data;
    assert.deepEqual(still.configured_props.timer, { cron: null, interval_seconds: 3600 });
    assert.equal(still.active, true);
  });

  test('cron takes a time zone, is UTC without one, and waits for its first occurrence', async () => {
    const { service } = fixture;
    const berlin = await service.createSource({
      component_code: timed,
      configured_props: { timer: { cron: '0 9 * * 1-5', timezone: 'Europe/Berlin' } },
    });
    assert.deepEqual(berlin.configured_props.timer, {
      cron: '0 9 * * 1-5',
      interval_seconds: null,
      timezone: 'Europe/Berlin',
    });
    const again = await service.api('PUT', `/v1/sources/${berlin.id}`, {
      configured_props: berlin.configured_props,
    });
    assert.deepEqual(
      again.body.data.configured_props,
      berlin.configured_props,
      'what is answered may be sent back',
    );
    const utc = await service.createSource({
      component_code: timed,
      configured_props: { timer: { cron: '0 9 * * *' } },
    });
    assert.equal(utc.configured_props.timer.timezone, 'UTC');
    assert.deepEqual(await service.events(berlin.id), []);
  });

  test('processes are ready before timers of several owners are due', async () => {
    const { service } = fixture;
    const readyWithoutTimers = 2;
    const startMs = Date.now();
    // Some are always due within the next half minute, also where the first are due before their processes have started.
    for (let n = 0; n < 12; n += 1) {
      const due = new Date(startMs + 25_000 + n * 5_000);
      const cron = `${due.getUTCSeconds()} ${due.getUTCMinutes()} * * * *`;
      const { body } = await service.api('POST', '/v1/workspaces', { name: `Due soon ${n}` });
      const place = { org_id: body.data.id, component_code: timed };
      await service.createSource({ ...place, configured_props: { timer: { cron } } });
    }
    await waitFor(async () => {
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      return Number(/^millrace_runner_prewarmed (\d+)$/m.exec(metrics)?.[1]) > readyWithoutTimers;
    });
  });

  test('a default of the component is the schedule when none is given, and null means the same', async () => {
    const { service } = fixture;
    const code = timed.replace(
      "'$.interface.timer'",
      "{ type: '$.interface.timer', default: { intervalSeconds: 900 } }",
    );
    for (const configured_props of [{}, { timer: null }]) {
      const source = await service.createSource({ component_code: code, configured_props });
      assert.deepEqual(source.configured_props.timer, { cron: null, interval_seconds: 900 });
    }
  });

  test('the next runs of each timer are listed, and the ledger of two timers of one moment is paged without a loss', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `
export default {
  name: 'Two', props: { often: '$.interface.timer', daily: '$.interface.timer' }, run() {},
};`,
      configured_props: {
        often: { intervalSeconds: 3600 },
        daily: { cron: '30 9 * * *', timezone: 'Europe/Berlin' },
      },
    });
    const path = `/v1/sources/${source.id}`;
    const timersOf = async () => (await service.api('GET', `${path}/timers`)).body.data;
    const often = await waitFor(async () => {
      const found = (await timersOf()).find((timer: { prop: string }) => timer.prop === 'often');
      return found.next_at * 1000 > Date.now() && found;
    });
    assert.equal(often.interval_seconds, 3600);
    assert.deepEqual(
      often.planned_at,
      [0, 1, 2, 3, 4].map((n) => often.next_at + n * 3600),
    );
    const daily = (await timersOf()).find((timer: { prop: string }) => timer.prop === 'daily');
    assert.deepEqual(
      [daily.cron, daily.timezone, daily.planned_at.length],
      ['30 9 * * *', 'Europe/Berlin', 5],
    );
    const [first] = (await service.api('GET', `${path}/ticks`)).body.data;
    assert.deepEqual([first.prop, first.outcome], ['often', 'fired']);
    assert.ok(first.late_by_ms >= 0);
    const { body: off } = await service.api('PUT', path, { active: false });
    assert.equal(off.data.active, false);
    assert.deepEqual(await timersOf(), []);

    const both = await service.createSource({
      component_code: `
export default {
  name: 'Both', props: { a: '$.interface.timer', b: '$.interface.timer', c: '$.interface.timer' }, run() {},
};`,
      configured_props: {
        a: { intervalSeconds: 3600 },
        b: { intervalSeconds: 3600 },
        c: { intervalSeconds: 3600 },
      },
    });
    const page = async (query: string) =>
      (await service.api('GET', `/v1/sources/${both.id}/ticks?limit=1${query}`)).body;
    await waitFor(
      async () => (await service.api('GET', `/v1/sources/${both.id}/ticks`)).body.data.length === 3,
    );
    const props: string[] = [];
    for (let cursor = ''; props.length < 3; ) {
      const { data, page_info } = await page(cursor === '' ? '' : `&after=${cursor}`);
      props.push(data[0].prop);
      cursor = page_info.end_cursor;
    }
    assert.deepEqual(props.sort(), ['a', 'b', 'c']);
    assert.equal((await page('&after=nonsense')).code, 'unknown_cursor');
  });

  test('a source slower than its interval never overlaps itself, its ledger shows the skipped tick, and others continue', async () => {
    const { service } = fixture;
    let running = 0;
    let most = 0;
    const release = Promise.withResolvers<void>();
    await using slow = await HttpReceiver.start({
      answer: async () => {
        running += 1;
        most = Math.max(most, running);
        await release.promise;
        running -= 1;
        return { body: 'done' };
      },
    });
    const source = await service.createSource({
      component_code: `
export default {
  name: 'Slow', props: { timer: '$.interface.timer' },
  async run(event) { await (await fetch('${slow.url}')).text(); this.$emit(event); },
};`,
      configured_props: { timer: { intervalSeconds: 15 } },
    });
    const cron = await service.createSource({
      component_code: timed,
      configured_props: { timer: { cron: '*/15 * * * * *' } },
    });
    await slow.waitForRequest(1);
    const outcomes = async (): Promise<string[]> => {
      const { body } = await service.api('GET', `/v1/sources/${source.id}/ticks?limit=100`);
      return body.data.map((tick: { outcome: string }) => tick.outcome).reverse();
    };
    await waitFor(async () => (await outcomes()).length >= 2, { what: 'the second tick' });
    assert.deepEqual((await outcomes()).slice(0, 2), ['fired', 'skipped']);
    assert.deepEqual([slow.requests.length, most], [1, 1]);
    const [tick] = await waitFor(async () => {
      const events = await service.events(cron.id);
      return events.length > 0 && events;
    });
    assert.equal(tick.event.event.timestamp % 15, 0);
    assert.equal(tick.event.event.cron, '*/15 * * * * *');
    assert.ok(tick.event.event.timezone_utc.metadata.day_name.length > 0);
    release.resolve();
    // The next tick may come right after it.
    await waitFor(async () => (await service.events(source.id)).length > 0);
  });
});
