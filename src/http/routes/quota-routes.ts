import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { notFound, requireWorkspace } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { findOwnerQuota, ownerExists, putOwnerQuota } from '#metering/quota-store.ts';
import { effectiveQuotas } from '#metering/quotas.ts';
import { usageByDay, usageToday } from '#metering/usage-store.ts';
import type { Store } from '#storage/store.ts';

export interface QuotaRouteOptions {
  store: Store;
  clock: Clock;
  quotas: QuotaGuard;
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
  enforced: Type.Boolean({ description: 'Whether what goes beyond is refused' }),
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
    },
    { description: 'What was set for this owner' },
  ),
  used: Type.Object(
    { credits: Type.Integer(), compute_ms: Type.Integer(), invocations: Type.Integer() },
    { description: 'On this UTC day' },
  ),
  plan: Type.String({ description: 'free | paid' }),
  billing_period_start_ts: nullableInteger(
    'Epoch seconds: where the first period began; null on the free plan',
  ),
});

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

const UsageDayShape = Type.Object({
  day: Type.String({ description: 'YYYY-MM-DD, UTC' }),
  credits: Type.Integer(),
  compute_ms: Type.Integer(),
  invocations: Type.Integer(),
});

/** Additions: quotas of owners, for the admin of the instance, and usage by day. */
export function quotaRoutes(app: App, { store, clock, quotas }: QuotaRouteOptions): void {
  const ownerFor = async (request: FastifyRequest): Promise<string> => {
    const { id } = request.params as { id: string };
    if (!(await ownerExists(store.read, id))) throw notFound('user or workspace', id);
    return id;
  };

  const quotaShape = async (ownerId: string): Promise<Static<typeof QuotaShape>> => {
    const [own, used] = await Promise.all([
      findOwnerQuota(store.read, ownerId),
      usageToday(store.read, ownerId, clock.now()),
    ]);
    const effective = effectiveQuotas(quotas.defaults, own);
    const startMs = own?.billing_period_start_ms ?? null;
    return {
      owner_id: ownerId,
      credits: effective.credits,
      compute_ms: effective.computeMs,
      invocations: effective.invocations,
      enforced: effective.enforced,
      own: {
        credits: own?.credits ?? null,
        compute_ms: own?.compute_ms ?? null,
        invocations: own?.invocations ?? null,
        enforced: own === undefined || own.enforced === null ? null : own.enforced === 1,
        processes_max: own?.processes_max ?? null,
        memory_mb_max: own?.memory_mb_max ?? null,
      },
      used: { credits: used.credits, compute_ms: used.computeMs, invocations: used.invocations },
      plan: startMs === null ? 'free' : 'paid',
      billing_period_start_ts: startMs === null ? null : epochSeconds(startMs),
    };
  };

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
      if (plan === 'paid' && !ownerId.startsWith('u_')) {
        throw new CallerError('invalid_parameter', 'plan: only users are on a plan', { parameter: 'plan' });
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
            ...(plan !== undefined && { billing_period_start_ms: startMs }),
          },
          nowMs,
        );
      });
      quotas.forget(ownerId);
      return { data: selectFields(request, await quotaShape(ownerId)) };
    },
  );

  const usageOfOwner = async (request: FastifyRequest, ownerId: string) => {
    const toMs = clock.now();
    const days = await usageByDay(store.read, ownerId, { fromMs: toMs - (usageDays - 1) * dayMs, toMs });
    const rows = days.map(({ day, credits, computeMs, invocations }) => ({
      day,
      credits,
      compute_ms: computeMs,
      invocations,
    }));
    return { data: selectFields(request, rows) };
  };

  app.get(
    '/users/me/usage',
    {
      schema: {
        operationId: 'getMyUsage',
        summary: 'What your own objects used on each of the last 30 UTC days, oldest first',
        tags: ['users', 'addition'],
        response: { 200: DataOf(Type.Array(UsageDayShape)) },
      },
    },
    (request) => usageOfOwner(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/usage',
    {
      schema: {
        operationId: 'getWorkspaceUsage',
        summary: 'What the objects of a workspace used on each of the last 30 UTC days, oldest first',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(Type.Array(UsageDayShape)) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return usageOfOwner(request, id);
    },
  );
}
