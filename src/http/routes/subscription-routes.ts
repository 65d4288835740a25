import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ReplayQueue } from '#delivery/replay/queue-replay.ts';
import { viewReplays } from '#delivery/replay/replay-events.ts';
import {
  isAtAnEnd,
  type SubscriptionRequest,
  subscribe,
  subscribeFrom,
  subscribeToNew,
  unsubscribe,
  unsubscribeById,
  unsubscribeFromNew,
} from '#delivery/subscriptions/manage-subscriptions.ts';
import {
  autoSubscriptionsOf,
  findSubscription,
  subscriptionsOf,
} from '#delivery/subscriptions/subscription-store.ts';
import {
  type App,
  callerOf,
  commonParameters,
  DataOf,
  IdParams,
  NoContent,
  namedWorkspace,
  parameterOf,
  requireNamedWorkspace,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, notFound, ownersOf, requireWorkspace } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { AutoSubscriptionTable, SubscriptionTable } from '#storage/tables/delivery-tables.ts';
import { Replay } from './replay-routes.ts';

/** Specification, section 2, Subscription. */
const subscriptionFields = {
  id: Type.String({ description: 'sub_…' }),
  emitter_id: Type.String(),
  listener_id: Type.String(),
  event_name: Type.String({ description: 'The channel; empty for the default one' }),
  user_id: Type.String({ description: 'The user who made it' }),
  emitter_owner_id: Type.String({ description: 'The owner of the emitters' }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
};
const Subscription = Type.Object(subscriptionFields, { additionalProperties: true });
const NewSubscription = Type.Object(
  {
    ...subscriptionFields,
    replay_id: Type.Optional(Type.String({ description: 'rpl_…, with from_event_id' })),
    replay: Type.Optional(Replay),
  },
  { additionalProperties: true },
);

const AutoSubscription = Type.Object(
  {
    id: Type.String({ description: 'asub_…' }),
    event_name: Type.String(),
    listener_id: Type.String(),
    owner_id: Type.String({ description: 'The owner of the new sources and workflows' }),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);

const emitterId = Type.String({
  description:
    'The emitters: dc_…, p_…, all of a kind (dc_* or p_*), or everything of an owner (o_… or u_…). dc_* and p_* are those ' +
    'of the owner of the listener, or of the workspace that org_id names; later ones too',
});
const listenerId = Type.String({ description: 'wh_…, dc_… or p_…' });
const eventName = Type.String({
  maxLength: 1000,
  description: 'Channel: a custom one, $errors or $logs; absent or empty for the default one',
});
const channelOfErrors = Type.Optional(Type.String({ description: 'Required: $errors or $logs' }));
/** Given in the query or in the body: so none of them is required in either, and all are in both. */
const parameters = {
  emitter_id: Type.Optional(emitterId),
  listener_id: Type.Optional(listenerId),
  event_name: Type.Optional(eventName),
};

const inEither =
  'emitter_id and listener_id are required; parameters stand in the query or in the body, the query wins.';
const ofTheListener =
  'Those of the owner of the listener, or of the workspace that org_id names. event_name and listener_id are required, in ' +
  'the query or in the body. For what exists already there is POST /v1/subscriptions.';

const fromEventId = Type.Optional(
  Type.String({
    description:
      'Send what is kept from this event on too, when the emitter is one source or workflow: no event is missed in between',
  }),
);

export interface SubscriptionRouteOptions {
  store: Store;
  clock: Clock;
  delivery: { replays: ReplayQueue };
  /** A job was queued. */
  onJobs: () => void;
}

/** Specification, section 4, Subscriptions. */
export function subscriptionRoutes(app: App, options: SubscriptionRouteOptions): void {
  const support = subscriptionSupport(options);
  subscriptionByEndsRoutes(app, support);
  subscriptionByIdRoutes(app, support);
  autoSubscriptionRoutes(app, support);
}

type SubscriptionSupport = ReturnType<typeof subscriptionSupport>;

/** What the handlers of these routes share. */
function subscriptionSupport(options: SubscriptionRouteOptions) {
  const { store } = options;
  const listOf = async (request: FastifyRequest, ownerId: string) => {
    const rows = await subscriptionsOf(store.read, ownerId);
    return { data: selectFields(request, rows.map(viewSubscription)) };
  };

  return { listOf, store, options };
}

function subscriptionByEndsRoutes(app: App, { store, options }: SubscriptionSupport): void {
  app.post(
    '/subscriptions',
    {
      schema: {
        operationId: 'createSubscription',
        tags: ['subscriptions'],
        summary:
          'Route events of an emitter to a listener; the same subscription again answers the existing one',
        description: inEither,
        querystring: Type.Object({ ...parameters, from_event_id: fromEventId }),
        body: Type.Object({ ...parameters, from_event_id: fromEventId }),
        response: { 200: DataOf(NewSubscription) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      await requireNamedWorkspace(store.read, request);
      const fromId = text(request, 'from_event_id');
      if (fromId === undefined) {
        const row = await subscribe(options, caller, requested(request));
        return { data: selectFields(request, viewSubscription(row)) };
      }
      const { subscription, replay } = await subscribeFrom(
        { ...options, replays: options.delivery.replays },
        caller,
        { ...requested(request), fromEventId: fromId },
      );
      return {
        data: selectFields(request, {
          ...viewSubscription(subscription),
          replay_id: replay.id,
          replay: (await viewReplays(store, [replay]))[0],
        }),
      };
    },
  );

  app.delete(
    '/subscriptions',
    {
      schema: {
        operationId: 'deleteSubscription',
        tags: ['subscriptions'],
        summary: 'End a subscription, named by the values it was made with',
        description: `${inEither} What is still queued for it is cancelled.`,
        querystring: Type.Object(parameters),
        body: Type.Object({ ...commonParameters, ...parameters }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await unsubscribe(options, callerOf(request), requested(request));
      return reply.code(204).send(null);
    },
  );

  // The form in which clients of the original's first years subscribe.
  app.put(
    '/sources/:id/listen/:emitter_id',
    {
      schema: {
        operationId: 'listenToEmitter',
        tags: ['subscriptions', 'addition'],
        summary: 'The same as POST /subscriptions, with the listener and the emitter in the path',
        params: Type.Object({ id: listenerId, emitter_id: emitterId }),
        querystring: Type.Object({ event_name: parameters.event_name }),
        body: Type.Object({ event_name: parameters.event_name }),
        response: { 200: DataOf(Subscription) },
      },
    },
    async (request) => {
      const { id, emitter_id } = request.params;
      await requireNamedWorkspace(store.read, request);
      const row = await subscribe(options, callerOf(request), {
        emitterId: emitter_id,
        listenerId: id,
        eventName: text(request, 'event_name') ?? '',
        ...workspaceOf(request),
      });
      return { data: selectFields(request, viewSubscription(row)) };
    },
  );
}

function subscriptionByIdRoutes(app: App, { listOf, store, options }: SubscriptionSupport): void {
  app.get(
    '/subscriptions/:id',
    {
      schema: {
        operationId: 'getSubscription',
        tags: ['subscriptions', 'addition'],
        summary: 'One subscription',
        params: IdParams('sub_…'),
        response: { 200: DataOf(Subscription) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const owners = await ownersOf(store.read, callerOf(request));
      const row = await findSubscription(store.read, id);
      if (row === undefined || !isAtAnEnd(owners, row)) throw notFound('subscription', id);
      return { data: selectFields(request, viewSubscription(row)) };
    },
  );

  app.delete(
    '/subscriptions/:id',
    {
      schema: {
        operationId: 'deleteSubscriptionById',
        tags: ['subscriptions', 'addition'],
        summary: 'End a subscription, named by its id',
        params: IdParams('sub_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await unsubscribeById(options, callerOf(request), request.params.id);
      return reply.code(204).send(null);
    },
  );

  app.get(
    '/users/me/subscriptions',
    {
      schema: {
        operationId: 'listMySubscriptions',
        tags: ['subscriptions'],
        summary: 'Subscriptions with the authenticated user as owner of the emitter or the listener',
        response: { 200: Type.Object({ data: Type.Array(Subscription) }) },
      },
    },
    async (request) => listOf(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/subscriptions',
    {
      schema: {
        operationId: 'listWorkspaceSubscriptions',
        tags: ['subscriptions'],
        summary: 'Subscriptions with a workspace as owner of the emitter or the listener',
        params: IdParams('o_…'),
        response: { 200: Type.Object({ data: Type.Array(Subscription) }) },
      },
    },
    async (request) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return listOf(request, request.params.id);
    },
  );
}

function autoSubscriptionRoutes(app: App, { store, options }: SubscriptionSupport): void {
  app.post(
    '/auto_subscriptions',
    {
      schema: {
        operationId: 'createAutoSubscription',
        tags: ['subscriptions'],
        summary:
          'Route $errors or $logs of every source and workflow that is created from now on to a listener',
        description: ofTheListener,
        querystring: Type.Object({ event_name: channelOfErrors, listener_id: parameters.listener_id }),
        body: Type.Object({ event_name: channelOfErrors, listener_id: parameters.listener_id }),
        response: { 200: DataOf(AutoSubscription) },
      },
    },
    async (request) => {
      const name = required(request, 'event_name');
      if (name !== '$errors' && name !== '$logs')
        throw new CallerError('invalid_parameter', 'event_name: expected $errors or $logs', {
          parameter: 'event_name',
        });
      const row = await subscribeToNew(options, callerOf(request), {
        eventName: name,
        listenerId: required(request, 'listener_id'),
        ...workspaceOf(request),
      });
      return { data: selectFields(request, viewAutoSubscription(row)) };
    },
  );

  app.get(
    '/auto_subscriptions',
    {
      schema: {
        operationId: 'listAutoSubscriptions',
        tags: ['subscriptions', 'addition'],
        summary: 'Automatic subscriptions of the caller, or of the workspace that org_id names',
        response: { 200: Type.Object({ data: Type.Array(AutoSubscription) }) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const workspace = namedWorkspace(request);
      if (workspace !== undefined)
        await requireWorkspace(store.read, caller, workspace.id, 'read', workspace.parameter);
      const rows = await autoSubscriptionsOf(store.read, workspace?.id ?? homeOf(caller));
      return { data: selectFields(request, rows.map(viewAutoSubscription)) };
    },
  );

  app.delete(
    '/auto_subscriptions/:id',
    {
      schema: {
        operationId: 'deleteAutoSubscription',
        tags: ['subscriptions', 'addition'],
        summary: 'End an automatic subscription; subscriptions it has made stay',
        params: IdParams('asub_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await unsubscribeFromNew(options, callerOf(request), request.params.id);
      return reply.code(204).send(null);
    },
  );
}

function viewSubscription(row: SubscriptionTable) {
  return {
    id: row.id,
    emitter_id: row.emitter_id,
    listener_id: row.listener_id,
    event_name: row.event_name,
    user_id: row.user_id,
    emitter_owner_id: row.emitter_owner_id,
    created_at: epochSeconds(row.created_at_ms),
  };
}

function viewAutoSubscription(row: AutoSubscriptionTable) {
  return {
    id: row.id,
    event_name: row.event_name,
    listener_id: row.listener_id,
    owner_id: row.owner_id,
    created_at: epochSeconds(row.created_at_ms),
  };
}

function requested(request: FastifyRequest): SubscriptionRequest {
  return {
    emitterId: required(request, 'emitter_id'),
    listenerId: required(request, 'listener_id'),
    eventName: text(request, 'event_name') ?? '',
    ...workspaceOf(request),
  };
}

function workspaceOf(request: FastifyRequest): { workspaceId?: string } {
  const workspace = namedWorkspace(request);
  return workspace === undefined ? {} : { workspaceId: workspace.id };
}

function required(request: FastifyRequest, name: string): string {
  const value = text(request, name);
  if (value !== undefined && value !== '') return value;
  throw new CallerError('missing_parameter', `${name}: required, in the query or in the body`, {
    parameter: name,
  });
}

function text(request: FastifyRequest, name: string): string | undefined {
  const value = parameterOf(request, name);
  return typeof value === 'string' ? value : undefined;
}
