import type { DeliveryService } from '#delivery/delivery-service.ts';
import { deleteEventsHandler } from '#events/delete-events.ts';
import { deliverScheduledHandler } from '#events/deliver-scheduled.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { AppEvents } from '#ingress/push-app-event.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import type { Clock } from '#lib/clock.ts';
import type { SourceRuns } from '#sources/run-source.ts';
import type { Store } from '#storage/store.ts';
import type { JobKind } from '#storage/tables/job-tables.ts';
import { deleteWorkflowHandler } from '#workflows/runs/delete-workflow.ts';
import type { RunService } from '#workflows/runs/run-service.ts';
import type { RunSends } from '#workflows/sends/send-from-run.ts';

/** Table of contents 1: every background job and the function that does it. */
export function backgroundJobs(parts: {
  store: Store;
  node: string;
  bus: EventBus;
  clock: Clock;
  runs: SourceRuns;
  delivery: DeliveryService;
  runSends: RunSends;
  workflowRuns: RunService;
  appEvents: AppEvents;
}): Record<JobKind, JobHandler> {
  return {
    run_source: parts.runs,
    delete_events: deleteEventsHandler(parts),
    delete_workflow: deleteWorkflowHandler(parts),
    deliver_scheduled_event: deliverScheduledHandler({ ...parts, router: parts.delivery.finder }),
    fan_out_event: parts.delivery.jobs.fan_out_event,
    fan_out_apphook: parts.appEvents,
    change_deliveries: parts.delivery.jobs.change_deliveries,
    queue_replay: parts.delivery.jobs.queue_replay,
    send_from_run: parts.runSends,
    run_workflow: parts.workflowRuns.runs,
  };
}
