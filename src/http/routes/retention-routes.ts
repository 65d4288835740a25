import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { notFound, requireWorkspace } from '#identity/permissions.ts';
import { findRetention, putRetention, type RetainedKind, retainedKinds } from '#identity/retention-store.ts';
import { lockWorkspace } from '#identity/workspace-store.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { ownerExists } from '#metering/quota-store.ts';
import type { Store } from '#storage/store.ts';

export interface RetentionRouteOptions {
  store: Store;
  clock: Clock;
  /** Days that the instance keeps each kind for; null: for any time, by number only. */
  instanceDays: Readonly<Record<RetainedKind, number | null>>;
}

const daysMax = 36_500;
const what: Record<RetainedKind, string> = {
  events: 'Events, from when they were emitted',
  runs: 'Runs with their steps, from when they ended',
  deliveries: 'Records of deliveries and their dead letters, from when they ended',
  audit: 'The audit of changes, accounts and variables',
  files: 'Files, from when they were last written',
};

const days = (kind: RetainedKind) =>
  Type.Union([Type.Integer(), Type.Null()], { description: `${what[kind]}; null: as the instance` });
const instanceDaysOf = Type.Union([Type.Integer(), Type.Null()]);

const RetentionShape = Type.Object({
  workspace_id: Type.String(),
  events_days: days('events'),
  runs_days: days('runs'),
  deliveries_days: days('deliveries'),
  audit_days: days('audit'),
  files_days: days('files'),
  legal_hold: Type.Boolean({ description: 'Nothing is removed because of its age or number' }),
  instance: Type.Object(
    {
      events_days: instanceDaysOf,
      runs_days: instanceDaysOf,
      deliveries_days: instanceDaysOf,
      audit_days: instanceDaysOf,
      files_days: instanceDaysOf,
    },
    { description: 'What the instance keeps; null: limited by number only' },
  ),
  updated_at: Type.Union([Type.Integer(), Type.Null()], { description: 'Epoch seconds; null: never set' }),
});

const changeableDays = (kind: RetainedKind) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 1, maximum: daysMax }), Type.Null()], {
      description: `Days. ${what[kind]}; null: as the instance`,
    }),
  );
const changes = {
  events_days: changeableDays('events'),
  runs_days: changeableDays('runs'),
  deliveries_days: changeableDays('deliveries'),
  audit_days: changeableDays('audit'),
  files_days: changeableDays('files'),
};

/** Additions: how long a workspace keeps what happened, for its admins, and legal holds, for the admin of the instance. */
export function retentionRoutes(app: App, { store, clock, instanceDays }: RetentionRouteOptions): void {
  const retentionShape = async (workspaceId: string): Promise<Static<typeof RetentionShape>> => {
    const row = await findRetention(store.read, workspaceId);
    return {
      workspace_id: workspaceId,
      events_days: row?.events_days ?? null,
      runs_days: row?.runs_days ?? null,
      deliveries_days: row?.deliveries_days ?? null,
      audit_days: row?.audit_days ?? null,
      files_days: row?.files_days ?? null,
      legal_hold: row?.legal_hold === 1,
      instance: {
        events_days: instanceDays.events,
        runs_days: instanceDays.runs,
        deliveries_days: instanceDays.deliveries,
        audit_days: instanceDays.audit,
        files_days: instanceDays.files,
      },
      updated_at: row === undefined ? null : epochSeconds(row.updated_at_ms),
    };
  };
  const mustExist = async (workspaceId: string): Promise<void> => {
    const isWorkspace = workspaceId.startsWith('o_') && (await ownerExists(store.read, workspaceId));
    if (!isWorkspace) throw notFound('workspace', workspaceId);
  };

  app.get(
    '/workspaces/:id/retention',
    {
      schema: {
        operationId: 'getWorkspaceRetention',
        summary: 'How long a workspace keeps events, runs, deliveries, audit and files',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(RetentionShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return { data: selectFields(request, await retentionShape(id)) };
    },
  );

  app.put(
    '/workspaces/:id/retention',
    {
      schema: {
        operationId: 'updateWorkspaceRetention',
        summary: 'Sets for how many days a workspace keeps what happened',
        description:
          'Days that are not named stay as they are. They may be fewer than those of the instance, never more: only the admin of the ' +
          'instance sets more, with PUT /v1/retention/{id}. What is older is removed within an hour.',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object(changes),
        response: { 200: DataOf(RetentionShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { body } = request;
      for (const kind of retainedKinds) {
        const asked = body[`${kind}_days`] ?? null;
        const most = instanceDays[kind];
        if (asked !== null && most !== null && asked > most)
          throw new CallerError(
            'invalid_parameter',
            `${kind}_days: found ${asked}, expected at most ${most}, which this instance keeps; its admin may set more`,
            { parameter: `${kind}_days` },
          );
      }
      await store.transaction(async (tx) => {
        await requireWorkspace(tx, callerOf(request), id, 'administer');
        await putRetention(tx, id, body, clock.now());
      });
      return { data: selectFields(request, await retentionShape(id)) };
    },
  );

  app.get(
    '/retention/:id',
    {
      config: { adminMay: 'see and set how long workspaces keep what happened' },
      schema: {
        operationId: 'getRetention',
        summary:
          'How long a workspace keeps what happened, and its legal hold; only for the admin of the instance',
        tags: ['quotas', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(RetentionShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await mustExist(id);
      return { data: selectFields(request, await retentionShape(id)) };
    },
  );

  app.put(
    '/retention/:id',
    {
      config: { adminMay: 'see and set how long workspaces keep what happened' },
      schema: {
        operationId: 'putRetention',
        summary: 'Sets days and legal hold of a workspace; only for the admin of the instance',
        description:
          'Days that are not named stay as they are, and may be more than those of the instance. While `legal_hold` is true, ' +
          'no event, run, delivery, file or record of the audit of the workspace is removed because of its age or number.',
        tags: ['quotas', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object({
          ...changes,
          legal_hold: Type.Optional(Type.Boolean({ description: 'Keep everything until it is lifted' })),
        }),
        response: { 200: DataOf(RetentionShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { legal_hold, ...ownDays } = request.body;
      const hold = legal_hold === undefined ? {} : ({ legal_hold: legal_hold ? 1 : 0 } as const);
      await store.transaction(async (tx) => {
        // A hold is set before the workspace is deleted, or refused after it.
        if ((await lockWorkspace(tx, store, id)) === undefined) throw notFound('workspace', id);
        await putRetention(tx, id, { ...ownDays, ...hold }, clock.now());
      });
      return { data: selectFields(request, await retentionShape(id)) };
    },
  );
}
