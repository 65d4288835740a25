import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, OneOf, OneOfOrNull } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { requireWorkspace } from '#identity/permissions.ts';
import {
  type FlowFigures,
  type FlowMap,
  type FlowNode,
  flowEdgesMax,
  flowNodeKinds,
  flowNodesMax,
  readFlowMap,
} from '#insights/flow-map.ts';
import { flowStates, ownTriggerKinds } from '#insights/flow-store.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { Health } from './health-shapes.ts';

/** All requests for the map of one owner within this time get the same answer. */
const keptMs = 1_500;
/** Answers that are kept. */
const answersMax = 100;

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(type: T, description?: string) =>
  Type.Union([type, Type.Null()], description === undefined ? {} : { description });

const figureFields = {
  per_minute: Type.Integer({
    description:
      'Within the last minute; where very many came, as many as that would be at the pace of the newest',
  }),
  failed: Type.Integer({ description: 'The number of failures among the newest within the last hour' }),
  last_at: nullable(Type.Integer(), 'Epoch seconds; null: nothing that is kept'),
};
const Figures = Type.Object(figureFields);

const FlowNodeShape = Type.Object({
  id: Type.String({
    description: 'dc_…, p_… or wh_…; dc_*, p_*, o_… or u_… for all emitters of a kind or an owner',
  }),
  kind: OneOf(flowNodeKinds),
  name: nullable(Type.String(), 'Null: all of a kind, or something of another owner'),
  state: OneOfOrNull(flowStates, { description: 'Null where the name is' }),
  health: nullable(Health, 'Null where the name is'),
  project_id: nullable(Type.String(), 'The project of a workflow'),
  emitted: nullable(Figures, 'Events on the default channel; failed: on $errors'),
  runs: nullable(Figures, 'The runs of a workflow'),
  triggers: Type.Array(
    Type.Object({
      id: Type.String({ description: 'hi_…, ti_… or ei_…' }),
      kind: OneOf(ownTriggerKinds),
      interval_seconds: nullable(Type.Integer()),
      cron: nullable(Type.String()),
      ...figureFields,
    }),
    { description: 'What starts runs of a workflow apart from subscriptions' },
  ),
  unhealthy_accounts: Type.Integer({ description: 'The number of unhealthy accounts that it uses' }),
  dead_letters: Type.Integer({
    description: 'Dead letters to it, among the newest 1,000 records of the owner',
  }),
});

const FlowEdgeShape = Type.Object({
  id: Type.String({ description: 'sub_…' }),
  emitter_id: Type.String(),
  listener_id: Type.String(),
  event_name: Type.String({ description: 'The channel; empty for the default one' }),
  deliveries: nullable(
    Figures,
    'Failed: dead letters and deliveries to be tried again. Null: the listener belongs to another owner',
  ),
  dead_letters: Type.Integer({ description: 'Dead letters among the newest 1,000 records of the owner' }),
  failing: Type.Boolean({
    description: 'Deliveries failed, and the health of the listener is still failing or disabled',
  }),
});

const Flow = Type.Object({
  owner_id: Type.String({ description: 'u_… or o_…' }),
  at_ms: Type.Integer({ description: 'Epoch milliseconds: when these figures were read' }),
  totals: Type.Object(
    {
      sources: Type.Integer(),
      workflows: Type.Integer(),
      webhooks: Type.Integer(),
      subscriptions: Type.Integer(),
    },
    { description: 'How many there are, shown or not' },
  ),
  truncated: Type.Boolean({ description: 'There is more than the nodes and edges of this answer' }),
  nodes: Type.Array(FlowNodeShape, { description: `At most ${flowNodesMax}` }),
  edges: Type.Array(FlowEdgeShape, { description: `Subscriptions; at most ${flowEdgesMax}` }),
});

const querystring = Type.Object({
  focus: Type.Optional(
    Type.String({
      maxLength: 100,
      description: 'dc_…, p_… or wh_…: it and its subscriptions are part of the answer before anything else',
    }),
  ),
});

