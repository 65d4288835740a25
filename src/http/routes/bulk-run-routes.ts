import { Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { writable } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { RunState } from '#storage/tables/workflow-tables.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import {
  type BulkOperation,
  type BulkRuns,
  bulkMax,
  bulkOperations,
  bulkStates,
} from '#workflows/runs/bulk-runs.ts';
import { isPlaceAmongRuns } from '#workflows/runs/repeated-run-store.ts';
import { sinceDescription, timesOf, untilDescription } from './run-times.ts';

const bulkSummaries = {
  cancel: 'End runs of a workflow that are queued, running or waiting',
  replay: 'Run the current deployment again with the events of failed runs of a workflow',
  restart: 'Restart failed runs of a workflow, each from the step at which it ended',
} as const satisfies Record<BulkOperation, string>;

const BulkAnswer = Type.Object({
  done: Type.Integer({ description: 'Runs that were cancelled, or run again' }),
  failed: Type.Integer({ description: 'Runs for which that was not possible' }),
  failures: Type.Array(
    Type.Object({ run_id: Type.String(), message: Type.String({ description: 'Why not' }) }),
    { description: 'The first of them' },
  ),
  remaining: Type.Integer({ description: 'Runs that match and were not reached' }),
  last: Type.Union([Type.String(), Type.Null()], {
    description: 'The last run that was reached: `after` of the next request',
  }),
  until: Type.String({
    description: 'ISO 8601: only runs made before were taken; `until` of the next request',
  }),
});

export interface BulkRunRouteOptions {
  store: Store;
  clock: Clock;
  bulkRuns: BulkRuns;
}

/** One operation on many runs of a workflow. All additions. */
export function bulkRunRoutes(app: App, { store, clock, bulkRuns }: BulkRunRouteOptions): void {
  for (const operation of bulkOperations)
    app.post(
      `/workflows/:id/runs/${operation}`,
      {
        schema: {
          operationId: `${operation}Runs`,
          tags: ['runs', 'addition'],
          summary: bulkSummaries[operation],
          description:
            `At most ${bulkMax} runs, oldest first. While \`remaining\` is above 0, repeat the request with \`after\` set to \`last\` and the \`until\` of the answer. ${operation === 'cancel' ? '' : 'A run that was replayed or restarted already is not taken again.'}`.trim(),
          params: IdParams('p_…'),
          body: Type.Object({
            state: Type.Optional(
              OneOf<RunState[]>([...bulkStates[operation].possible], {
                description: `Only runs in this state; default: ${bulkStates[operation].usual.join(', ')}`,
              }),
            ),
            since: Type.Optional(
              Type.Union([Type.Integer(), Type.String()], { description: sinceDescription }),
            ),
            until: Type.Optional(
              Type.Union([Type.Integer(), Type.String()], {
                description: `${untilDescription}; default: before this request`,
              }),
            ),
            after: Type.Optional(Type.String({ description: 'Only runs that were made after this one' })),
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: bulkMax, default: bulkMax })),
          }),
          response: { 200: DataOf(BulkAnswer) },
        },
      },
      async (request) => {
        const { id } = request.params;
        await writable(store.read, callerOf(request), await findWorkflow(store.read, id), {
          what: 'workflow',
          id,
        });
        const { state, since, until, after, limit = bulkMax } = request.body;
        if (after !== undefined && !(await isPlaceAmongRuns(store.read, id, after)))
          throw new CallerError('invalid_parameter', 'after: expected a run of this workflow', {
            parameter: 'after',
          });
        // Without an end, runs that a request makes would match the next one, without end. They may be made in this millisecond; a
        // cancellation makes none, and takes those of this millisecond too.
        const untilMs = clock.now() + (operation === 'cancel' ? 1 : 0);
        const times = { untilMs, ...timesOf(since, until) };
        const { done, failed, failures, remaining, lastId } = await bulkRuns.apply(operation, {
          workflowId: id,
          states: state === undefined ? bulkStates[operation].usual : [state],
          ...times,
          ...(after === undefined ? {} : { afterId: after }),
          limit,
        });
        const named = failures.map(({ runId, message }) => ({ run_id: runId, message }));
        const view = {
          done,
          failed,
          failures: named,
          remaining,
          last: lastId ?? null,
          until: new Date(times.untilMs).toISOString(),
        };
        return { data: selectFields(request, view) };
      },
    );
}
