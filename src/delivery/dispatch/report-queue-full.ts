import type { HeldDelivery } from '#delivery/delivery.ts';
import { type Emission, type EmitStore, type EventRouter, emitEvents } from '#events/emit-event.ts';
import { channels } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { Clock } from '#lib/clock.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { KnownWorkflow } from '#workflows/definitions/workflow-directory.ts';
import { type OnQueueFull, sourceTypeOf } from './deliver-to-workflow.ts';

/** `error.code` of the event that says so. */
const queueFullCode = 'Event Queue Full';

interface Report {
  ownerId: string;
  emission: Emission;
}

/**
 * What is done about an event that a workflow's queue has no room for: an error event of the workflow, with the event and
 * the delivery that was to bring it. Those that come together are one commit.
 */
export function queueFullReports(options: {
  store: EmitStore & Pick<Store, 'writes'>;
  router: EventRouter;
  bus: EventBus;
  clock: Clock;
  version: string;
}): OnQueueFull {
  const { store, router, bus, clock, version } = options;
  const write: BatchWrite<Report, Awaited<ReturnType<typeof emitEvents>>[number]> = {
    name: 'report-full-queues',
    ownerOf: ({ ownerId }) => ownerId,
    bytes: ({ emission }) => emission.events.reduce((sum, { event }) => sum + event.length, 0),
    run: (tx, reports) =>
      emitEvents(store, tx, {
        emissions: reports.map(({ emission }) => emission),
        router,
        nowMs: clock.now(),
      }),
  };
  return async (workflow, delivery) => {
    const nowMs = clock.now();
    const event = queueFullEvent(workflow, delivery, { version, nowMs });
    const summary = `${queueFullCode}: ${workflow.settings.queueSize} runs wait`;
    const emission: Emission = {
      emitterId: workflow.id,
      // One more than the event has come through: a workflow that listens to its own errors ends somewhere.
      hops: delivery.hops + 1,
      events: [{ channel: channels.errors, event, summary, holdsMetadata: true }],
    };
    const result = await store.writes.submit(write, { ownerId: workflow.ownerId, emission });
    if (result.accepted) bus.publish(result.stored);
  };
}

/** JSON text, as the error events of runs are; there is no run: `original_context.id` is the delivery's. */
function queueFullEvent(
  { id, ownerId, deploymentId, settings }: KnownWorkflow,
  delivery: HeldDelivery,
  { version, nowMs }: { version: string; nowMs: number },
): string {
  const ts = new Date(nowMs).toISOString();
  const context = {
    id: delivery.id,
    ts,
    workflow_id: id,
    deployment_id: deploymentId,
    owner_id: ownerId,
    emitter_id: delivery.emitterId,
    source_type: sourceTypeOf(delivery.emitterId),
    verified: false,
    hops: delivery.hops + 1,
    test: false,
    replay: false,
    platform_version: version,
  };
  const error = {
    code: queueFullCode,
    cellId: null,
    ts,
    stack: '',
    msg:
      `${settings.queueSize} runs of this workflow wait for their turn; this event was dropped. ` +
      `POST /v1/deliveries/${delivery.id}/redeliver queues it again.`,
  };
  return `{"original_event":${delivery.body.toString()},"original_context":${JSON.stringify(context)},"error":${JSON.stringify(error)}}`;
}
