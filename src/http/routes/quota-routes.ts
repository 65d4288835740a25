import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { ComponentBuilder } from '#components/build-component.ts';
import { type App, callerOf, DataOf, IdParams, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { notFound, requireWorkspace } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { countOwned, mbBytes, storedBytesOf } from '#metering/owner-size-store.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { findOwnerQuota, ownerExists, putOwnerQuota } from '#metering/quota-store.ts';
import { effectiveQuotas } from '#metering/quotas.ts';
import { type ShareRecords, shareResources } from '#metering/share-records.ts';
import { usageByDay, usageToday } from '#metering/usage-store.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-streams.ts';

export interface QuotaRouteOptions {
  store: Store;
  clock: Clock;
  quotas: QuotaGuard;
  streams: Pick<LiveStreams, 'openOf'>;
  builder: Pick<ComponentBuilder, 'buildsOf'>;
  shares: Pick<ShareRecords, 'of'>;
}

/** Days of usage in an answer, today included. */
const usageDays = 30;
const dayMs = 86_400_000;

const nullableInteger = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });

const QuotaShape = Type.Object({
  owner_id: Type.String({ description: 'u_… or o_…' }),
  credits: Type.Integer({ description: 'A day may use' }),
  compute_ms: Type.Integer({ description: 'A day may use' }),
  invocations: Type.Integer({ description: 'A day may use' }),
  enforced: Type.Boolean({ description: 'Whether what goes beyond the quotas above is refused' }),
  sources: Type.Integer({ description: 'Sources it may have; 0: no limit, as for those below' }),
  workflows: Type.Integer({ description: 'Active workflows it may have' }),
  events: Type.Integer({ description: 'Events a UTC day may emit, log lines and errors apart' }),
  deliveries: Type.Integer({ description: 'Attempts to deliver to its listeners on a UTC day' }),
  stored_mb: Type.Integer({ description: 'MB of events, runs and files it may store' }),
  streams: Type.Integer({ description: 'Live streams that may be open of what it has, on each node' }),
  builds: Type.Integer({ description: 'Builds that may be under way or wait, on each node' }),
  workspaces: Type.Integer({ description: 'Workspaces that a user may create' }),
  own: Type.Object(
    {
      credits: nullableInteger('null: as the setting says, as for the others'),
      compute_ms: nullableInteger(''),
      invocations: nullableInteger(''),
      enforced: Type.Union([Type.Boolean(), Type.Null()]),
      processes_max: nullableInteger(
        'Processes of user code with work, on each node. null: the share of an owner',
      ),
      memory_mb_max: nullableInteger(
        'Memory of its processes together, on each node. null: the share of an owner',
      ),
      sources: nullableInteger(''),
      workflows: nullableInteger(''),
      events: nullableInteger(''),
      deliveries: nullableInteger(''),
      stored_mb: nullableInteger(''),
      streams: nullableInteger(''),
      builds: nullableInteger(''),
      workspaces: nullableInteger(''),
    },
    { description: 'What was set for this owner' },
  ),
  used: Type.Object(
    {
      credits: Type.Integer(),
      compute_ms: Type.Integer(),
      invocations: Type.Integer(),
      events: Type.Integer(),
      deliveries: Type.Integer(),
      sources: Type.Integer({ description: 'Now, as for those below' }),
      workflows: Type.Integer({ description: 'Active ones' }),
      stored_mb: Type.Integer({ description: 'Rounded up' }),
      streams: Type.Integer({ description: 'On the node that answers, as for the one below' }),
      builds: Type.Integer(),
      workspaces: Type.Integer({ description: 'Created by the user, and not deleted' }),
    },
    { description: 'On this UTC day' },
  ),
  plan: Type.String({ description: 'free | paid' }),
  billing_period_start_ts: nullableInteger(
    'Epoch seconds: where the first period began; null on the free plan',
  ),
});

/** As bodies name them; the column of each is `<name>_max`. */
const limitNames = [
  'sources',
  'workflows',
  'events',
  'deliveries',
  'stored_mb',
  'streams',
  'builds',
  'workspaces',
] as const;

