import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layTriggerOver } from './trigger-input.ts';

const timer = (props: Record<string, unknown>) => ({ type: 'timer' as const, props });
const source = (props: Record<string, unknown>) => ({ type: 'source' as const, props });

test('a schedule laid over another kind of schedule takes its place', () => {
  const interval = timer({ interval_seconds: 900 });
  const cron = timer({ cron: '0 9 * * *', timezone: 'Asia/Tokyo' });
  assert.deepEqual(layTriggerOver(interval, { props: { cron: '0 8 * * *' } }), timer({ cron: '0 8 * * *' }));
  assert.deepEqual(
    layTriggerOver(cron, { props: { interval_seconds: 60 } }),
    timer({ interval_seconds: 60 }),
  );
  assert.deepEqual(
    layTriggerOver(cron, { props: { cron: '0 8 * * *' } }),
    timer({ cron: '0 8 * * *', timezone: 'Asia/Tokyo' }),
  );
  assert.deepEqual(
    layTriggerOver(cron, { props: { timezone: 'UTC' } }),
    timer({ cron: '0 9 * * *', timezone: 'UTC' }),
  );
  assert.deepEqual(layTriggerOver(cron, {}), cron);
});

test('props for a source that is created with a workflow are those of the source', () => {
  const base = source({ component: 'rss', configured_props: { url: 'a', mood: 'good' } });
  const laid = (props: Record<string, unknown>) => layTriggerOver(base, { props }).props;
  assert.deepEqual(laid({ url: 'b' }), { component: 'rss', configured_props: { url: 'b', mood: 'good' } });
  assert.deepEqual(laid({ configured_props: { url: 'b' }, name: 'Feed' }), {
    component: 'rss',
    name: 'Feed',
    configured_props: { url: 'b', mood: 'good' },
  });
  assert.deepEqual(laid({ source_id: 'dc_1' }), { source_id: 'dc_1' }, 'another source takes its place');
});
