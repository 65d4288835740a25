import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { deadStates } from '#delivery/delivery.ts';
import { findDelivery, pageOfDeadLetters, pageOfDeliveries } from '#delivery/delivery-store.ts';
import type { DeliveryDispatcher } from '#delivery/dispatch/delivery-dispatcher.ts';
import { redeliver, textOfDelivery, viewDelivery } from '#delivery/manage-deliveries.ts';
import { findSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { findWebhook } from '#delivery/webhooks/webhook-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  OneOf,
  OneOfOrNull,
  PageOf,
  pageParameters,
  parameterOf,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { mayRead, notFound, readable, requireWorkspace, writable } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { findSource } from '#sources/source-store.ts';
import type { Page } from '#storage/page.ts';
import type { Store } from '#storage/store.ts';
import {
  type DeliveryState,
  type DeliveryTable,
  deliveryReasons,
  deliveryStates,
} from '#storage/tables/delivery-tables.ts';

const optionalText = Type.Union([Type.String(), Type.Null()]);
const optionalInteger = Type.Union([Type.Integer(), Type.Null()]);
const optionalTime = Type.Union([Type.Integer({ description: 'Epoch seconds' }), Type.Null()]);

const Delivery = Type.Object(
  {
    id: Type.String({ description: 'dlv_…; the webhook-id of each of its requests' }),
    listener_id: Type.String(),
    subscription_id: optionalText,
    replay_id: optionalText,
    emitter_id: Type.String(),
    event_name: Type.String({ description: 'The channel; empty for the default one' }),
    event_id: Type.String({ description: '<ms>-<sequence>' }),
    state: OneOf(deliveryStates),
    reason: OneOfOrNull(deliveryReasons),
    attempt_count: Type.Integer({ description: 'Since it was last queued' }),
    attempts: Type.Array(
      Type.Object({
        at_ms: Type.Integer({ description: 'Its start, epoch milliseconds' }),
        latency_ms: Type.Integer(),
        status: Type.Optional(Type.Integer({ description: 'HTTP status of the answer' })),
        error: Type.Optional(Type.String({ description: 'Why there was no answer' })),
        response: Type.Optional(
          Type.String({ description: 'First 1 KB of the answer; for those who may read the listener' }),
        ),
      }),
      { description: 'The last 20, oldest first' },
    ),
    status: Type.Union([Type.Integer(), Type.Null()], { description: 'The status of the last attempt' }),
    latency_ms: optionalInteger,
    next_attempt_at: optionalTime,
    created_at: Type.Integer({ description: 'Epoch seconds' }),
    ended_at: optionalTime,
    event: Type.Optional(Type.Unknown({ description: 'What is sent, with `expand=event`' })),
  },
  { additionalProperties: true },
);

const stateParameter = (states: readonly DeliveryState[]) => ({
  ...pageParameters,
  state: Type.Optional(
    Type.String({ description: `Only those in these states, comma-separated: ${states.join(', ')}` }),
  ),
});
const DeliveryQuery = Type.Object(stateParameter(deliveryStates));
const DeadLetterQuery = Type.Object(stateParameter(deadStates));

export interface DeliveryRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  delivery: { dispatcher: Pick<DeliveryDispatcher, 'leftInStore'> };
}

/** Deliveries and their outcomes. An addition. */
export function deliveryRoutes(app: App, options: DeliveryRouteOptions): void {
  const support = deliverySupport(options);
  deliveryListRoutes(app, support);
  oneDeliveryRoutes(app, support);
}

type DeliverySupport = ReturnType<typeof deliverySupport>;

/** What the handlers of these routes share. */
function deliverySupport(options: DeliveryRouteOptions) {
  const { store, logger, delivery } = options;
  const redelivery = {
    ...options,
    onQueued: (listenerId: string) => delivery.dispatcher.leftInStore(listenerId),
  };
  const answer = (request: FastifyRequest, page: Page<DeliveryTable>, options = { withResponses: true }) => {
    const cursors = page.rows.map(({ id }) => encodeCursor(id));
    return pageResponse(
      selectFields(
        request,
        page.rows.map((row) => viewDelivery(row, options)),
      ),
      { totalCount: page.totalCount, cursorOf: (_delivery, index) => cursors[index] ?? '' },
    );
  };
  const deadLetters = async (request: FastifyRequest, ownerId: string) => {
    const filter = { ownerId, ...statesIn(request, deadStates) };
    return answer(request, await pageOfDeadLetters(store.read, filter, pageRequest(request)));
  };

  return { redelivery, answer, deadLetters, store, logger };
}

