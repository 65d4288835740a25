import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

forEachStore((stores) => {
  for (const state of ['failed', 'cancelled'] as const)
    test(`what finished steps asked to be sent is ${state === 'failed' ? '' : 'not '}sent when their run ends as ${state} from outside`, async () => {
      let isGone = false;
      await using fixture = await RunFixture.start(stores.store, {
        steps: {
          a: finished(
            {},
            {
              sends: [
                { kind: 'http', payload: '{}' },
                { kind: 'emit', payload: '{"event":"emitted"}' },
              ],
              flow: { kind: 'delay', ms: 60_000 },
            },
          ),
          b: finished(),
        },
        deployments: {
          get: async () => {
            if (isGone) throw new CallerError('not_found', 'the account is gone');
            return fixture.deployment;
          },
        },
      });
      const runId = await fixture.start();
      const run = await fixture.until(runId, 'waiting');
      await waitFor(() => fixture.pool.runningCount() === 0);
      isGone = true;
      if (state === 'failed') fixture.pass(60_000);
      else await fixture.service.manager.cancel(run, 'by a person');
      await fixture.until(runId, state);
      const sends = await stores.store.read
        .selectFrom('run_sends')
        .select(['kind', 'state'])
        .orderBy('kind', 'desc')
        .execute();
      const jobs = await waitFor(async () => {
        const rows = await stores.store.read.selectFrom('jobs').select(['id', 'kind']).execute();
        return rows.every(({ kind }) => kind === 'send_from_run') && rows;
      });
      const events = await stores.store.read
        .selectFrom('events')
        .select('event')
        .where('channel', '=', '')
        .execute();
      if (state === 'failed') {
        assert.deepEqual(
          sends.map((send) => `${send.kind} ${send.state}`),
          ['http queued', 'emit sent'],
        );
        assert.deepEqual(
          jobs.map(({ id }) => id),
          [`${runId}:1`],
        );
        assert.deepEqual(events, [{ event: '"emitted"' }]);
      } else {
        assert.deepEqual(
          sends.map((send) => `${send.kind} ${send.state}`),
          ['http failed', 'emit failed'],
        );
        assert.deepEqual([jobs, events], [[], []]);
      }
    });
});
