import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Caller, mayRead, notFound, readable, requireWorkspace, writable } from '#auth/permissions.ts';
import { requestEventDeletion } from '#events/delete-events.ts';
import { ownerOfEmitter } from '#events/emitter-store.ts';
import { channels, eventSummaryJson, type StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, type EventId, formatEventId, parseEventId } from '#events/event-id.ts';
import { eventBatches, pageOfPlaces, readBeginnings } from '#events/event-page-store.ts';
import { sendWholeEvents } from '#http/event-answer.ts';
import type { LiveStreams } from '#http/live-updates.ts';
import { type LogLine, logLine } from '#http/log-line.ts';
import { pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  PageOf,
  PageQuery,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { StreamMark } from '#http/stream-mark.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { readTicks } from '#schedule/timer-store.ts';
import { findSource } from '#sources/source-store.ts';
import type { Store } from '#storage/store.ts';
import { findApiKey } from '#workspaces/api-key-store.ts';

export interface EventRouteDeps {
  store: Store;
  bus: EventBus;
  streams: LiveStreams;
  clock: Clock;
  logger: Logger;
  /** A job was queued. */
  onJobs: () => void;
}

const EventSummary = Type.Object(
  {
    id: Type.String({ description: '<ms>-<sequence>, ordered by emission' }),
    indexed_at_ms: Type.Integer(),
    event: Type.Unknown(),
    metadata: Type.Object(
      { emit_id: Type.String(), name: Type.String(), emitter_id: Type.String() },
      { additionalProperties: true },
    ),
  },
  { additionalProperties: true },
);

const eventName = Type.Optional(
  Type.String({
    maxLength: 1000,
    description: 'Channel: absent or empty for the default one, $errors, $logs, $in, or a custom name',
  }),
);

const LogLineShape = Type.Object(
  {
    id: Type.String(),
    ts: Type.Integer({ description: 'Epoch ms' }),
    level: Type.String(),
    message: Type.String(),
  },
  { additionalProperties: true },
);

const Tick = Type.Object({
  prop: Type.String({ description: 'The timer prop' }),
  planned_at: Type.Integer({ description: 'Epoch seconds' }),
  recorded_at: Type.Integer({ description: 'Epoch seconds' }),
  outcome: Type.String({ description: 'fired | late | skipped | missed' }),
  reason: Type.Union([Type.String(), Type.Null()]),
  ticks: Type.Integer({ description: 'Planned ticks this entry stands for' }),
});

/** Specification, section 4, Source and workflow events. */
export function eventRoutes(app: App, deps: EventRouteDeps): void {
  const { store, clock } = deps;

  const sourceFor = async (request: FastifyRequest, right: 'read' | 'write') => {
    const { id } = request.params as { id: string };
    const source = await findSource(store.read, id);
    const check = right === 'read' ? readable : writable;
    return check(store.read, callerOf(request), source, { what: 'source', id });
  };

  app.get(
    '/sources/:id/event_summaries',
    {
      schema: {
        operationId: 'listSourceEvents',
        tags: ['events'],
        summary: 'The last events of a source, newest first',
        params: IdParams('dc_…'),
        querystring: Type.Object({
          ...pageParameters,
          expand: Type.Optional(
            Type.String({ description: '`event` returns full event data; else data over 1 KB is cut' }),
          ),
          event_name: eventName,
        }),
        response: { 200: PageOf(EventSummary) },
      },
    },
    async (request, reply) => {
      const source = await sourceFor(request, 'read');
      const { expand, event_name } = request.query;
      return sendSummaries(request, reply, store, {
        emitterId: source.id,
        channel: event_name ?? channels.default,
        expand: expand === 'event',
      });
    },
  );

  app.get(
    '/sources/:id/events',
    {
      schema: {
        operationId: 'listSourceEmits',
        tags: ['events', 'addition'],
        summary: 'The last n events of a source as emitted, newest first',
        params: IdParams('dc_…'),
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
      const source = await sourceFor(request, 'read');
      const limit = Math.min(request.query.n ?? 20, 100);
      const channel = { emitterId: source.id, channel: request.query.event_name ?? channels.default };
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
    '/sources/:id/events',
    {
      schema: {
        operationId: 'deleteSourceEvents',
        tags: ['events'],
        summary: 'Delete all events of a source, or an inclusive range',
        params: IdParams('dc_…'),
        querystring: Type.Object({
          start_id: Type.Optional(Type.String({ description: 'This event and all later ones' })),
          end_id: Type.Optional(Type.String({ description: 'This event and all earlier ones' })),
          event_name: eventName,
        }),
        response: { 202: DataOf(Type.Object({})) },
      },
    },
    async (request, reply) => {
      const source = await sourceFor(request, 'write');
      const { start_id, end_id, event_name } = request.query;
      await requestEventDeletion(
        store,
        {
          emitterId: source.id,
          ownerId: source.owner_id,
          channel: event_name ?? channels.default,
          ...(start_id === undefined ? {} : { startId: start_id }),
          ...(end_id === undefined ? {} : { endId: end_id }),
        },
        clock.now(),
      );
      deps.onJobs();
      return reply.code(202).send({ data: {} });
    },
  );

  app.get(
    '/sources/:id/logs',
    {
      schema: {
        operationId: 'listSourceLogs',
        tags: ['events', 'addition'],
        summary: 'Console lines and errors of a source, newest first',
        params: IdParams('dc_…'),
        querystring: PageQuery,
        response: { 200: PageOf(LogLineShape) },
      },
    },
    async (request) => {
      const source = await sourceFor(request, 'read');
      const page = eventPage(request);
      const both = await Promise.all(
        [channels.logs, channels.errors].map(async (channel) => {
          const places = await pageOfPlaces(store.read, { emitterId: source.id, channel, ...page });
          return places.map((place) => ({ ...place, channel }));
        }),
      );
      const newestFirst = both.flat().sort((a, b) => compareEventIds(b, a));
      const places =
        page.newerThan === undefined ? newestFirst.slice(0, page.limit) : newestFirst.slice(-page.limit);
      const lines: LogLine[] = [];
      for (const [channel, group] of Map.groupBy(places, (place) => place.channel)) {
        for await (const { events } of eventBatches(store.read, { emitterId: source.id, channel }, group))
          lines.push(...events.map(logLine));
      }
      const order = new Map(places.map((place, index) => [formatEventId(place), index]));
      lines.sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
      const cursors = lines.map((line) => line.id);
      return pageResponse(selectFields(request, lines), {
        cursorOf: (_line, index) => cursors[index] ?? '',
      });
    },
  );

  app.get(
    '/sources/:id/ticks',
    {
      schema: {
        operationId: 'listSourceTicks',
        tags: ['sources', 'addition'],
        summary: 'What became of each planned run of a timer source, newest first',
        params: IdParams('dc_…'),
        querystring: PageQuery,
        response: { 200: PageOf(Tick) },
      },
    },
    async (request) => {
      const source = await sourceFor(request, 'read');
      const { limit, after, before } = pageRequest(request, { cursors: 'plain' });
      const rows = await readTicks(store.read, source.id, {
        limit,
        ...(after === undefined ? {} : { beforeMs: tickCursor(after, 'after') }),
        ...(before === undefined ? {} : { afterMs: tickCursor(before, 'before') }),
      });
      const ticks = rows.map((row) => ({
        prop: row.timer_id.slice(row.timer_id.indexOf(':') + 1),
        planned_at: epochSeconds(row.planned_at_ms),
        recorded_at: epochSeconds(row.recorded_at_ms),
        outcome: row.outcome,
        reason: row.reason,
        ticks: row.ticks,
      }));
      return pageResponse(selectFields(request, ticks), {
        cursorOf: (_tick, index) => String(rows[index]?.planned_at_ms ?? ''),
      });
    },
  );
}

/** The streams; registered with and without the version in front (specification, section 4). */
export function eventStreamRoutes(app: App, deps: EventRouteDeps): void {
  const { store, bus, clock, logger, streams } = deps;
  // One handler, two addresses: each is an operation of its own.
  const isVersioned = app.prefix !== '';

  app.get(
    '/sources/:id/sse',
    {
      schema: {
        operationId: isVersioned ? 'streamSourceEventsVersioned' : 'streamSourceEvents',
        tags: isVersioned ? ['events', 'addition'] : ['events'],
        summary: 'Server-sent events: new events of a source as they are emitted',
        description:
          'Each message has `id` (the event id) and one `data` line. `Last-Event-ID` resumes from what is kept, after an ' +
          '`event: gap` where something is gone. `event: end` tells why the service ends a stream.',
        params: IdParams('dc_…'),
        querystring: Type.Object({ event_name: eventName }),
        produces: ['text/event-stream'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const source = await readable(store.read, caller, await findSource(store.read, id), {
        what: 'source',
        id,
      });
      const lastEventId = lastEventIdOf(request, parseEventId);
      reply.hijack();
      await streams.open(reply.raw, {
        ...{ store, bus, logger, lastEventId },
        emitterId: source.id,
        channel: request.query.event_name ?? channels.default,
        mayRead: async () => {
          const found = await findSource(store.read, id);
          return found !== undefined && mayStillRead(store, caller, found.owner_id);
        },
      });
    },
  );

  app.get(
    '/workspaces/:id/sse',
    {
      schema: {
        operationId: isVersioned ? 'streamWorkspaceEventsVersioned' : 'streamWorkspaceEvents',
        tags: ['events', 'addition'],
        summary:
          'Server-sent events: new events of all sources of a workspace, also of those that come later',
        description:
          'Events of one emitter come in the order of their ids. At least once a second an event has an `id` line, an opaque ' +
          'mark: `Last-Event-ID` resumes from it, and what came after it may come again, to be told by ' +
          '`metadata.emitter_id` and `id` in the data. `event: gap` names an emitter of which events may be gone. With ' +
          '`emitter_id` it is the stream of that emitter, where each `id` is an event id.',
        params: IdParams('o_…'),
        querystring: Type.Object({
          event_name: eventName,
          emitter_id: Type.Optional(
            Type.String({ description: 'Only the events of this emitter of the workspace' }),
          ),
        }),
        produces: ['text/event-stream'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const { id: workspaceId } = request.params;
      const caller = callerOf(request);
      await requireWorkspace(store.read, caller, workspaceId, 'read');
      const { emitter_id: emitterId, event_name: channel = channels.default } = request.query;
      const stream = {
        ...{ store, bus, clock, logger, channel },
        mayRead: () => mayStillRead(store, caller, workspaceId),
      };
      if (emitterId === undefined) {
        const mark = lastEventIdOf(request, StreamMark.parse);
        reply.hijack();
        await streams.openWorkspace(reply.raw, { ...stream, workspaceId, mark });
        return;
      }
      const ownerId = await ownerOfEmitter(store.read, emitterId);
      if (ownerId !== workspaceId) throw notFound('emitter', emitterId, 'emitter_id');
      const lastEventId = lastEventIdOf(request, parseEventId);
      reply.hijack();
      await streams.open(reply.raw, { ...stream, emitterId, lastEventId });
    },
  );
}

function lastEventIdOf<T>(
  request: FastifyRequest,
  parse: (text: string, parameter: string) => T,
): T | undefined {
  const header = request.headers['last-event-id'];
  return typeof header === 'string' && header !== '' ? parse(header, 'Last-Event-ID') : undefined;
}

/** What let a stream open, once more: the key, and the right of its user. */
async function mayStillRead({ read }: Store, caller: Caller, ownerId: string): Promise<boolean> {
  const key = await findApiKey(read, caller.keyId);
  return key !== undefined && key.revoked_at_ms === null && (await mayRead(read, caller, ownerId));
}

/** Pages of events: cursors are event ids. */
function eventPage(request: Pick<FastifyRequest, 'query' | 'body'>) {
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

function tickCursor(text: string, parameter: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
  return Number(text);
}

async function sendSummaries(
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

/** From the JSON text of an object to that of the fields the request asks for; without such a wish, nothing is parsed. */
function narrowing(request: FastifyRequest): (row: string) => string {
  const { include, exclude } = request.query as { include?: string; exclude?: string };
  if (include === undefined && exclude === undefined) return (row) => row;
  return (row) => JSON.stringify(selectFields(request, JSON.parse(row) as Record<string, unknown>));
}