const changeableQuota = (description: string) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
      description,
    }),
  );

/** Not so little that no code could run. */
const changeableLimit = (description: string, minimum: number) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum, maximum: 1_000_000 }), Type.Null()], {
      description: `${description}, where that is less than the share of an owner`,
    }),
  );

/** In the order of the columns of a CSV export. */
const UsageDayShape = Type.Object({
  day: Type.String({ description: 'YYYY-MM-DD, UTC' }),
  credits: Type.Integer(),
  compute_ms: Type.Integer(),
  invocations: Type.Integer(),
  events: Type.Integer({ description: 'Emitted by sources and workflows, log lines and errors apart' }),
  deliveries: Type.Integer({ description: 'Attempts to deliver to listeners' }),
});
const usageColumns = Object.keys(UsageDayShape.properties) as (keyof Static<typeof UsageDayShape>)[];

const ShareCountShape = Type.Object({
  resource: OneOf(shareResources, {
    description:
      'runs: places for runs; builds: components and packages; actions: actions and tests of steps; writes: what waits for the store; transfers: bytes of calls, streams and mails, and requests to webhooks',
  }),
  delayed: Type.Integer({
    description: 'How often something waited, on the node that answers, since its start',
  }),
  refused: Type.Integer({ description: 'How often something was refused' }),
  last_at: Type.Integer({ description: 'Epoch seconds of the last time' }),
  reason: Type.Union([Type.String(), Type.Null()], { description: 'Why it was refused the last time' }),
});

const UsageQuery = Type.Object({
  format: Type.Optional(
    Type.Enum(['json', 'csv'], {
      description: 'csv: as text/csv, with a line of names, as with `Accept: text/csv`',
    }),
  ),
});

/** Additions: quotas of owners, for the admin of the instance, and usage by day. */
export function quotaRoutes(app: App, options: QuotaRouteOptions): void {
  const support = quotaSupport(options);
  ownerQuotaRoutes(app, support);
  shareRoutes(app, support);
  usageRoutes(app, support);
}

type QuotaSupport = ReturnType<typeof quotaSupport>;

