import type { PropDefinition } from '#components/component-shape.ts';
import { type ConfiguredProps, propError } from '#components/validate-props.ts';
import { nextOccurrence } from '#schedule/next-occurrence.ts';
import type { SourceTable, TimerTable } from '#storage/tables/source-tables.ts';
import { timerSchedules } from './source-props.ts';

/** The timers of a source that becomes active now. Throws `invalid_prop` for a schedule that never fires. */
export function timerRows(
  source: SourceTable,
  definitions: readonly PropDefinition[],
  nowMs: number,
): TimerTable[] {
  const values = JSON.parse(source.configured_props) as ConfiguredProps;
  return timerSchedules(definitions, values).map(({ prop, schedule }) => {
    // An interval runs once right after activation; cron at its first occurrence.
    const firstMs = 'cron' in schedule ? nextOccurrence(schedule, nowMs, nowMs) : nowMs;
    if (firstMs === undefined) throw propError(prop, 'this schedule never fires');
    return {
      id: `${source.id}:${prop}`,
      subject_id: source.id,
      owner_id: source.owner_id,
      prop,
      interval_seconds: 'intervalSeconds' in schedule ? schedule.intervalSeconds : null,
      cron: 'cron' in schedule ? schedule.cron : null,
      timezone: 'cron' in schedule ? schedule.timezone : 'UTC',
      next_at_ms: firstMs,
      schedule_changed_at_ms: nowMs,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
  });
}
