import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { ownerOfEmitter } from '#events/emitter-store.ts';
import { channels } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, formatEventId, parseEventId } from '#events/event-id.ts';
import { eventBatches, pageOfPlaces } from '#events/event-page-store.ts';
import { type LogLine, logLine } from '#http/log-line.ts';
import { pageResponse } from '#http/pagination.ts';
import { type App, callerOf, IdParams, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendStreamHead } from '#http/stream-head.ts';
import { isStillValid } from '#identity/api-tokens.ts';
import { type Caller, mayRead, notFound, requireWorkspace } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-streams.ts';
import { StreamMark } from '#streams/stream-mark.ts';
import {
  type EmitterKind,
  emitterOf,
  eventName,
  eventPage,
  sourceKind,
  workflowKind,
} from './emitter-routes.ts';

export interface EventRouteOptions {
  store: Store;
  bus: EventBus;
  streams: LiveStreams;
  clock: Clock;
  logger: Logger;
  /** A job was queued. */
  onJobs: () => void;
}

const LogLineShape = Type.Object(
  {
    id: Type.String(),
    ts: Type.Integer({ description: 'Epoch ms' }),
    level: Type.String(),
    message: Type.String(),
    error: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'For an error: name, message, and if known stack, ts and code',
      }),
    ),
  },
  { additionalProperties: true },
);

/** Additions: what only sources have beside their events. */
export function eventRoutes(app: App, options: EventRouteOptions): void {
  const { store } = options;

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
      const source = await emitterOf(store, sourceKind, request, 'read');
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
}

/** The streams; registered with and without the version in front (specification, section 4). */
export function eventStreamRoutes(app: App, options: EventRouteOptions): void {
  const { store, bus, clock, logger, streams } = options;
  // One handler, two addresses: each is an operation of its own.
  const isVersioned = app.prefix !== '';
  emitterStreamRoute(app, options, sourceKind);
  emitterStreamRoute(app, options, workflowKind);

  app.get(
    '/workspaces/:id/sse',
    {
      schema: {
        operationId: isVersioned ? 'streamWorkspaceEventsVersioned' : 'streamWorkspaceEvents',
        tags: ['events', 'addition'],
        summary:
          'Server-sent events: new events of all sources and workflows of a workspace, also of those that come later',
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
      if (request.method === 'HEAD') return sendStreamHead(reply);
      const { emitter_id: emitterId, event_name: channel = channels.default } = request.query;
      const stream = {
        ...{ store, bus, clock, logger, channel },
        mayRead: () => mayStillRead(options, caller, workspaceId),
      };
      if (emitterId === undefined) {
        const mark = lastEventIdOf(request, StreamMark.parse);
        streams.admit(caller, reply.raw, workspaceId);
        reply.hijack();
        await streams.openWorkspace(reply.raw, { ...stream, workspaceId, mark });
        return;
      }
      const ownerId = await ownerOfEmitter(store.read, emitterId);
      if (ownerId !== workspaceId) throw notFound('emitter', emitterId, 'emitter_id');
      const lastEventId = lastEventIdOf(request, parseEventId);
      streams.admit(caller, reply.raw, workspaceId);
      reply.hijack();
      await streams.open(reply.raw, { ...stream, emitterId, ownerId: workspaceId, lastEventId });
    },
  );
}

function emitterStreamRoute(app: App, options: EventRouteOptions, kind: EmitterKind): void {
  const { store, bus, logger, streams } = options;
  const isVersioned = app.prefix !== '';
  const isAddition = isVersioned || kind === workflowKind;

  app.get(
    `/${kind.path}/:id/sse`,
    {
      schema: {
        operationId: `stream${kind.name}Events${isVersioned ? 'Versioned' : ''}`,
        tags: isAddition ? ['events', 'addition'] : ['events'],
        summary: `Server-sent events: new events of a ${kind.what} as they are emitted`,
        description:
          'Each message has `id` (the event id) and one `data` line. `Last-Event-ID` resumes from what is kept, after an ' +
          '`event: gap` where something is gone. `event: end` tells why the service ends a stream.',
        params: IdParams(kind.idForm),
        querystring: Type.Object({ event_name: eventName }),
        produces: ['text/event-stream'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const emitter = await emitterOf(store, kind, request, 'read');
      if (request.method === 'HEAD') return sendStreamHead(reply);
      const lastEventId = lastEventIdOf(request, parseEventId);
      streams.admit(caller, reply.raw, emitter.owner_id);
      reply.hijack();
      await streams.open(reply.raw, {
        ...{ store, bus, logger, lastEventId },
        ...{ emitterId: emitter.id, ownerId: emitter.owner_id },
        channel: request.query.event_name ?? channels.default,
        mayRead: async () => {
          const found = await kind.find(store.read, id);
          return found !== undefined && mayStillRead(options, caller, found.owner_id);
        },
      });
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

/** What let a stream open, once more: the key or token, and the right of whose it is. */
async function mayStillRead(
  { store, clock }: Pick<EventRouteOptions, 'store' | 'clock'>,
  caller: Caller,
  ownerId: string,
): Promise<boolean> {
  const isValid = await isStillValid(store.read, caller, clock.now());
  return isValid && (await mayRead(store.read, caller, ownerId));
}