/** What the handlers of these routes share. */
function quotaSupport({ store, clock, quotas, streams, builder, shares }: QuotaRouteOptions) {
  const ownerFor = async (request: FastifyRequest): Promise<string> => {
    const { id } = request.params as { id: string };
    if (!(await ownerExists(store.read, id))) throw notFound('user or workspace', id);
    return id;
  };
  const quotaShape = async (ownerId: string): Promise<Static<typeof QuotaShape>> => {
    const [own, used, sources, workflows, workspaces, storedBytes] = await Promise.all([
      findOwnerQuota(store.read, ownerId),
      usageToday(store.read, ownerId, clock.now()),
      countOwned(store.read, 'sources', ownerId),
      countOwned(store.read, 'workflows', ownerId),
      countOwned(store.read, 'workspaces', ownerId),
      storedBytesOf(store.read, ownerId),
    ]);
    const effective = effectiveQuotas(quotas.defaults, own);
    const startMs = own?.billing_period_start_ms ?? null;
    return {
      owner_id: ownerId,
      credits: effective.credits,
      compute_ms: effective.computeMs,
      invocations: effective.invocations,
      enforced: effective.enforced,
      sources: effective.limits.sources,
      workflows: effective.limits.workflows,
      events: effective.limits.events,
      deliveries: effective.limits.deliveries,
      stored_mb: effective.limits.storedMb,
      streams: effective.limits.streams,
      builds: effective.limits.builds,
      workspaces: effective.limits.workspaces,
      own: {
        credits: own?.credits ?? null,
        compute_ms: own?.compute_ms ?? null,
        invocations: own?.invocations ?? null,
        enforced: own === undefined || own.enforced === null ? null : own.enforced === 1,
        processes_max: own?.processes_max ?? null,
        memory_mb_max: own?.memory_mb_max ?? null,
        sources: own?.sources_max ?? null,
        workflows: own?.workflows_max ?? null,
        events: own?.events_max ?? null,
        deliveries: own?.deliveries_max ?? null,
        stored_mb: own?.stored_mb_max ?? null,
        streams: own?.streams_max ?? null,
        builds: own?.builds_max ?? null,
        workspaces: own?.workspaces_max ?? null,
      },
      used: {
        credits: used.credits,
        compute_ms: used.computeMs,
        invocations: used.invocations,
        events: used.events,
        deliveries: used.deliveries,
        ...{
          sources,
          workflows,
          stored_mb: Math.ceil(storedBytes / mbBytes),
          streams: streams.openOf(ownerId),
          builds: builder.buildsOf(ownerId),
          workspaces,
        },
      },
      plan: startMs === null ? 'free' : 'paid',
      billing_period_start_ts: startMs === null ? null : epochSeconds(startMs),
    };
  };
  const usageOfOwner = async (
    request: FastifyRequest<{ Querystring: Static<typeof UsageQuery> }>,
    reply: FastifyReply,
    ownerId: string,
  ) => {
    const toMs = clock.now();
    const days = await usageByDay(store.read, ownerId, { fromMs: toMs - (usageDays - 1) * dayMs, toMs });
    const rows = days.map(({ day, credits, computeMs, invocations, events, deliveries }) => ({
      ...{ day, credits, compute_ms: computeMs },
      ...{ invocations, events, deliveries },
    }));
    if (wantsCsv(request)) {
      const lines = rows.map((row) => usageColumns.map((column) => row[column]).join(','));
      const text = [usageColumns.join(','), ...lines, ''].join('\r\n');
      return reply.type('text/csv; charset=utf-8; header=present').send(text as never);
    }
    return { data: selectFields(request, rows) };
  };
  const sharesOfOwner = (request: FastifyRequest, ownerId: string) => ({
    data: selectFields(
      request,
      [...shares.of(ownerId)].map(([resource, { delayed, refused, atMs, reason = null }]) => ({
        ...{ resource, delayed, refused, last_at: epochSeconds(atMs), reason },
      })),
    ),
  });

  return { store, clock, quotas, ownerFor, quotaShape, usageOfOwner, sharesOfOwner };
}

