import { Type } from 'typebox';
import { readable } from '#auth/permissions.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, IdParams, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { readTicks, type TickPlace } from '#schedule/timer-store.ts';
import type { Store } from '#storage/store.ts';
import { findWorkflow } from '#workflows/workflow-store.ts';

export interface WorkflowTickDeps {
  store: Store;
}

const WorkflowTick = Type.Object({
  trigger_id: Type.String({ description: 'The timer trigger, ti_…' }),
  planned_at: Type.Integer({ description: 'Epoch seconds' }),
  recorded_at: Type.Integer({ description: 'Epoch seconds' }),
  outcome: Type.String({ description: 'fired | late | skipped | missed' }),
  reason: Type.Union([Type.String(), Type.Null()]),
  ticks: Type.Integer({ description: 'Planned ticks this entry stands for' }),
});

/** As the ledger of a source, for the timer triggers of a workflow. */
export function workflowTickRoutes(app: App, { store }: WorkflowTickDeps): void {
  app.get(
    '/workflows/:id/ticks',
    {
      schema: {
        operationId: 'listWorkflowTicks',
        tags: ['workflows', 'addition'],
        summary: 'What became of each planned run of the timer triggers of a workflow, newest first',
        params: IdParams('p_…'),
        querystring: PageQuery,
        response: { 200: PageOf(WorkflowTick) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const found = await findWorkflow(store.read, id);
      const workflow = await readable(store.read, callerOf(request), found, { what: 'workflow', id });
      const { limit, after, before } = pageRequest(request);
      const rows = await readTicks(store.read, workflow.id, {
        limit,
        ...(after === undefined ? {} : { before: tickPlace(after, 'after') }),
        ...(before === undefined ? {} : { after: tickPlace(before, 'before') }),
      });
      const cursors = rows.map((row) => encodeCursor(`${row.planned_at_ms}:${row.timer_id}`));
      const ticks = rows.map((row) => ({
        trigger_id: row.timer_id,
        planned_at: epochSeconds(row.planned_at_ms),
        recorded_at: epochSeconds(row.recorded_at_ms),
        outcome: row.outcome,
        reason: row.reason,
        ticks: row.ticks,
      }));
      return pageResponse(selectFields(request, ticks), {
        cursorOf: (_tick, index) => cursors[index] ?? '',
      });
    },
  );
}

/** What a cursor of this list says: several timers may have ticks of the same moment. */
function tickPlace(text: string, parameter: string): TickPlace {
  const [, plannedMs, timerId] = /^(\d{1,15}):(.+)$/s.exec(text) ?? [];
  if (plannedMs === undefined || timerId === undefined)
    throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
  return { plannedMs: Number(plannedMs), timerId };
}
