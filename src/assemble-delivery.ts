import { DeliveryService } from '#delivery/delivery-service.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { Observers } from '#lib/observers.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import { WorkflowDirectory } from '#workflows/definitions/workflow-directory.ts';
import type { Platform } from './assemble-platform.ts';

export type Deliveries = ReturnType<typeof assembleDelivery>;

/** Subscriptions, and the way of events to webhooks, sources and workflows. */
export function assembleDelivery(platform: Platform, parts: RunningParts) {
  const { settings, has, clock, logger, version, egress, store, vault, node } = platform;
  const { bus, pool, outcomes, tracer, quotas } = platform;
  /** Reports each source whose queue of runs has changed to flow control, which is made after the parts that report. */
  const queueChanges = new Observers<[sourceId: string]>();
  const receivers = createGuardedDispatcher({
    policy: egress.policy,
    ...egress.trust,
    connectionsPerOrigin: null,
  });
  parts.add('deliveries under way', () => receivers.destroy());
  const workflows = new WorkflowDirectory({ store, clock });
  const delivery = new DeliveryService({
    ...{ store, node, clock, logger, vault, bus, version, pool, workflows, outcomes, tracer, quotas },
    guarded: receivers,
    sends: has('worker'),
    owners: platform.activeOwners,
    onWebhookDelayed: (ownerId) => platform.shares.delayed(ownerId, 'transfers'),
    watchMs: (settings.nodeLeaseSeconds * 1000) / 3,
    onHeld: queueChanges.tell,
  });
  return { receivers, workflows, delivery, router: delivery.finder, queueChanges };
}
