import type { Health } from '#health/health.ts';
import { healthOf, troubledObjects } from '#health/health-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { inParts, type Recent, recentDeliveries, recentEvents, recentRuns } from './flow-recent-store.ts';
import {
  busiestSources,
  type DeadLetters,
  deadLettersBySubscription,
  type FlowSubscription,
  type FlowThing,
  type FlowTotals,
  type FlowTrigger,
  flowThings,
  flowTotals,
  flowTriggers,
  lastEmitted,
  newestIds,
  newestSubscriptions,
  subscriptionsAt,
  subscriptionsByIds,
  subscriptionsFrom,
  unhealthyAccountsByUser,
} from './flow-store.ts';

/** Maximum of nodes in an answer. */
export const flowNodesMax = 400;
export const flowEdgesMax = 800;
/** Maximum of edges of the focused object: the rest is for its surroundings. */
const focusedEdgesMax = 300;
/** Workflows and webhooks without an edge that have a place before sources without one. */
const loneMax = 150;
/** Objects of each kind that need attention and come first. */
const troubledMax = 100;
/** Failures and rates are of the newest rows within this time. */
const failuresOverMs = 3_600_000;
const minuteMs = 60_000;
/** Rows looked at of each thing: all of them together stay below this, and of few things there is more to see. */
const rowsLookedMax = 20_000;
const rowsOfOneMax = 100;
const rowsOfOneMin = 20;

export interface FlowFigures {
  /** Within the last minute; where more came than is looked at, as many as that would be at this pace. */
  perMinute: number;
  /** Within the last hour, of the newest. */
  failed: number;
  lastMs: number | null;
}

/** `all`: all of a kind of an owner, or all that an owner has. */
export const flowNodeKinds = ['source', 'workflow', 'webhook', 'all'] as const;
export type FlowNodeKind = (typeof flowNodeKinds)[number];

export interface FlowNode {
  id: string;
  kind: FlowNodeKind;
  /** Null: all of a kind, or an object of another owner. */
  thing: FlowThing | null;
  /** Null: where `thing` is. */
  health: Health | null;
  /** Emitted on the channel for data; `failed`: on $errors. */
  emitted: FlowFigures | null;
  /** The runs of a workflow; null for other objects. */
  runs: FlowFigures | null;
  triggers: {
    id: string;
    kind: FlowTrigger['kind'];
    intervalSeconds: number | null;
    cron: string | null;
    figures: FlowFigures;
  }[];
  unhealthyAccounts: number;
  deadLetters: number;
}

export interface FlowEdge {
  subscription: FlowSubscription;
  /** Null: the listener belongs to another owner, and so do its figures. */
  figures: FlowFigures | null;
  deadLetters: number;
  /** Deliveries along it failed, and the listener is failing or disabled still. */
  isFailing: boolean;
}

export interface FlowMap {
  ownerId: string;
  atMs: number;
  totals: FlowTotals;
  nodes: FlowNode[];
  edges: FlowEdge[];
}

export interface FlowMapOptions {
  store: Pick<Store, 'hasLateralJoins' | 'read'>;
  clock: Clock;
}

/**
 * The objects of an owner, the subscriptions between them, and their traffic: within bounds, chosen in this order: what is around
 * `focus`, what fails, what had traffic last, the newest. All of it is read from the store, a bounded number of rows each.
 */
