import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deleteEventsHandler } from '#events/delete-events.ts';
import { claimJobs } from '#jobs/job-store.ts';
import { DeployerFixture, failed, me } from '../../test/support/deployer-fixture.ts';
import { forEachStore } from '../../test/support/stores.ts';

forEachStore((fixture) => {
  test('a hook that no process was free for is answered with 503 overloaded, and nothing is changed', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component();
    const reference = { component_id: component.id };
    parts.answer = () => failed('cancelled', 'no process became free for the call');
    await assert.rejects(deployer.create(reference, me), { name: 'UnavailableError', code: 'overloaded' });
    const changing = await parts.component({ hasAdditionalProps: true });
    await assert.rejects(deployer.create({ component_id: changing.id }, me), { code: 'overloaded' });
    assert.deepEqual(await fixture.store.read.selectFrom('sources').select('id').execute(), []);
    parts.answer = () => failed('threw', 'no');
    await assert.rejects(deployer.create(reference, me), { name: 'CallerError', code: 'hook_failed' });
  });

  test('what a removed source emitted goes with it, the rest of very much by a job that survives a crash', async () => {
    const { store } = fixture;
    using parts = new DeployerFixture(store);
    const component = await parts.component();
    const { source } = await parts.deployer.create({ component_id: component.id }, me);
    const events = Array.from({ length: 2300 }, () => ({ channel: 'default', event: '1' }));
    await parts.runs.emitOutside(source, events);
    await parts.deployer.remove(source.id, { ignoreHookErrors: false });
    const left = async () => (await store.read.selectFrom('events').select('seq').execute()).length;
    assert.equal(await left(), 1300, 'the first batch goes with the source');
    // The process died here; another one claims what is queued.
    const options = { node: 'node_2', kinds: ['delete_events'] as const, limit: 10, laneMax: 1 };
    const jobs = await claimJobs(store, { ...options, runningByLane: new Map(), nowMs: Date.now() });
    assert.deepEqual(
      jobs.map((job) => job.payload),
      [{ emitter_id: source.id }],
    );
    for (const job of jobs)
      await deleteEventsHandler({ store, node: 'node_2' }).run(job, new AbortController().signal);
    assert.equal(await left(), 0);
    assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), []);
  });
});
