import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { Millrace } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const minute = 60_000;
const hour = 60 * minute;

const timed = `export default {
  name: 'Timed', props: { timer: { type: '$.interface.timer', default: { intervalSeconds: 3600 } } },
  run(event) { this.$emit(event); },
};`;
const called = `export default {
  name: 'Called', props: { http: '$.interface.http' },
  run(event) { this.$emit({ path: event.path }); },
};`;

/** What nodes do whose clocks are wrong. SQLite has one process and one clock. */
describe('nodes on one database', { skip: postgresSkip() }, () => {
  let database: TestDatabase;
  let folder: TempFolder;
  const key = randomBytes(32).toString('base64');

  before(async () => {
    database = await borrowTestDatabase();
    folder = await createTempFolder('clocks');
  });
  after(async () => {
    await database?.drop();
    await folder?.remove();
  });

  const startNode = (name: string, aheadMs: number) => {
    const wrongClock = `const now = Date.now; Date.now = () => now() + ${aheadMs};`;
    return Millrace.start({
      dataFolder: `${folder.path}/${name}`,
      databaseUrl: database.url,
      environment: {
        MILLRACE_ENCRYPTION_KEY: key,
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(wrongClock)}`,
      },
    });
  };
  const clockOf = async (node: Millrace) => (await node.api('GET', '/v1/instance')).body.data;
  const offsetMetric = async (node: Millrace) => {
    const text = await (await fetch(`${node.url}/metrics`)).text();
    return Number(/^millrace_clock_offset_seconds (\S+)$/m.exec(text)?.[1]);
  };
  const ticks = async (node: Millrace, sourceId: string) =>
    (await node.api('GET', `/v1/sources/${sourceId}/ticks`)).body.data;
  const isNow = (seconds: number) => Math.abs(seconds * 1000 - Date.now()) < 10 * minute;

  test('a node that is an hour ahead accepts and runs, plans by the time of the database, says that it fires no timer, and leaves timers to the others', async () => {
    const ahead = await startNode('ahead', hour);
    try {
      const ready = await ahead.api('GET', '/readyz');
      assert.deepEqual([ready.status, ready.body.code], [503, 'not_ready']);
      assert.match(ready.body.error, /the clock of this machine .* no timer fires here/);
      assert.equal((await ahead.api('GET', '/healthz')).status, 200);
      assert.match(ahead.output, /"offsetMs":3[56]\d{5},.*no timers.*clock\.distrusted/);
      const { clock, now } = await clockOf(ahead);
      assert.equal(clock.state, 'unreliable');
      assert.ok(Math.abs(clock.offset_ms - hour) < minute && isNow(now) && isNow(clock.checked_at));
      assert.ok(Math.abs((await offsetMetric(ahead)) - 3_600) < 60);

      const timer = await ahead.createSource({ component_code: timed });
      assert.ok(isNow(timer.created_at));
      const source = await ahead.createSource({ component_code: called });
      const asked = await fetch(`${source.configured_props.http.endpoint_url}/kept`, { method: 'POST' });
      assert.equal(asked.status, 200);
      const [event] = await waitFor(async () => {
        const events = await ahead.events(source.id);
        return events.length > 0 && events;
      });
      assert.deepEqual(event.event, { path: '/kept' });
      assert.ok(isNow(event.indexed_at_ms / 1000));
      assert.deepEqual(await ticks(ahead, timer.id), []);

      const right = await startNode('right', 0);
      try {
        assert.equal((await right.api('GET', '/readyz')).status, 200);
        const [tick] = await waitFor(async () => {
          const all = await ticks(right, timer.id);
          return all.length > 0 && all;
        });
        assert.ok(isNow(tick.planned_at), 'due at once, not in an hour');
        await waitFor(async () => (await right.events(timer.id)).length === 1);
        // Each node sees the health of all.
        const { nodes, node: itself } = await clockOf(right);
        const states = nodes.map(({ id, health }: { id: string; health: { state: string } }) => [
          id === itself,
          health.state,
        ]);
        assert.deepEqual(states.sort(), [
          [false, 'failing'],
          [true, 'healthy'],
        ]);
        const off = nodes.find(({ id }: { id: string }) => id !== itself);
        assert.match(off.health.reason, /^its clock is 3[56]\d\d s ahead of that of the database/);
        assert.match(off.advice, /^Synchronize the clock/);
      } finally {
        await right.stop();
      }
    } finally {
      await ahead.stop();
    }
  });

  test('a node that is half a minute behind works by the time of the database, and warns', async () => {
    const behind = await startNode('behind', -minute / 2);
    try {
      assert.equal((await behind.api('GET', '/readyz')).status, 200);
      assert.match(behind.output, /"offsetMs":-\d{5},.*clock\.corrected/);
      assert.equal((await clockOf(behind)).clock.state, 'corrected');
      const beforeSeconds = Math.floor(Date.now() / 1000);
      const timer = await behind.createSource({ component_code: timed });
      assert.ok(timer.created_at >= beforeSeconds - 1, 'the time of the database');
      await waitFor(async () => (await behind.events(timer.id)).length === 1);
    } finally {
      await behind.stop();
    }
  });
});