export async function readFlowMap(
  { store, clock }: FlowMapOptions,
  ownerId: string,
  focus?: string,
): Promise<FlowMap> {
  const { read } = store;
  const atMs = clock.now();
  const [totals, dead, unhealthy, troubled] = await Promise.all([
    flowTotals(read, ownerId),
    deadLettersBySubscription(read, ownerId),
    unhealthyAccountsByUser(read, ownerId, atMs),
    troubledIds(read, ownerId, atMs),
  ]);
  const { subscriptions, ids } = await chosen(read, ownerId, { focus, dead, unhealthy, troubled });
  const rowsMax = Math.max(
    rowsOfOneMin,
    Math.min(rowsOfOneMax, Math.floor(rowsLookedMax / (ids.length + 1))),
  );
  const options = { sinceMs: atMs - failuresOverMs, minuteMs: atMs - minuteMs, rowsMax };
  const things = new Map((await flowThings(read, ownerId, ids)).map((thing) => [thing.id, thing]));
  const own = [...things.keys()];
  const workflows = own.filter((id) => id.startsWith('p_'));
  const emitters = own.filter((id) => !id.startsWith('wh_'));
  const listeners = [...new Set(subscriptions.map(({ listener_id }) => listener_id))];
  const [health, triggers, last, delivered, runs, events, errors] = await Promise.all([
    healthOfThings(read, own, atMs),
    flowTriggers(read, workflows),
    lastEmitted(read, emitters),
    recentDeliveries(
      store,
      listeners.filter((id) => things.has(id)),
      options,
    ),
    recentRuns(store, workflows, options),
    recentEvents(store, emitters, '', options),
    recentEvents(store, emitters, '$errors', options),
  ]);
  const figuresOf = (rows: readonly Recent[]) => summedUp(rows, { rowsMax, atMs });
  const byDelivery = figuresOf(delivered);
  const byRun = figuresOf(runs);
  const byEvent = figuresOf(events);
  const failures = new Map(errors.map(({ id, looked }) => [id, looked]));
  const deadOf = counted(dead);
  const triggersOf = Map.groupBy(triggers, ({ workflow_id }) => workflow_id);
  return {
    ownerId,
    atMs,
    totals,
    nodes: ids.flatMap((id): FlowNode[] => {
      const thing = things.get(id) ?? null;
      const kind = kindOf(id);
      // Only the emitter or listener of a subscription may belong to another owner, or be all of a kind.
      if (thing === null && !subscriptions.some((one) => isAt(one, id))) return [];
      const isEmitter = thing !== null && kind !== 'webhook';
      return [
        {
          id,
          kind,
          thing,
          health: health.get(id) ?? null,
          emitted: isEmitter
            ? {
                perMinute: byEvent.total(id).perMinute,
                failed: failures.get(id) ?? 0,
                lastMs: last.get(id) ?? null,
              }
            : null,
          runs: isEmitter && kind === 'workflow' ? byRun.total(id) : null,
          triggers: (triggersOf.get(id) ?? []).map((trigger) => ({
            id: trigger.id,
            kind: trigger.kind,
            intervalSeconds: trigger.interval_seconds,
            cron: trigger.cron,
            figures: byRun.part(id, trigger.id),
          })),
          unhealthyAccounts: unhealthy.get(id) ?? 0,
          deadLetters: deadOf.get(id) ?? 0,
        },
      ];
    }),
    edges: subscriptions.map((subscription) => {
      const { id, listener_id, listener_owner_id } = subscription;
      const figures = listener_owner_id === ownerId ? byDelivery.part(listener_id, id) : null;
      const deadLetters = deadOf.get(id) ?? 0;
      const hasFailures = (figures?.failed ?? 0) + deadLetters > 0;
      return {
        subscription,
        figures,
        deadLetters,
        isFailing: hasFailures && isDown(health.get(listener_id)),
      };
    }),
  };
}

const kinds = { source: 'dc_', workflow: 'p_', webhook: 'wh_' } as const;
const kindNames = ['source', 'workflow', 'webhook'] as const satisfies readonly FlowNodeKind[];

function isDown(health: Health | undefined): boolean {
  return health?.state === 'failing' || health?.state === 'disabled';
}

async function healthOfThings(
  db: Store['read'],
  ids: readonly string[],
  nowMs: number,
): Promise<Map<string, Health>> {
  const found = await Promise.all(
    kindNames.map((kind) =>
      inParts(
        ids.filter((id) => id.startsWith(kinds[kind])),
        async (part) => [...(await healthOf(db, kind, part, nowMs))],
      ),
    ),
  );
  return new Map(found.flat());
}

/** What needs attention, that which fails first. */
async function troubledIds(db: Store['read'], ownerId: string, nowMs: number): Promise<string[]> {
  const found = await Promise.all(
    kindNames.map((kind) => troubledObjects(db, kind, { ownerId, nowMs, limit: troubledMax })),
  );
  const all = found.flat();
  return [...all.filter(({ health }) => isDown(health)), ...all.filter(({ health }) => !isDown(health))].map(
    ({ id }) => id,
  );
}

function isAt({ emitter_id, listener_id }: FlowSubscription, id: string): boolean {
  return emitter_id === id || listener_id === id;
}

function kindOf(id: string): FlowNode['kind'] {
  if (id.startsWith('wh_')) return 'webhook';
  if (/^[ou]_/.test(id) || id.endsWith('_*')) return 'all';
  return id.startsWith('p_') ? 'workflow' : 'source';
}

