import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, DataOf, IdParams, OneOf, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { runsOfTicks, shownTickRunStates } from '#http/tick-run-store.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { occurrencesFrom } from '#schedule/next-occurrence.ts';
import { readTicks, scheduleOf, type TickPlace, timersOf } from '#schedule/timer-store.ts';
import type { Db, Store } from '#storage/store.ts';
import { ledgerOutcomes, type TickTable, type TimerTable } from '#storage/tables/source-tables.ts';
import { emitterOf, sourceKind } from './emitter-routes.ts';

export interface SourceTimerRouteOptions {
  store: Store;
}

/** Timers of one source that are answered; each is a prop. */
const timersMax = 100;
/** Planned runs listed for each timer. */
const plannedMax = 5;

/** The fields of a row of the ledger, without the owner of the timer. */
export const tickFields = {
  planned_at: Type.Integer({ description: 'Epoch seconds' }),
  recorded_at: Type.Integer({ description: 'Epoch seconds' }),
  outcome: OneOf(ledgerOutcomes),
  late_by_ms: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Milliseconds from its time to when its run was queued, which then waits for its turn and for a process: see `run`; null: it did not run',
  }),
  reason: Type.Union([Type.String(), Type.Null()]),
  ticks: Type.Integer({ description: 'Planned ticks this entry stands for' }),
  run: Type.Union([
    Type.Object({
      id: Type.Union([Type.String(), Type.Null()], {
        description: 'Run of a workflow; null: a run of a source',
      }),
      state: OneOf(shownTickRunStates, {
        description:
          'lost: no end was recorded, and it is no longer queued; not_kept: the run, of a workflow, is no longer kept',
      }),
      error: Type.Union([Type.String(), Type.Null()], {
        description: 'Class and message of the error; of a queued run: of the attempt before',
      }),
      ended_at: Type.Union([Type.Integer(), Type.Null()], { description: 'Epoch seconds' }),
    }),
    Type.Null(),
  ]),
};

const Tick = Type.Object({ prop: Type.String({ description: 'The timer prop' }), ...tickFields });

const Timer = Type.Object({
  prop: Type.String({ description: 'The timer prop' }),
  interval_seconds: Type.Union([Type.Integer(), Type.Null()]),
  cron: Type.Union([Type.String(), Type.Null()]),
  timezone: Type.String({ description: 'IANA zone of cron' }),
  next_at: Type.Integer({ description: 'Epoch seconds of the next run; in the past: it is due' }),
  planned_at: Type.Array(Type.Integer(), {
    description: `The next ${plannedMax} runs, epoch seconds, the first is next_at; fewer where the schedule ends`,
  }),
  schedule_changed_at: Type.Integer({ description: 'Epoch seconds' }),
});

/** Additions: the timers of a source, and the outcome of each tick. */
export function sourceTimerRoutes(app: App, { store }: SourceTimerRouteOptions): void {
  app.get(
    '/sources/:id/ticks',
    {
      schema: {
        operationId: 'listSourceTicks',
        tags: ['sources', 'addition'],
        summary: 'Outcomes of the planned runs of a timer source, newest first',
        params: IdParams('dc_…'),
        querystring: PageQuery,
        response: { 200: PageOf(Tick) },
      },
    },
    async (request) => {
      const source = await emitterOf(store, sourceKind, request, 'read');
      return tickPage(request, store.read, source.id, (timerId) => ({
        prop: timerId.slice(timerId.indexOf(':') + 1),
      }));
    },
  );

  app.get(
    '/sources/:id/timers',
    {
      schema: {
        operationId: 'listSourceTimers',
        tags: ['sources', 'addition'],
        summary: 'The timers of a source and their next runs, the next first; an inactive source has none',
        params: IdParams('dc_…'),
        response: { 200: DataOf(Type.Array(Timer)) },
      },
    },
    async (request) => {
      const source = await emitterOf(store, sourceKind, request, 'read');
      const timers = await timersOf(store.read, source.id, timersMax);
      return { data: selectFields(request, timers.map(viewTimer)) };
    },
  );
}

function viewTimer(timer: TimerTable) {
  return {
    prop: timer.prop,
    interval_seconds: timer.interval_seconds,
    cron: timer.cron,
    timezone: timer.timezone,
    next_at: epochSeconds(timer.next_at_ms),
    planned_at: occurrencesFrom(scheduleOf(timer), timer.next_at_ms, plannedMax).map(epochSeconds),
    schedule_changed_at: epochSeconds(timer.schedule_changed_at_ms),
  };
}

/** A page of the ledger of a source or workflow, newest first; `whose` names the timer of an entry. */
export async function tickPage<Whose extends object>(
  request: FastifyRequest,
  db: Db,
  subjectId: string,
  whose: (timerId: string) => Whose,
) {
  const { limit, after, before } = pageRequest(request);
  const rows = await readTicks(db, subjectId, {
    limit,
    ...(after === undefined ? {} : { before: tickPlace(after, 'after') }),
    ...(before === undefined ? {} : { after: tickPlace(before, 'before') }),
  });
  const cursors = rows.map((row) => encodeCursor(`${row.planned_at_ms}:${row.timer_id}`));
  const runs = await runsOfTicks(db, rows);
  const ticks = rows.map((row, index) => ({
    ...whose(row.timer_id),
    ...viewTick(row),
    run: runs[index] ?? null,
  }));
  return pageResponse(selectFields(request, ticks), { cursorOf: (_tick, index) => cursors[index] ?? '' });
}

function viewTick({ planned_at_ms, recorded_at_ms, outcome, reason, ticks }: TickTable) {
  const hasRun = outcome === 'fired' || outcome === 'late';
  return {
    planned_at: epochSeconds(planned_at_ms),
    recorded_at: epochSeconds(recorded_at_ms),
    outcome,
    late_by_ms: hasRun ? Math.max(0, recorded_at_ms - planned_at_ms) : null,
    reason,
    ticks,
  };
}

/** What a cursor of this list says: several timers may have ticks of the same moment. */
function tickPlace(text: string, parameter: string): TickPlace {
  const [, plannedMs, timerId] = /^(\d{1,15}):(.+)$/s.exec(text) ?? [];
  if (plannedMs === undefined || timerId === undefined)
    throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
  return { plannedMs: Number(plannedMs), timerId };
}
