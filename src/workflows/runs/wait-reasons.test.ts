import assert from 'node:assert/strict';
import { test } from 'node:test';
import { must } from '#lib/assert.ts';
import { finished, RunFixture, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitReasonsOf } from './wait-reasons.ts';

const hour = 3_600_000;

forEachStore((stores) => {
  test('a run says what it waits for: a time, a link, or the next try with the error of the last one', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: ({ steps }) => {
          const { kind } = must(steps.trigger, 'the trigger').event as {
            kind: 'delay' | 'suspend' | 'rerun' | 'fail';
          };
          if (kind === 'fail') return threw('Error', `down ${'x'.repeat(400)}`);
          if (kind === 'rerun')
            return finished({}, { flow: { kind, ms: hour, context: '{}', maxRetries: 9 } });
          return finished({}, { flow: { kind, ms: hour } });
        },
      },
      settings: { autoRetry: true },
    });
    const reasonFor = async (kind: string) => {
      const run = await fixture.until(await fixture.start({ kind }), 'waiting');
      return (await waitReasonsOf(stores.store.read, [run])).get(run.id);
    };
    const time = /20\d\d-\d\d-\d\dT[\d:.]+Z/.source;
    assert.match((await reasonFor('delay')) ?? '', new RegExp(`^step a delays it until ${time}$`));
    assert.match(
      (await reasonFor('suspend')) ?? '',
      new RegExp(`resume or cancel URL, until ${time} at the latest$`),
    );
    assert.match((await reasonFor('rerun')) ?? '', new RegExp(`^step a runs again at ${time}, or when `));
    assert.match(
      (await reasonFor('fail')) ?? '',
      new RegExp(`^step a failed with "down x{295}…"; it is tried again at ${time}$`),
    );
  });

  test('a run that runs or has ended has no reason', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const run = await fixture.until(await fixture.start(), 'succeeded');
    assert.deepEqual([...(await waitReasonsOf(stores.store.read, [run]))], []);
  });
});
