import type { JobPayloads } from '#jobs/job-kinds.ts';
import { epochSeconds } from '#lib/clock.ts';
import { tickJobId } from '#schedule/source-ticks.ts';
import type { Db } from '#storage/store.ts';
import type { JobState } from '#storage/tables/job-tables.ts';
import type { TickRunState, TickTable } from '#storage/tables/source-tables.ts';
import { runStates } from '#storage/tables/workflow-tables.ts';
import { runFailure } from '#workflows/runs/run-failure.ts';

/** `lost`: no end of it was recorded, and it is no longer queued. `not_kept`: a run of a workflow that is no longer kept. */
export const shownTickRunStates = [...runStates, 'lost', 'not_kept'] as const;
export type ShownTickRunState = (typeof shownTickRunStates)[number];

/** The run of a tick, as the API answers it. */
export interface TickRun {
  /** The id of a workflow's run; runs of sources have none. */
  id: string | null;
  state: ShownTickRunState;
  error: string | null;
  /** Epoch seconds. */
  ended_at: number | null;
}

type StartedTick = Pick<TickTable, 'timer_id' | 'planned_at_ms'> &
  Pick<TickTable, 'run_id' | 'run_state' | 'run_error' | 'run_ended_at_ms'>;

/** The runs of ticks, in their order; null: the tick has none, or is older than what is recorded. */
export async function runsOfTicks(db: Db, ticks: readonly StartedTick[]): Promise<(TickRun | null)[]> {
  const runs = await workflowRuns(
    db,
    ticks.flatMap(({ run_id }) => (run_id === null ? [] : [run_id])),
  );
  const open = ticks.filter(({ run_id, run_state }) => run_id === null && run_state === 'started');
  const jobs = await tickJobs(db, [...new Set(open.map(({ timer_id }) => timer_id))]);
  return ticks.map((tick) => {
    if (tick.run_state === null) return null;
    if (tick.run_id !== null) return runs.get(tick.run_id) ?? unended(tick.run_id, 'not_kept', null);
    if (tick.run_state !== 'started') return endedRun(tick.run_state, tick);
    // All ticks of a timer have the same job id: it is the job of this one only if it was planned for the same time.
    const job = jobs.get(tick.timer_id);
    if (job?.plannedMs !== tick.planned_at_ms)
      return unended(null, 'lost', 'no end of this run was recorded, and it is no longer queued');
    return unended(null, job.state, job.error);
  });
}

function unended(id: string | null, state: ShownTickRunState, error: string | null): TickRun {
  return { id, state, error, ended_at: null };
}

function endedRun(
  state: Exclude<TickRunState, 'started'>,
  { run_error, run_ended_at_ms }: StartedTick,
): TickRun {
  const endedAt = run_ended_at_ms === null ? null : epochSeconds(run_ended_at_ms);
  return { id: null, state, error: run_error, ended_at: endedAt };
}

async function workflowRuns(db: Db, ids: readonly string[]): Promise<Map<string, TickRun>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('runs')
    .select(['id', 'state', 'error', 'ended_at_ms'])
    .where('id', 'in', [...ids])
    .execute();
  return new Map(
    rows.map(({ id, state, error, ended_at_ms }) => [
      id,
      {
        ...{ id, state, error: runFailure({ state, error }) ?? null },
        ended_at: ended_at_ms === null ? null : epochSeconds(ended_at_ms),
      },
    ]),
  );
}

interface TickJob {
  state: JobState;
  /** The error of the attempt before. */
  error: string | null;
  plannedMs: number | undefined;
}

/** Jobs of timers of sources, by timer. */
async function tickJobs(db: Db, timerIds: readonly string[]): Promise<Map<string, TickJob>> {
  if (timerIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('jobs')
    .select(['id', 'state', 'error', 'payload'])
    .where(
      'id',
      'in',
      timerIds.map((id) => tickJobId(id)),
    )
    .execute();
  return new Map(
    rows.map(({ id, state, error, payload }) => {
      const { tick } = JSON.parse(payload) as JobPayloads['run_source'];
      return [id.slice(tickJobId('').length), { state, error, plannedMs: tick?.planned_ms }];
    }),
  );
}