const description =
  `Bounded: ${flowNodesMax} nodes and ${flowEdgesMax} edges. What fails and what had traffic last comes first, the newest next. ` +
  'Read from the store, the same on every node; may be up to 2 seconds old.';

export interface FlowRouteOptions {
  store: Store;
  clock: Clock;
}

/** Additions: emitters and their listeners, and how many events flow between them. */
export function flowRoutes(app: App, { store, clock }: FlowRouteOptions): void {
  const answers = new Map<string, { atMs: number; flow: Promise<Static<typeof Flow>> }>();

  app.get(
    '/users/me/flow',
    {
      schema: {
        operationId: 'getMyFlow',
        summary: 'Your sources, workflows and webhooks, what listens to what, and the rates between them',
        description,
        tags: ['users', 'addition'],
        querystring,
        response: { 200: DataOf(Flow) },
      },
    },
    async (request) => ({
      data: selectFields(request, await flowOf(callerOf(request).userId, request.query.focus)),
    }),
  );

  app.get(
    '/workspaces/:id/flow',
    {
      schema: {
        operationId: 'getWorkspaceFlow',
        summary:
          'Sources, workflows and webhooks of a workspace, what listens to what, and the rates between them',
        description,
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        querystring,
        response: { 200: DataOf(Flow) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return { data: selectFields(request, await flowOf(id, request.query.focus)) };
    },
  );

  /** Read once for all who ask at about the same time: pages do again and again. */
  function flowOf(ownerId: string, focus: string | undefined): Promise<Static<typeof Flow>> {
    const key = JSON.stringify([ownerId, focus]);
    const nowMs = performance.now();
    const known = answers.get(key);
    if (known !== undefined && nowMs - known.atMs < keptMs) return known.flow;
    const flow = readFlowMap({ store, clock }, ownerId, focus).then(viewFlow);
    answers.delete(key);
    answers.set(key, { atMs: nowMs, flow });
    flow.catch(() => answers.delete(key));
    // The oldest first.
    for (const [old, { atMs }] of answers) {
      if (nowMs - atMs < keptMs && answers.size <= answersMax) break;
      answers.delete(old);
    }
    return flow;
  }
}

function viewFlow({ ownerId, atMs, totals, nodes, edges }: FlowMap): Static<typeof Flow> {
  const own = nodes.filter(({ thing }) => thing !== null).length;
  return {
    owner_id: ownerId,
    at_ms: atMs,
    totals,
    truncated:
      own < totals.sources + totals.workflows + totals.webhooks || edges.length < totals.subscriptions,
    nodes: nodes.map(viewNode),
    edges: edges.map(({ subscription, figures, deadLetters, isFailing }) => ({
      id: subscription.id,
      emitter_id: subscription.emitter_id,
      listener_id: subscription.listener_id,
      event_name: subscription.event_name,
      deliveries: figures === null ? null : viewFigures(figures),
      dead_letters: deadLetters,
      failing: isFailing,
    })),
  };
}

function viewNode(node: FlowNode): Static<typeof FlowNodeShape> {
  const { thing, health, emitted, runs } = node;
  return {
    id: node.id,
    kind: node.kind,
    name: thing?.name ?? null,
    state: thing?.state ?? null,
    health,
    project_id: thing?.project_id ?? null,
    emitted: emitted === null ? null : viewFigures(emitted),
    runs: runs === null ? null : viewFigures(runs),
    triggers: node.triggers.map(({ id, kind, intervalSeconds, cron, figures }) => ({
      id,
      kind,
      interval_seconds: intervalSeconds,
      cron,
      ...viewFigures(figures),
    })),
    unhealthy_accounts: node.unhealthyAccounts,
    dead_letters: node.deadLetters,
  };
}

function viewFigures({ perMinute, failed, lastMs }: FlowFigures): Static<typeof Figures> {
  return { per_minute: perMinute, failed, last_at: lastMs === null ? null : epochSeconds(lastMs) };
}
