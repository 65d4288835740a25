import { type Static, Type } from 'typebox';
import type { EventRates } from '#events/event-rates.ts';
import { type HealthKind, type HealthState, healthKinds, healthStates } from '#health/health.ts';
import { countHealth, troubledObjects } from '#health/health-store.ts';
import { type App, callerOf, DataOf, IdParams, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { requireWorkspace } from '#identity/permissions.ts';
import {
  countDeadLetters,
  countedMax,
  namedMax,
  namesOf,
  quarantinedRuns,
  type Trouble,
  type Waiting,
  waitingDeliveries,
  waitingJobs,
} from '#insights/overview-store.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { Health } from './health-shapes.ts';

const failingNamed = 10;
/** Maximum of objects of each kind that are named as needing attention. */
const troubledNamed = 10;

const nullableTime = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });

const WaitingShape = Type.Object({
  count: Type.Integer(),
  oldest_at: nullableTime('Epoch seconds; null: nothing waits'),
});

const troubleFields = {
  id: Type.String(),
  name: Type.Union([Type.String(), Type.Null()]),
  reason: Type.Union([Type.String(), Type.Null()]),
  since: nullableTime('Epoch seconds'),
};
const Troubles = (description: string) => Type.Array(Type.Object(troubleFields), { description });

const kinds = { source: 'sources', workflow: 'workflows', webhook: 'webhooks', account: 'accounts' } as const;

const HealthCounts = Type.Object(
  Object.fromEntries(healthStates.map((state) => [state, Type.Integer()])) as Record<
    (typeof healthStates)[number],
    ReturnType<typeof Type.Integer>
  >,
);

const Overview = Type.Object({
  owner_id: Type.String({ description: 'u_… or o_…' }),
  health: Type.Object(
    {
      sources: HealthCounts,
      workflows: HealthCounts,
      webhooks: HealthCounts,
      accounts: HealthCounts,
    },
    { description: 'How many objects of each kind are in each state of health' },
  ),
  attention: Type.Array(
    Type.Object({
      kind: OneOf(healthKinds),
      id: Type.String(),
      name: Type.String(),
      health: Health,
    }),
    {
      description:
        'What fails, was disabled by the service, waits, or is paused with deliveries held: up to 10 of each kind, what fails first',
    },
  ),
  rates: Type.Object(
    {
      since: Type.Integer({
        description:
          'Epoch seconds: when this process, which answers, began to count; nothing before is known',
      }),
      minutes: Type.Array(
        Type.Object({
          at: Type.Integer({ description: 'Epoch seconds: the beginning of the minute' }),
          events: Type.Integer({ description: 'Events on channels for data' }),
          errors: Type.Integer({ description: 'Events on $errors' }),
        }),
        { description: 'The last 60 minutes, oldest first; the last is the one that runs' },
      ),
    },
    { description: 'What this process stored; with several nodes, each describes itself' },
  ),
  failing: Type.Array(
    Type.Object({
      id: Type.String({ description: 'dc_… or p_…' }),
      name: Type.String(),
      errors: Type.Integer(),
      last_at: Type.Integer({ description: 'Epoch seconds' }),
    }),
    { description: 'Sources and workflows with errors within the last hour, the latest first; 10 at most' },
  ),
  jobs_waiting: Type.Intersect([WaitingShape], {
    description: 'Runs of sources and workflows that are due and have not begun',
  }),
  deliveries_waiting: Type.Intersect([WaitingShape], {
    description: 'Deliveries that have not been taken yet, those between two attempts included',
  }),
  dead_letters: Type.Integer({
    description: `Dead letters (…/dead_letters lists them); ${countedMax} means at least so many`,
  }),
  unhealthy_accounts: Troubles('Up to 5, the latest first'),
  disabled_webhooks: Troubles('Up to 5 that the service disabled, the latest first'),
  quarantined_runs: Type.Array(
    Type.Object({ ...troubleFields, workflow_id: Type.String({ description: 'p_…' }) }),
    { description: 'Up to 5 runs that took their process down again and again, the latest first' },
  ),
});