/** Which subscriptions are shown, and which things: the ends of those, then others. */
async function chosen(
  db: Store['read'],
  ownerId: string,
  {
    focus,
    dead,
    unhealthy,
    troubled,
  }: {
    focus: string | undefined;
    dead: DeadLetters[];
    unhealthy: Map<string, number>;
    troubled: readonly string[];
  },
): Promise<{ subscriptions: FlowSubscription[]; ids: string[] }> {
  const failing = dead.flatMap(({ subscription_id }) => subscription_id ?? []).slice(0, flowEdgesMax);
  const [focused, broken, newest, sources, workflows, webhooks] = await Promise.all([
    focus === undefined ? [] : subscriptionsAt(db, ownerId, focus, focusedEdgesMax),
    subscriptionsByIds(db, ownerId, failing),
    newestSubscriptions(db, ownerId, flowEdgesMax),
    busiestSources(db, ownerId, flowNodesMax),
    newestIds(db, 'workflows', ownerId, flowNodesMax),
    newestIds(db, 'webhooks', ownerId, flowNodesMax),
  ]);
  const emitting = ['dc_*', 'p_*', ownerId, ...workflows.slice(0, loneMax), ...sources];
  const busy = await subscriptionsFrom(db, ownerId, emitting, flowEdgesMax);
  const ids = new Set<string>([...(focus === undefined ? [] : [focus]), ...troubled]);
  const subscriptions = new Map<string, FlowSubscription>();
  for (const one of [...focused, ...broken, ...busy, ...newest]) {
    if (subscriptions.size >= flowEdgesMax) break;
    const ends = [one.emitter_id, one.listener_id].filter((id) => !ids.has(id));
    if (ids.size + ends.length > flowNodesMax) continue;
    for (const id of ends) ids.add(id);
    subscriptions.set(one.id, one);
  }
  // Records of a listener without a subscription are failures too: what ended, or was sent by a replay.
  const failed = [...dead.map(({ listener_id }) => listener_id), ...unhealthy.keys()];
  const lone = [...workflows.slice(0, loneMax), ...webhooks.slice(0, loneMax)];
  for (const id of [...failed, ...lone, ...sources, ...workflows, ...webhooks]) {
    if (ids.size >= flowNodesMax) break;
    ids.add(id);
  }
  // What came in for another reason may be subscribed to by something that is shown.
  const emitters = [...ids].filter((id) => !id.startsWith('wh_') && !sources.includes(id));
  for (const one of await subscriptionsFrom(db, ownerId, emitters, flowEdgesMax)) {
    if (subscriptions.size >= flowEdgesMax) break;
    if (ids.has(one.listener_id)) subscriptions.set(one.id, one);
  }
  return { subscriptions: [...subscriptions.values()], ids: [...ids] };
}

function counted(dead: readonly DeadLetters[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { listener_id, subscription_id, count } of dead)
    for (const id of [listener_id, subscription_id])
      if (id !== null) counts.set(id, (counts.get(id) ?? 0) + count);
  return counts;
}

/** Figures of things and of their parts. */
function summedUp(rows: readonly Recent[], { rowsMax, atMs }: { rowsMax: number; atMs: number }) {
  const byThing = Map.groupBy(rows, ({ id }) => id);
  const figures = (some: readonly Recent[], all: readonly Recent[]): FlowFigures => {
    const sum = (of: (row: Recent) => number, list: readonly Recent[]) =>
      list.reduce((total, row) => total + of(row), 0);
    const looked = sum((row) => row.looked, all);
    const firstMs = Math.min(...all.map((row) => row.firstMs));
    // When all that was looked at came within the minute, there may have been more: then only this much time was looked at.
    const overMs = looked < rowsMax ? minuteMs : Math.min(minuteMs, Math.max(1_000, atMs - firstMs));
    return {
      perMinute: Math.round((sum((row) => row.lastMinute, some) * minuteMs) / overMs),
      failed: sum((row) => row.failed, some),
      lastMs: some.length === 0 ? null : Math.max(...some.map((row) => row.lastMs)),
    };
  };
  return {
    total: (id: string) => figures(byThing.get(id) ?? [], byThing.get(id) ?? []),
    part: (id: string, part: string) => {
      const all = byThing.get(id) ?? [];
      return figures(
        all.filter((row) => row.part === part),
        all,
      );
    },
  };
}
