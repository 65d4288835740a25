import { Type } from 'typebox';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { formatEventId, parseEventId } from '#events/event-id.ts';
import { retainedMax } from '#events/event-store.ts';
import { type App, IdParams } from '#http/route-support.ts';
import { sendStreamHead } from '#http/stream-head.ts';
import { notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { StreamStyle } from '#streams/emitter-stream.ts';
import type { LiveStreams } from '#streams/live-streams.ts';
import { PublicReaders } from '#streams/public-readers.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { sseChannel } from '#workflows/sends/send-sse.ts';

export interface WorkflowStreamRouteOptions {
  store: Store;
  bus: EventBus;
  clock: Clock;
  streams: LiveStreams;
  logger: Logger;
}

/** Made once for all readers of an event. */
const messages = new WeakMap<StoredEvent, Buffer>();

const style: StreamStyle = {
  replayed: retainedMax,
  handshake: ':keepalive',
  // Pages of any site show it.
  headers: { 'access-control-allow-origin': '*' },
  message(event) {
    const known = messages.get(event);
    if (known !== undefined) return known;
    const { channel, payload } = JSON.parse(event.event) as { channel: string; payload: unknown };
    const lines = [`id: ${formatEventId(event)}`, `event: ${channel}`, `data: ${JSON.stringify(payload)}`];
    const message = Buffer.from(`${lines.join('\n')}\n\n`);
    messages.set(event, message);
    return message;
  },
};

/** What `$.send.sse` sends, for every caller that knows the id of the workflow, as Pipedream does. As all streams, also below the version. */
export function workflowStreamRoutes(app: App, options: WorkflowStreamRouteOptions): void {
  // The readers of a workflow are counted over both URLs.
  const readers = new PublicReaders({ clock: options.clock });
  addRoute(app, options, readers, { url: '/pipelines/:id/sse', operationId: 'streamWorkflowSends' });
  addRoute(app, options, readers, {
    url: '/v1/pipelines/:id/sse',
    operationId: 'streamWorkflowSendsVersioned',
  });
}

function addRoute(
  app: App,
  options: WorkflowStreamRouteOptions,
  readers: PublicReaders,
  { url, operationId }: { url: '/pipelines/:id/sse' | '/v1/pipelines/:id/sse'; operationId: string },
): void {
  const { store } = options;

  app.get(
    url,
    {
      config: { takesKey: true },
      schema: {
        operationId,
        tags: ['events', 'addition'],
        summary: 'Server-sent events: what the runs of a workflow send with $.send.sse; without an API key',
        description:
          'The last 100 at once, then new ones as they are sent. `event` is the channel, `data` the payload as JSON, on one ' +
          'line; `Last-Event-ID` resumes from what is kept. Readable from any page. 429 when too many readers of the workflow, or ' +
          'streams of a key that is sent, are open.',
        params: IdParams('p_…'),
        produces: ['text/event-stream'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const workflow = await findWorkflow(store.read, id);
      if (workflow === undefined) throw notFound('workflow', id);
      if (request.method === 'HEAD') return sendStreamHead(reply, style.headers);
      const seen = request.headers['last-event-id'];
      const lastEventId =
        typeof seen === 'string' && seen !== '' ? parseEventId(seen, 'Last-Event-ID') : undefined;
      readers.check(id);
      // No key is needed. A key that is sent uses one of its places, as with every other stream.
      if (request.caller !== null) options.streams.admit(request.caller, reply.raw, workflow.owner_id);
      reply.hijack();
      // A reader that has left gets nothing more.
      if (reply.raw.destroyed) return;
      readers.take(id, reply.raw);
      await options.streams.open(reply.raw, {
        ...{ store, bus: options.bus, logger: options.logger, style, lastEventId },
        ...{ emitterId: id, ownerId: workflow.owner_id },
        channel: sseChannel,
        mayRead: async () => (await findWorkflow(store.read, id)) !== undefined,
      });
    },
  );
}
