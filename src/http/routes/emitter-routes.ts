import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { requestEventDeletion } from '#events/delete-events.ts';
import { channels, eventSummaryJson, type StoredEvent } from '#events/event.ts';
import { type EventId, formatEventId, parseEventId } from '#events/event-id.ts';
import { pageOfPlaces, readBeginnings } from '#events/event-page-store.ts';
import { sendWholeEvents } from '#http/event-answer.ts';
import { pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { readable, writable } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db, Store } from '#storage/store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';

export interface EmitterRouteOptions {
  store: Store;
  clock: Clock;
  /** A job was queued. */
  onJobs: () => void;
}

/** What emits events, as its paths and operations are named. */
export interface EmitterKind {
  path: 'sources' | 'workflows';
  what: 'source' | 'workflow';
  /** In the ids of operations. */
  name: 'Source' | 'Workflow';
  idForm: string;
  find: (db: Db, id: string) => Promise<{ id: string; owner_id: string } | undefined>;
}

export const sourceKind: EmitterKind = {
  path: 'sources',
  what: 'source',
  name: 'Source',
  idForm: 'dc_…',
  find: findSource,
};

export const workflowKind: EmitterKind = {
  path: 'workflows',
  what: 'workflow',
  name: 'Workflow',
  idForm: 'p_…',
  find: findWorkflow,
};

/** What a request may read or change the events of. Throws CallerError `not_found`, `forbidden`. */
export async function emitterOf(
  { read }: Pick<Store, 'read'>,
  kind: EmitterKind,
  request: Pick<FastifyRequest, 'caller' | 'params'>,
  right: 'read' | 'write',
): Promise<{ id: string; owner_id: string }> {
  const { id } = request.params as { id: string };
  const check = right === 'read' ? readable : writable;
  return check(read, callerOf(request), await kind.find(read, id), { what: kind.what, id });
}

export const EventSummary = Type.Object(
  {
    id: Type.String({ description: '<ms>-<sequence>, ordered by emission' }),
    indexed_at_ms: Type.Integer(),
    event: Type.Unknown({
      description: 'What was emitted; of a workflow `{ raw_event }`, with what was emitted in it',
    }),
    truncated: Type.Optional(
      Type.Boolean({ description: 'The event is too large for a list: `event` is how its JSON begins' }),
    ),
    metadata: Type.Object(
      {
        emit_id: Type.String(),
        name: Type.String(),
        emitter_id: Type.String(),
        summary: Type.Optional(Type.String({ description: 'As emitted' })),
      },
      { additionalProperties: true },
    ),
  },
  { additionalProperties: true },
);

export const eventName = Type.Optional(
  Type.String({
    maxLength: 1000,
    description: 'Channel: absent or empty for the default one, $errors, $logs, $in, or a custom name',
  }),
);

export const expandParameter = Type.Optional(
  Type.String({ description: '`event` returns full event data; else data over 1 KB is cut' }),
);

/** Specification, section 4, Source and workflow events: what both kinds of emitters have. */
export function emitterRoutes(app: App, options: EmitterRouteOptions): void {
  routesOfKind(app, options, sourceKind);
  routesOfKind(app, options, workflowKind);
  workflowErrorRoutes(app, options);
}