function deliveryListRoutes(app: App, { answer, deadLetters, store }: DeliverySupport): void {
  app.get(
    '/webhooks/:id/deliveries',
    {
      schema: {
        operationId: 'listWebhookDeliveries',
        tags: ['deliveries', 'addition'],
        summary: 'What was and will be sent to a webhook, newest first',
        params: IdParams('wh_…'),
        querystring: DeliveryQuery,
        response: { 200: PageOf(Delivery) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await readable(store.read, callerOf(request), await findWebhook(store.read, id), {
        what: 'webhook',
        id,
      });
      const filter = { listenerId: id, ...statesIn(request, deliveryStates) };
      return answer(request, await pageOfDeliveries(store.read, filter, pageRequest(request)));
    },
  );

  app.get(
    '/sources/:id/deliveries',
    {
      schema: {
        operationId: 'listSourceDeliveries',
        tags: ['deliveries', 'addition'],
        summary: 'Events that a listening source was and will be given, newest first',
        params: IdParams('dc_…'),
        querystring: DeliveryQuery,
        response: { 200: PageOf(Delivery) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await readable(store.read, callerOf(request), await findSource(store.read, id), {
        what: 'source',
        id,
      });
      const filter = { listenerId: id, ...statesIn(request, deliveryStates) };
      return answer(request, await pageOfDeliveries(store.read, filter, pageRequest(request)));
    },
  );

  app.get(
    '/subscriptions/:id/deliveries',
    {
      schema: {
        operationId: 'listSubscriptionDeliveries',
        tags: ['deliveries', 'addition'],
        summary: 'What a subscription has sent and will send, newest first',
        description:
          'For those who may read either end; what a receiver answered, for those who may read the listener.',
        params: IdParams('sub_…'),
        querystring: DeliveryQuery,
        response: { 200: PageOf(Delivery) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const subscription = await findSubscription(store.read, id);
      if (subscription === undefined) throw notFound('subscription', id);
      const withResponses = await mayRead(store.read, caller, subscription.listener_owner_id);
      if (!withResponses && !(await mayRead(store.read, caller, subscription.emitter_owner_id)))
        throw notFound('subscription', id);
      const filter = {
        listenerId: subscription.listener_id,
        subscriptionId: id,
        ...statesIn(request, deliveryStates),
      };
      const page = await pageOfDeliveries(store.read, filter, pageRequest(request));
      return answer(request, page, { withResponses });
    },
  );

  app.get(
    '/users/me/dead_letters',
    {
      schema: {
        operationId: 'listMyDeadLetters',
        tags: ['deliveries', 'addition'],
        summary: 'Dead letters of listeners of the authenticated user, newest first',
        querystring: DeadLetterQuery,
        response: { 200: PageOf(Delivery) },
      },
    },
    (request) => deadLetters(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/dead_letters',
    {
      schema: {
        operationId: 'listWorkspaceDeadLetters',
        tags: ['deliveries', 'addition'],
        summary: 'Dead letters of listeners of a workspace, newest first',
        params: IdParams('o_…'),
        querystring: DeadLetterQuery,
        response: { 200: PageOf(Delivery) },
      },
    },
    async (request) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return deadLetters(request, request.params.id);
    },
  );
}

function oneDeliveryRoutes(app: App, { redelivery, store, logger }: DeliverySupport): void {
  app.get(
    '/deliveries/:id',
    {
      schema: {
        operationId: 'getDelivery',
        tags: ['deliveries', 'addition'],
        summary: 'One delivery with its attempts',
        params: IdParams('dlv_…'),
        querystring: Type.Object({
          expand: Type.Optional(
            Type.Literal('event', {
              description: 'Answer what is sent too, as `event`, as long as it is kept',
            }),
          ),
        }),
        response: { 200: DataOf(Delivery) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const delivery = await readable(store.read, callerOf(request), await findDelivery(store.read, id), {
        what: 'delivery',
        id,
      });
      const text = request.query.expand === 'event' ? await textOfDelivery(store.read, delivery) : undefined;
      const event = text === undefined ? {} : { event: JSON.parse(text) as unknown };
      return {
        data: selectFields(request, { ...viewDelivery(delivery, { withResponses: true }), ...event }),
      };
    },
  );

  app.post(
    '/deliveries/:id/redeliver',
    {
      schema: {
        operationId: 'redeliverDelivery',
        tags: ['deliveries', 'addition'],
        summary: 'Send an event once more, as a delivery with the same id',
        description: 'One that was delivered can be sent again while its event is kept.',
        params: IdParams('dlv_…'),
        response: { 200: DataOf(Delivery) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const delivery = await writable(store.read, caller, await findDelivery(store.read, id), {
        what: 'delivery',
        id,
      });
      const queued = await redeliver(redelivery, delivery);
      logger.info(
        { delivery: id, listener: delivery.listener_id, owner: delivery.owner_id, user: caller.userId },
        'delivery.redelivered',
      );
      return { data: selectFields(request, viewDelivery(queued, { withResponses: true })) };
    },
  );
}

/** The states that a list is narrowed to. Throws CallerError `invalid_parameter`. */
function statesIn(
  request: FastifyRequest,
  known: readonly DeliveryState[],
): { states?: readonly DeliveryState[] } {
  const text = parameterOf(request, 'state');
  if (typeof text !== 'string' || text === '') return {};
  const names = new Set(text.split(',').map((name) => name.trim()));
  const states = known.filter((state) => names.has(state));
  if (states.length === names.size) return { states };
  throw new CallerError('invalid_parameter', `state: expected one or more of ${known.join(', ')}`, {
    parameter: 'state',
  });
}
