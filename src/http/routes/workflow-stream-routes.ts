import { Type } from 'typebox';
import { notFound } from '#auth/permissions.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { formatEventId, parseEventId } from '#events/event-id.ts';
import { retainedMax } from '#events/event-store.ts';
import type { StreamStyle } from '#http/emitter-stream.ts';
import type { LiveStreams } from '#http/live-updates.ts';
import { type App, IdParams } from '#http/route-support.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { sseChannel } from '#sends/send-sse.ts';
import type { Store } from '#storage/store.ts';
import { findWorkflow } from '#workflows/workflow-store.ts';

export interface WorkflowStreamDeps {
  store: Store;
  bus: EventBus;
  streams: LiveStreams;
  logger: Logger;
}

/** Readers need no key, so their number has a bound: of one workflow, and of all. */
const readersPerWorkflowMax = 1_000;
const readersMax = 10_000;

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

/** What `$.send.sse` sends, for whoever knows the id of the workflow, as in the original. */
export function workflowStreamRoutes(app: App, deps: WorkflowStreamDeps): void {
  const { store } = deps;
  const readers = new Map<string, number>();
  let allReaders = 0;

  app.get(
    '/pipelines/:id/sse',
    {
      config: { public: true },
      schema: {
        operationId: 'streamWorkflowSends',
        tags: ['events', 'addition'],
        summary: 'Server-sent events: what the runs of a workflow send with $.send.sse; without an API key',
        description:
          'The last 100 at once, then new ones as they are sent. `event` is the channel, `data` the payload as JSON, on one ' +
          'line; `Last-Event-ID` resumes from what is kept. Readable from any page.',
        params: IdParams('p_…'),
        produces: ['text/event-stream'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const workflow = await findWorkflow(store.read, id);
      if (workflow === undefined) throw notFound('workflow', id);
      const seen = request.headers['last-event-id'];
      const lastEventId =
        typeof seen === 'string' && seen !== '' ? parseEventId(seen, 'Last-Event-ID') : undefined;
      const ofWorkflow = readers.get(id) ?? 0;
      if (allReaders >= readersMax || ofWorkflow >= readersPerWorkflowMax)
        throw new UnavailableError('overloaded', 'too many readers of this stream; try again');
      reply.hijack();
      // Whoever left already is not told of again.
      if (reply.raw.destroyed) return;
      readers.set(id, ofWorkflow + 1);
      allReaders += 1;
      reply.raw.once('close', () => {
        const left = (readers.get(id) ?? 1) - 1;
        if (left === 0) readers.delete(id);
        else readers.set(id, left);
        allReaders -= 1;
      });
      await deps.streams.open(reply.raw, {
        ...{ store, bus: deps.bus, logger: deps.logger, style, lastEventId },
        emitterId: id,
        channel: sseChannel,
        mayRead: async () => (await findWorkflow(store.read, id)) !== undefined,
      });
    },
  );
}
