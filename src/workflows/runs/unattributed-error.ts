import { type EmitStore, type EventRouter, emitEvents } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { Clock } from '#lib/clock.ts';
import type { UserCodeError } from '#runner/call-outcome.ts';
import type { Store } from '#storage/store.ts';
import type { Deployments } from '#workflows/definitions/load-deployment.ts';
import { errorEventOf, errorJson } from './run-events.ts';

/**
 * Reports an error that code of a deployment left behind when its steps had ended (a promise that was not awaited, a
 * timer): no run is to blame, so the event on `$errors` names none.
 */
export async function reportUnattributedError(
  options: {
    store: EmitStore & Pick<Store, 'transaction'>;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    deployments: Pick<Deployments, 'get'>;
  },
  deploymentId: string,
  error: UserCodeError,
): Promise<void> {
  const { store, router, bus, clock } = options;
  const deployment = await options.deployments.get(deploymentId);
  const { redact, workflowId } = deployment;
  const nowMs = clock.now();
  const context = JSON.stringify({
    ts: new Date(nowMs).toISOString(),
    workflow_id: workflowId,
    workflow_name: deployment.workflowName,
    deployment_id: deploymentId,
    owner_id: deployment.ownerId,
    project_id: deployment.projectId,
  });
  const text = { code: redact(error.name), msg: redact(error.message), stack: redact(error.stack) };
  const event = errorEventOf({ event: 'null' }, context, errorJson(undefined, text, nowMs));
  const [emitted] = await store.transaction((tx) =>
    emitEvents(store, tx, {
      emissions: [{ emitterId: workflowId, hops: 0, events: [event] }],
      router,
      nowMs,
    }),
  );
  if (emitted?.accepted === true) bus.publish(emitted.stored);
}