function routesOfKind(app: App, options: EmitterRouteOptions, kind: EmitterKind): void {
  const { store, clock } = options;
  const { path, what, name } = kind;
  const isAddition = kind === workflowKind ? ['addition'] : [];

  app.get(
    `/${path}/:id/event_summaries`,
    {
      schema: {
        operationId: `list${name}Events`,
        tags: ['events'],
        summary: `The last events of a ${what}, newest first`,
        params: IdParams(kind.idForm),
        querystring: Type.Object({ ...pageParameters, expand: expandParameter, event_name: eventName }),
        response: { 200: PageOf(EventSummary) },
      },
    },
    async (request, reply) => {
      const emitter = await emitterOf(store, kind, request, 'read');
      const { expand, event_name } = request.query;
      return sendSummaries(request, reply, store, {
        emitterId: emitter.id,
        channel: event_name ?? channels.default,
        expand: expand === 'event',
      });
    },
  );

  app.get(
    `/${path}/:id/events`,
    {
      schema: {
        operationId: `list${name}Emits`,
        tags: ['events', 'addition'],
        summary: `The last n events of a ${what} as emitted, newest first`,
        params: IdParams(kind.idForm),
        querystring: Type.Object({
          n: Type.Optional(
            Type.Integer({ minimum: 1, default: 20, description: 'How many; values above 100 mean 100' }),
          ),
          event_name: eventName,
        }),
        response: {
          200: Type.Object({
            data: Type.Array(
              Type.Object({ id: Type.String(), k: Type.String(), e: Type.Unknown(), ts: Type.Integer() }),
            ),
          }),
        },
      },
    },
    async (request, reply) => {
      const emitter = await emitterOf(store, kind, request, 'read');
      const limit = Math.min(request.query.n ?? 20, 100);
      const channel = { emitterId: emitter.id, channel: request.query.event_name ?? channels.default };
      const narrow = narrowing(request);
      return sendWholeEvents(reply, store.read, {
        channel,
        places: await pageOfPlaces(store.read, { ...channel, limit }),
        rowOf: (event) =>
          narrow(`{"id":"${formatEventId(event)}","k":"emit","e":${event.event},"ts":${event.ms}}`),
        ending: () => '',
      }) as never;
    },
  );

  app.delete(
    `/${path}/:id/events`,
    {
      schema: {
        operationId: `delete${name}Events`,
        tags: ['events', ...isAddition],
        summary: `Delete all events of a ${what}, or an inclusive range`,
        params: IdParams(kind.idForm),
        querystring: Type.Object({
          start_id: Type.Optional(Type.String({ description: 'This event and all later ones' })),
          end_id: Type.Optional(Type.String({ description: 'This event and all earlier ones' })),
          event_name: eventName,
        }),
        response: { 202: DataOf(Type.Object({})) },
      },
    },
    async (request, reply) => {
      const emitter = await emitterOf(store, kind, request, 'write');
      const { start_id, end_id, event_name } = request.query;
      await requestEventDeletion(
        store,
        {
          emitterId: emitter.id,
          ownerId: emitter.owner_id,
          channel: event_name ?? channels.default,
          ...(start_id === undefined ? {} : { startId: start_id }),
          ...(end_id === undefined ? {} : { endId: end_id }),
        },
        clock.now(),
      );
      options.onJobs();
      return reply.code(202).send({ data: {} });
    },
  );
}

/** The errors of a workflow have an address of their own. */
function workflowErrorRoutes(app: App, { store }: EmitterRouteOptions): void {
  app.get(
    '/workflows/:id/$errors/event_summaries',
    {
      schema: {
        operationId: 'listWorkflowErrors',
        tags: ['events'],
        summary: 'The last errors of a workflow, newest first, each with the event that led to it',
        description:
          '`event` holds `original_event`, `original_context`, `error` (`code`, `cellId`, `ts`, `stack`, `msg`) and `metadata`.',
        params: IdParams(workflowKind.idForm),
        querystring: Type.Object({ ...pageParameters, expand: expandParameter }),
        response: { 200: PageOf(EventSummary) },
      },
    },
    async (request, reply) => {
      const workflow = await emitterOf(store, workflowKind, request, 'read');
      return sendSummaries(request, reply, store, {
        emitterId: workflow.id,
        channel: channels.errors,
        expand: request.query.expand === 'event',
      });
    },
  );
}

/** Pages of events: cursors are event ids. */
export function eventPage(request: Pick<FastifyRequest, 'query' | 'body'>) {
  const { limit, after, before } = pageRequest(request, { cursors: 'plain' });
  return {
    limit,
    ...(after === undefined ? {} : { olderThan: eventCursor(after, 'after') }),
    ...(before === undefined ? {} : { newerThan: eventCursor(before, 'before') }),
  };
}

function eventCursor(text: string, parameter: string) {
  try {
    return parseEventId(text, parameter);
  } catch (error) {
    throw new CallerError(
      'unknown_cursor',
      `${parameter} is not a cursor of this list`,
      { parameter },
      { cause: error },
    );
  }
}

/** Answers a page of the events of one channel. */
export async function sendSummaries(
  request: FastifyRequest,
  reply: FastifyReply,
  store: Store,
  options: { emitterId: string; channel: string; expand: boolean },
): Promise<never> {
  const { emitterId, channel, expand } = options;
  const page = { emitterId, channel, ...eventPage(request) };
  const narrow = narrowing(request);
  const rowOf = (event: StoredEvent) => narrow(eventSummaryJson(event, { expand }));
  const pageInfo = (events: EventId[]) =>
    JSON.stringify(pageResponse(events, { cursorOf: formatEventId }).page_info);
  if (expand) {
    return sendWholeEvents(reply, store.read, {
      channel: page,
      places: await pageOfPlaces(store.read, page),
      rowOf,
      ending: (sent) => `,"page_info":${pageInfo(sent)}`,
    }) as never;
  }
  const events = await readBeginnings(store.read, page);
  reply.type('application/json; charset=utf-8');
  return reply.send(`{"page_info":${pageInfo(events)},"data":[${events.map(rowOf).join(',')}]}`) as never;
}

/** Reduces the JSON text of an object to the fields that the request selects. Without a selection nothing is parsed. */
function narrowing(request: FastifyRequest): (row: string) => string {
  const { include, exclude } = request.query as { include?: string; exclude?: string };
  if (include === undefined && exclude === undefined) return (row) => row;
  return (row) => JSON.stringify(selectFields(request, JSON.parse(row) as Record<string, unknown>));
}
