import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ReplayQueue } from '#delivery/replay/queue-replay.ts';
import {
  cancelReplay,
  type ReplayOptions,
  readableReplay,
  replayRateDefault,
  replayRateMax,
  requestReplay,
  viewReplays,
} from '#delivery/replay/replay-events.ts';
import { pageOfReplays } from '#delivery/replay/replay-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  OneOf,
  OneOfOrNull,
  PageOf,
  PageQuery,
  parameterOf,
  requireNamedWorkspace,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { assert } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { type ReplayTable, replayReasons, replayStates } from '#storage/tables/delivery-tables.ts';
import { emitterOf, sourceKind, workflowKind } from './emitter-routes.ts';

const nullableString = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

export const Replay = Type.Object(
  {
    id: Type.String({ description: 'rpl_…' }),
    state: OneOf(replayStates, {
      description: 'queueing: deliveries are being made; finished: all deliveries have ended',
    }),
    reason: OneOfOrNull(replayReasons, { description: 'Why it is cancelled' }),
    total: Type.Integer({ description: 'Events in the range when it began' }),
    sent: Type.Integer({ description: 'Delivered so far' }),
    failed: Type.Integer({ description: 'Ended without having been delivered; each has a record' }),
    waiting: Type.Integer({ description: 'Queued, or held for a paused webhook' }),
    missed: Type.Integer({ description: 'Events that were deleted, or too old, before their turn came' }),
    emitter_id: Type.String(),
    listener_id: Type.String(),
    subscription_id: nullableString('The subscription that began with it'),
    event_name: Type.String({ description: 'The channel; empty for the default one' }),
    start_id: nullableString('The first event of the range; null when there is none in it'),
    end_id: nullableString('The last event of the range'),
    rate: Type.Integer({ description: 'Deliveries per second at most' }),
    user_id: Type.String({ description: 'The user who started it' }),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
    updated_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);

/** Given in the query or in the body. */
const parameters = {
  listener_id: Type.Optional(Type.String({ description: 'The listener: wh_…, dc_… or p_…' })),
  start_id: Type.Optional(Type.String({ description: 'This event and all later ones' })),
  end_id: Type.Optional(Type.String({ description: 'This event and all earlier ones' })),
  event_name: Type.Optional(
    Type.String({
      maxLength: 1000,
      description: 'Channel: a custom one, $errors or $logs; absent or empty for the default one',
    }),
  ),
  rate: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: replayRateMax,
      default: replayRateDefault,
      description: 'Deliveries per second at most',
    }),
  ),
};

export interface ReplayRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  delivery: { replays: ReplayQueue };
  /** A job was queued. */
  onJobs: () => void;
}

/** Additions: what was missed can be sent again. */
export function replayRoutes(app: App, options: ReplayRouteOptions): void {
  const { store, clock, logger, onJobs } = options;
  const replayOptions = (): ReplayOptions => ({ store, clock, onJobs, replays: options.delivery.replays });

  const viewOf = async (request: FastifyRequest, replays: readonly ReplayTable[]) =>
    selectFields(request, await viewReplays(store, replays));

  for (const kind of [sourceKind, workflowKind]) {
    app.post(
      `/${kind.path}/:id/replay`,
      {
        schema: {
          operationId: `replay${kind.name}Events`,
          tags: ['events', 'addition'],
          summary: `Send stored events of a ${kind.what} to one listener again, all that are kept or an inclusive range`,
          description:
            '`listener_id` is required; parameters stand in the query or in the body, the query wins. ' +
            'The same events with the same event ids, oldest first, as new deliveries: a webhook gets each with a new ' +
            '`webhook-id`, so a receiver that drops what it has seen before has to tell them by `x-pd-event-id`.',
          params: IdParams(kind.idForm),
          querystring: Type.Object(parameters),
          body: Type.Object(parameters),
          response: { 200: DataOf(Replay) },
        },
      },
      async (request) => {
        const text = (name: string) => {
          const value = parameterOf(request, name);
          return typeof value === 'string' ? value : undefined;
        };
        const listenerId = text('listener_id');
        if (listenerId === undefined || listenerId === '')
          throw new CallerError('missing_parameter', 'listener_id: required, in the query or in the body', {
            parameter: 'listener_id',
          });
        await requireNamedWorkspace(store.read, request);
        // Throws unless the emitter is of this kind: the other kind has its own path.
        await emitterOf(store, kind, request, 'write');
        const startId = text('start_id');
        const endId = text('end_id');
        const rate = parameterOf(request, 'rate');
        const replay = await requestReplay(replayOptions(), callerOf(request), {
          emitterId: request.params.id,
          listenerId,
          eventName: text('event_name') ?? '',
          ...(startId === undefined ? {} : { startId }),
          ...(endId === undefined ? {} : { endId }),
          ...(typeof rate === 'number' ? { rate } : {}),
        });
        const { id, emitter_id: emitter, listener_id: listener, owner_id: owner, total } = replay;
        const user = callerOf(request).userId;
        logger.info({ replay: id, emitter, listener, owner, user, total }, 'replay.started');
        return one(await viewOf(request, [replay]));
      },
    );

    app.get(
      `/${kind.path}/:id/replays`,
      {
        schema: {
          operationId: `list${kind.name}Replays`,
          tags: ['events', 'addition'],
          summary: `Replays of a ${kind.what}’s events, newest first; they are kept for 30 days`,
          params: IdParams(kind.idForm),
          querystring: PageQuery,
          response: { 200: PageOf(Replay) },
        },
      },
      async (request) => {
        const { id } = await emitterOf(store, kind, request, 'read');
        const page = await pageOfReplays(store.read, id, pageRequest(request));
        const cursors = page.rows.map((replay) => encodeCursor(replay.id));
        return pageResponse(await viewOf(request, page.rows), {
          totalCount: page.totalCount,
          cursorOf: (_replay, index) => cursors[index] ?? '',
        });
      },
    );
  }

  app.get(
    '/replays/:id',
    {
      schema: {
        operationId: 'getReplay',
        tags: ['events', 'addition'],
        summary: 'One replay and what has become of it so far',
        params: IdParams('rpl_…'),
        response: { 200: DataOf(Replay) },
      },
    },
    async (request) => {
      const { replay } = await readableReplay(options, callerOf(request), request.params.id);
      return one(await viewOf(request, [replay]));
    },
  );

  app.delete(
    '/replays/:id',
    {
      schema: {
        operationId: 'cancelReplay',
        tags: ['events', 'addition'],
        summary: 'Cancel a replay: what is not sent yet will not be; one that is over stays as it is',
        params: IdParams('rpl_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await cancelReplay(replayOptions(), callerOf(request), id);
      logger.info({ replay: id, user: callerOf(request).userId }, 'replay.cancelled');
      return reply.code(204).send(null);
    },
  );
}

function one<T>(items: readonly T[]): { data: T } {
  const [data] = items;
  assert(data !== undefined, 'a view of each replay');
  return { data };
}