export interface OverviewRouteOptions {
  store: Store;
  clock: Clock;
  eventRates: Pick<EventRates, 'sinceMs' | 'minutes' | 'failing'>;
}

/** Additions: what an operator needs to see first. */
export function overviewRoutes(app: App, { store, clock, eventRates }: OverviewRouteOptions): void {
  app.get(
    '/users/me/overview',
    {
      schema: {
        operationId: 'getMyOverview',
        summary: 'How your own objects are doing: rates, what waits, and what needs attention',
        tags: ['users', 'addition'],
        response: { 200: DataOf(Overview) },
      },
    },
    async (request) => ({ data: selectFields(request, await overviewOf(callerOf(request).userId)) }),
  );

  app.get(
    '/workspaces/:id/overview',
    {
      schema: {
        operationId: 'getWorkspaceOverview',
        summary: 'How the objects of a workspace are doing: rates, what waits, and what needs attention',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(Overview) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return { data: selectFields(request, await overviewOf(id)) };
    },
  );

  async function healthOfAll(ownerId: string) {
    const nowMs = clock.now();
    const looked = await Promise.all(
      healthKinds.map(async (kind) => {
        const counts = await countHealth(store.read, kind, ownerId, nowMs);
        const all = Object.fromEntries(healthStates.map((state) => [state, counts[state] ?? 0]));
        const troubled = await troubledObjects(store.read, kind, { ownerId, nowMs, limit: troubledNamed });
        return { kind, counts: all, attention: troubled.map((one) => ({ kind, ...one })) };
      }),
    );
    const isUrgent = ({ health }: { health: { state: HealthState } }) =>
      health.state === 'failing' || health.state === 'disabled';
    const attention = looked.flatMap((one) => one.attention);
    return {
      health: Object.fromEntries(looked.map(({ kind, counts }) => [kinds[kind], counts])) as Static<
        typeof Overview
      >['health'],
      attention: [...attention.filter(isUrgent), ...attention.filter((one) => !isUrgent(one))],
    };
  }

  async function overviewOf(ownerId: string): Promise<Static<typeof Overview>> {
    const { read } = store;
    const failing = eventRates.failing(ownerId);
    const { health, attention } = await healthOfAll(ownerId);
    const [names, jobs, deliveries, deadLetters, runs] = await Promise.all([
      namesOf(
        read,
        failing.map(({ emitterId }) => emitterId),
      ),
      waitingJobs(read, ownerId, clock.now()),
      waitingDeliveries(read, ownerId),
      countDeadLetters(read, ownerId),
      quarantinedRuns(read, ownerId),
    ]);
    const named = (kind: HealthKind, state: HealthState) =>
      attention
        .filter((one) => one.kind === kind && one.health.state === state)
        .slice(0, namedMax)
        .map(({ id, name, health: { reason, since } }) => ({ id, name, reason, since }));
    return {
      owner_id: ownerId,
      health,
      attention,
      rates: {
        since: epochSeconds(eventRates.sinceMs),
        minutes: eventRates
          .minutes(ownerId)
          .map(({ atMs, events, errors }) => ({ at: epochSeconds(atMs), events, errors })),
      },
      failing: failing
        .flatMap(({ emitterId, errors, lastAtMs }) => {
          const name = names.get(emitterId);
          return name === undefined ? [] : [{ id: emitterId, name, errors, last_at: epochSeconds(lastAtMs) }];
        })
        .slice(0, failingNamed),
      jobs_waiting: waitingShape(jobs),
      deliveries_waiting: waitingShape(deliveries),
      dead_letters: deadLetters,
      unhealthy_accounts: named('account', 'failing'),
      disabled_webhooks: named('webhook', 'disabled'),
      quarantined_runs: runs.map((run) => ({ ...troubleShape(run), workflow_id: run.workflowId })),
    };
  }
}

function waitingShape({ count, oldestAtMs }: Waiting): Static<typeof WaitingShape> {
  return { count, oldest_at: oldestAtMs === null ? null : epochSeconds(oldestAtMs) };
}

function troubleShape({ id, name, reason, sinceMs }: Trouble) {
  return { id, name, reason, since: sinceMs === null ? null : epochSeconds(sinceMs) };
}
