import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JobRegistry } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import { lookupOf } from '#sources/apphooks.ts';
import { deleteSource, findSource, updateSource } from '#sources/source-store.ts';
import { WaitingRuns } from '#sources/waiting-runs.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { SourceState } from '#storage/tables/source-tables.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { AppEvents } from './push-app-event.ts';

const nobodyCounts = { check: () => {}, started: (_ownerId: string, _runs: number): void => {} };
const message = { ownerId: 'u_1', app: 'slack', eventNames: ['message'], event: '{"text":"hi"}' };

describe('pushing an event of an app', () => {
  forEachStore((fixture) => {
    const clock = new TestClock();

    /** Active sources that listen to these names; their ids. */
    async function listeners(
      count: number,
      names: string[],
      options: { ownerId?: string; app?: string; state?: SourceState; flowControl?: string } = {},
    ): Promise<string[]> {
      const { ownerId = 'u_1', app = 'slack', state = 'active', flowControl = null } = options;
      const ids = Array.from({ length: count }, () => newId('dc'));
      const apphooks = JSON.stringify([{ prop: 'hook', app, names }]);
      const rows = ids.map((id) => ({
        ...sourceRow(id, { ownerId }),
        ...{ state, apphooks, flow_control: flowControl },
      }));
      // As `insertSource` does it, for all of them in a few statements.
      await fixture.store.transaction(async (tx) => {
        for (let at = 0; at < ids.length; at += 250) {
          await tx
            .insertInto('sources')
            .values(rows.slice(at, at + 250))
            .execute();
          await tx
            .insertInto('source_apphooks')
            .values(
              ids.slice(at, at + 250).flatMap((id) =>
                names.map((name) => ({
                  ...{ source_id: id, owner_id: ownerId, app },
                  ...{ event_name: name, lookup: lookupOf(name) },
                })),
              ),
            )
            .execute();
        }
      });
      return ids;
    }

    /** The service's part, with a pool whose runs are noted and then ended. */
    async function withEvents(
      use: (
        events: AppEvents,
        ran: [sourceId: string, event: string | undefined][],
        pool: WorkerPool,
      ) => Promise<void>,
      options: {
        waiting?: WaitingRuns;
        hasRoom?: boolean;
        quotas?: typeof nobodyCounts;
        onHeld?: (sourceId: string) => void;
      } = {},
    ): Promise<void> {
      const { store } = fixture;
      const ran: [string, string | undefined][] = [];
      const settle: BatchWrite<LeasedJob, boolean> = {
        name: 'settle-test-runs',
        run: async (tx, ended) => {
          const held = await settleJobs(store, tx, { node: 'n1', jobs: ended });
          return ended.map(({ id }) => held.has(id));
        },
      };
      const nothing = { run: async () => {}, quarantined: async () => {} };
      const registry = new JobRegistry();
      const pool = new WorkerPool({
        ...{ node: 'n1', store, clock, logger: silentLogger, claims: true },
        jobs: registry,
      });
      const events = new AppEvents({
        onHeld: options.onHeld ?? (() => {}),
        ...{ store, node: 'n1', clock, logger: silentLogger },
        quotas: options.quotas ?? nobodyCounts,
        pool:
          options.hasRoom === false
            ? { hasRoom: () => false, run: () => {}, leftInStore: () => {}, poke: () => pool.poke() }
            : pool,
        payloadBytesMax: 100_000,
        ...(options.waiting === undefined ? {} : { waiting: options.waiting }),
      });
      registry.register({
        run_source: {
          run: async (job: LeasedJob) => {
            const { source_id, event } = job.payload as { source_id: string; event?: string };
            if (await store.writes.submit(settle, job)) ran.push([source_id, event]);
          },
          quarantined: async () => {},
        },
        fan_out_apphook: events,
        delete_events: nothing,
        deliver_scheduled_event: nothing,
        fan_out_event: nothing,
        change_deliveries: nothing,
        queue_replay: nothing,
        run_workflow: nothing,
        delete_workflow: nothing,
        send_from_run: nothing,
      });
      await pool.start();
      try {
        await use(events, ran, pool);
      } finally {
        await pool.stop(5_000);
      }
    }

    const jobs = () => fixture.store.read.selectFrom('jobs').select(['kind', 'lane']).execute();

    test('an event for a source with flow control waits in its queue, with the keys of the event', async () => {
      const [held = ''] = await listeners(1, ['message'], {
        flowControl: JSON.stringify({ throttle: { limit: 1, seconds: 60, key: '{{event.user}}' } }),
      });
      const [free] = await listeners(1, ['message']);
      const heldOf: string[] = [];
      await withEvents(
        async (events, ran) => {
          const event = JSON.stringify({ user: 'U1' });
          assert.equal(
            await events.push({ ownerId: 'u_1', app: 'slack', eventNames: ['message'], event }),
            2,
          );
          await waitFor(() => ran.length === 1);
          assert.deepEqual(ran, [[free, event]]);
        },
        { onHeld: (sourceId) => heldOf.push(sourceId) },
      );
      assert.deepEqual(heldOf, [held]);
      const [job] = await fixture.store.read.selectFrom('jobs').select(['lane', 'payload']).execute();
      assert.equal(job?.lane, `${held}+`);
      assert.equal(JSON.parse(job?.payload ?? '{}').flow.throttle, 'U1');
    });

    test('each active source of the owner that listens to it gets it once, whatever matched', async () => {
      const expected = [
        ...(await listeners(1, ['message'])),
        ...(await listeners(1, ['C1', 'message', 'mess*'])),
        ...(await listeners(1, ['*'])),
        ...(await listeners(1, ['C1'])),
      ];
      await listeners(1, ['reaction_added']);
      await listeners(1, ['message'], { app: 'slack_bot' });
      await listeners(1, ['message'], { state: 'inactive' });
      await listeners(1, ['message'], { state: 'deploying' });
      await listeners(1, ['message'], { ownerId: 'u_2' });
      await withEvents(async (events, ran) => {
        assert.equal(await events.push({ ...message, eventNames: ['message', 'C1'] }), 4);
        await waitFor(async () => ran.length >= 4, { what: 'four runs' });
        assert.deepEqual(ran.toSorted(), expected.map((id) => [id, message.event]).toSorted());
        assert.equal(await events.push({ ...message, eventNames: ['nobody'] }), 1);
        await waitFor(async () => ran.length === 5, { what: 'the run of who listens to all' });
      });
    });

    test('a changed source is found by its new names, a removed one by none', async () => {
      const [id = ''] = await listeners(1, ['message']);
      await withEvents(async (events) => {
        const source = await findSource(fixture.store.read, id);
        assert.ok(source);
        const apphooks = JSON.stringify([{ prop: 'hook', app: 'slack', names: ['C1'] }]);
        await fixture.store.transaction((tx) =>
          updateSource(tx, { ...source, apphooks }, { revision: 1 }, { raise: false }),
        );
        assert.equal(await events.push(message), 0);
        assert.equal(await events.push({ ...message, eventNames: ['C1'] }), 1);
        await fixture.store.transaction((tx) =>
          deleteSource(fixture.store, tx, source, { revision: 1 }, clock.now()),
        );
        assert.equal(await events.push({ ...message, eventNames: ['C1'] }), 0);
        assert.deepEqual(await fixture.store.read.selectFrom('source_apphooks').selectAll().execute(), []);
      });
    });

    test('sources that are too many for one transaction all get it, also when the process dies after the answer', async () => {
      const ids = await listeners(700, ['message']);
      const { store } = fixture;
      const dying = new AppEvents({
        onHeld: () => {},
        ...{ store, node: 'n0', clock, logger: silentLogger, quotas: nobodyCounts },
        pool: { hasRoom: () => false, run: () => {}, leftInStore: () => {}, poke: () => {} },
        payloadBytesMax: 100_000,
      });
      assert.equal(await dying.push(message), 700);
      const kinds = Map.groupBy(await jobs(), ({ kind }) => kind);
      assert.deepEqual([kinds.get('run_source')?.length, kinds.get('fan_out_apphook')?.length], [250, 1]);
      await withEvents(async (_events, ran) => {
        await waitFor(async () => ran.length >= 700, { what: 'all runs' });
        assert.deepEqual(ran.map(([id]) => id).toSorted(), ids.toSorted());
        await waitFor(async () => (await jobs()).length === 0, { what: 'the last job to end' });
      });
    });

    test('a source with too much waiting refuses the event for all; it is then stored for none', async () => {
      const [full = ''] = await listeners(1, ['message']);
      await listeners(3, ['message']);
      const { store } = fixture;
      const waiting = new WaitingRuns({ store, clock, limits: { jobs: 1, bytes: 1e6 } });
      await store.transaction((tx) =>
        insertJobs(tx, [
          jobRow({
            id: 'before',
            kind: 'run_source',
            ownerId: 'u_1',
            lane: full,
            payload: { source_id: full, trigger: 'http', event: '{}', hops: 0 },
            runAtMs: clock.now() + 60_000,
            nowMs: 0,
          }),
        ]),
      );
      await withEvents(
        async (events) => {
          await assert.rejects(
            events.push(message),
            ({ code, details }: CallerError) =>
              code === 'source_busy' && details.source === full && typeof details.limit === 'number',
          );
          assert.deepEqual(
            (await jobs()).map(({ lane }) => lane),
            [full],
          );
        },
        { waiting, hasRoom: false },
      );
    });

    test('a source with too much waiting holds up none of those behind it, and gets what was answered when it has room', async () => {
      const ids = (await listeners(260, ['message'])).toSorted();
      const full = ids[252] ?? '';
      const { store } = fixture;
      await store.transaction((tx) =>
        insertJobs(tx, [
          jobRow({
            id: 'before',
            kind: 'run_source',
            ownerId: 'u_1',
            lane: full,
            payload: { source_id: full, trigger: 'http', event: '{}', hops: 0 },
            runAtMs: clock.now() + 600_000,
            nowMs: 0,
          }),
        ]),
      );
      const waiting = new WaitingRuns({ store, clock, limits: { jobs: 1, bytes: 1e6 } });
      await withEvents(
        async (events, ran, pool) => {
          assert.equal(await events.push(message), 260);
          await waitFor(async () => ran.length >= 259, { what: 'the others' });
          assert.deepEqual(ran.map(([id]) => id).toSorted(), ids.toSpliced(252, 1));
          await store.transaction((tx) => tx.deleteFrom('jobs').where('id', '=', 'before').execute());
          clock.step(5_000);
          pool.poke();
          await waitFor(async () => ran.length >= 260, { what: 'the one' });
          assert.equal(ran.at(-1)?.[0], full);
          await waitFor(async () => (await jobs()).length === 0, { what: 'the last job to end' });
        },
        { waiting, hasRoom: false },
      );
    });

    test('a payload that is too large, or whose owner has used up a quota, is refused', async () => {
      await listeners(1, ['message']);
      await withEvents(async (events) => {
        const event = JSON.stringify('x'.repeat(100_000));
        await assert.rejects(events.push({ ...message, event }), {
          code: 'body_too_large',
          details: { parameter: 'payload' },
        });
      });
      const counted: number[] = [];
      const quotas = {
        check: () => {
          if (counted.length > 0) throw new CallerError('quota_exceeded', 'used up');
        },
        started: (_ownerId: string, runs: number) => void counted.push(runs),
      };
      await listeners(2, ['message']);
      await withEvents(
        async (events) => {
          assert.equal(await events.push(message), 3);
          assert.deepEqual(counted, [2], 'runs beyond the one that was checked');
          await assert.rejects(events.push(message), { code: 'quota_exceeded' });
        },
        { quotas },
      );
    });
  });
});