function ownerQuotaRoutes(app: App, { store, clock, quotas, ownerFor, quotaShape }: QuotaSupport): void {
  app.get(
    '/quotas/:id',
    {
      config: { adminMay: 'see and set quotas' },
      schema: {
        operationId: 'getQuota',
        summary: 'Quotas of a user or workspace; only for the admin of the instance',
        tags: ['quotas', 'addition'],
        params: IdParams('u_… or o_…'),
        response: { 200: DataOf(QuotaShape) },
      },
    },
    async (request) => ({ data: selectFields(request, await quotaShape(await ownerFor(request))) }),
  );

  app.put(
    '/quotas/:id',
    {
      config: { adminMay: 'see and set quotas' },
      schema: {
        operationId: 'putQuota',
        summary: 'Sets quotas and plan of a user or workspace; only for the admin of the instance',
        description: 'What is not named stays as it is; null means as the settings say.',
        tags: ['quotas', 'addition'],
        params: IdParams('u_… or o_…'),
        body: Type.Object({
          credits: changeableQuota('Credits a UTC day may use'),
          compute_ms: changeableQuota('Milliseconds of run time a UTC day may use'),
          invocations: changeableQuota('Invocations a UTC day may use'),
          enforced: Type.Optional(
            Type.Union([Type.Boolean(), Type.Null()], { description: 'Whether what goes beyond is refused' }),
          ),
          processes_max: changeableLimit('Processes of user code with work, on each node', 1),
          memory_mb_max: changeableLimit('Memory of the processes of user code together, on each node', 64),
          sources: changeableQuota('Sources it may have; 0: no limit, as for those below'),
          workflows: changeableQuota('Active workflows it may have'),
          events: changeableQuota('Events a UTC day may emit, log lines and errors apart'),
          deliveries: changeableQuota('Attempts to deliver to its listeners on a UTC day'),
          stored_mb: changeableQuota('MB of events, runs and files it may store'),
          streams: changeableQuota('Live streams that may be open of what it has, on each node'),
          builds: changeableQuota('Builds that may be under way or wait, on each node'),
          workspaces: changeableQuota('Workspaces that a user may create; only for users'),
          plan: Type.Optional(
            Type.Enum(['free', 'paid'], {
              description:
                'paid: /users/me describes billing periods of a month, of which the first begins today',
            }),
          ),
        }),
        response: { 200: DataOf(QuotaShape) },
      },
    },
    async (request) => {
      const ownerId = await ownerFor(request);
      const { credits, compute_ms, invocations, enforced, processes_max, memory_mb_max, plan } = request.body;
      const limits = Object.fromEntries(
        limitNames.flatMap((name) => {
          const limit = request.body[name];
          return limit === undefined ? [] : [[`${name}_max`, limit]];
        }),
      );
      if (plan === 'paid' && !ownerId.startsWith('u_')) {
        throw new CallerError('invalid_parameter', 'plan: only users are on a plan', { parameter: 'plan' });
      }
      if (typeof request.body.workspaces === 'number' && !ownerId.startsWith('u_')) {
        throw new CallerError('invalid_parameter', 'workspaces: only users create workspaces', {
          parameter: 'workspaces',
        });
      }
      const nowMs = clock.now();
      await store.transaction(async (tx) => {
        const before = (await findOwnerQuota(tx, ownerId))?.billing_period_start_ms ?? null;
        // A user who is on the plan already stays in the current period. Usage is counted by day.
        const startMs = plan === 'free' ? null : (before ?? Math.floor(nowMs / dayMs) * dayMs);
        await putOwnerQuota(
          tx,
          ownerId,
          {
            ...(credits !== undefined && { credits }),
            ...(compute_ms !== undefined && { compute_ms }),
            ...(invocations !== undefined && { invocations }),
            ...(enforced !== undefined && { enforced: enforced === null ? null : Number(enforced) }),
            ...(processes_max !== undefined && { processes_max }),
            ...(memory_mb_max !== undefined && { memory_mb_max }),
            ...limits,
            ...(plan !== undefined && { billing_period_start_ms: startMs }),
          },
          nowMs,
        );
      });
      quotas.forget(ownerId);
      return { data: selectFields(request, await quotaShape(ownerId)) };
    },
  );
}

function shareRoutes(app: App, { store, sharesOfOwner }: QuotaSupport): void {
  app.get(
    '/users/me/shares',
    {
      schema: {
        operationId: 'getMyShares',
        summary: 'What waited or was refused because your own objects had their share of a node',
        tags: ['users', 'addition'],
        response: { 200: DataOf(Type.Array(ShareCountShape)) },
      },
    },
    (request) => sharesOfOwner(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/shares',
    {
      schema: {
        operationId: 'getWorkspaceShares',
        summary: 'What waited or was refused because the objects of a workspace had their share of a node',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(Type.Array(ShareCountShape)) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return sharesOfOwner(request, id);
    },
  );
}

function usageRoutes(app: App, { store, usageOfOwner }: QuotaSupport): void {
  app.get(
    '/users/me/usage',
    {
      schema: {
        operationId: 'getMyUsage',
        summary: 'What your own objects used on each of the last 30 UTC days, oldest first',
        tags: ['users', 'addition'],
        querystring: UsageQuery,
        response: { 200: DataOf(Type.Array(UsageDayShape)) },
      },
    },
    (request, reply) => usageOfOwner(request, reply, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/usage',
    {
      schema: {
        operationId: 'getWorkspaceUsage',
        summary: 'What the objects of a workspace used on each of the last 30 UTC days, oldest first',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        querystring: UsageQuery,
        response: { 200: DataOf(Type.Array(UsageDayShape)) },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return usageOfOwner(request, reply, id);
    },
  );
}

/** `format` says it; without it the header `Accept` does, where it names CSV and not JSON. */
function wantsCsv({ query, headers }: FastifyRequest<{ Querystring: Static<typeof UsageQuery> }>): boolean {
  const { accept = '' } = headers;
  if (query.format !== undefined) return query.format === 'csv';
  return accept.includes('text/csv') && !accept.includes('application/json');
}
