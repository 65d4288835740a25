import type { TriggerTable } from '#storage/tables/workflow-tables.ts';
import type { TriggerInput } from '#workflows/definitions/workflow-input.ts';
import type { MappedWorkflow } from './map-workflow.ts';
import { checkIt, type Finding } from './project.ts';

/** Triggers that a workflow has more of there. Those that are here stay. */
export function addedTriggers(present: readonly TriggerTable[], mapped: MappedWorkflow): TriggerInput[] {
  const ids = new Set(present.map(({ id }) => id));
  return [...Map.groupBy(triggerInputs(mapped), ({ type }) => type)].flatMap(([type, inputs]) =>
    type === 'source'
      ? inputs.filter(({ props }) => !ids.has(String(props?.source_id)))
      : inputs.slice(present.filter(({ kind }) => kind === type).length),
  );
}

/** Triggers that can be made from what the export has. */
export function triggerInputs({ triggers }: MappedWorkflow): TriggerInput[] {
  return triggers.flatMap(({ input }) => input ?? []);
}

/** Timers here stay as they are, so a schedule that is another one there is said. */
export function scheduleFindings(present: readonly TriggerTable[], { triggers }: MappedWorkflow): Finding[] {
  const timers = present.filter(({ kind }) => kind === 'timer');
  const wanted = triggers.filter(({ kind, input }) => kind === 'timer' && input !== undefined);
  return wanted.flatMap(({ oldId, input }, at) => {
    const timer = timers[at];
    if (timer === undefined) return [];
    const { cron, timezone, interval_seconds: seconds } = input?.props ?? {};
    const isSame =
      cron === undefined
        ? Number(timer.interval_seconds) === seconds
        : timer.cron === cron && timer.timezone === timezone;
    if (isSame) return [];
    const schedule =
      cron === undefined ? `every ${String(seconds)} s` : `${String(cron)} (${String(timezone)})`;
    return [
      checkIt(`its timer ${oldId} is due ${schedule} there, and at other times here: it stays as it is`),
    ];
  });
}
