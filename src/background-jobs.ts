import type { DeliveryService } from '#delivery/delivery-service.ts';
import { deleteEventsHandler } from '#events/delete-events.ts';
import { deliverScheduledHandler } from '#events/deliver-scheduled.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { AppEvents } from '#ingress/push-app-event.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import type { Clock } from '#lib/clock.ts';
import type { SourceRuns } from '#sources/run-source.ts';
import { RemovalTurns } from '#storage/removal-turns.ts';
import type { Store } from '#storage/store.ts';
import type { JobKind } from '#storage/tables/job-tables.ts';
import { deleteWorkflowHandler } from '#workflows/runs/delete-workflow.ts';
import type { RunService } from '#workflows/runs/run-service.ts';
import type { RunSends } from '#workflows/sends/send-from-run.ts';

/** Table of contents 1: every background job and the function that does it. */
export function backgroundJobs(options: {
  store: Store;
  node: string;
  bus: EventBus;
  clock: Clock;
  runs: SourceRuns;
  delivery: DeliveryService;
  runSends: RunSends;
  workflowRuns: RunService;
  appEvents: AppEvents;
  repositories: JobHandler;
  imports: JobHandler;
  deletions: JobHandler;
}): Record<JobKind, JobHandler> {
  const removals = new RemovalTurns(options.store);
  return {
    run_source: options.runs,
    delete_events: deleteEventsHandler({ ...options, removals }),
    delete_workflow: deleteWorkflowHandler({ ...options, removals }),
    deliver_scheduled_event: deliverScheduledHandler({ ...options, router: options.delivery.finder }),
    fan_out_event: options.delivery.jobs.fan_out_event,
    fan_out_apphook: options.appEvents,
    change_deliveries: options.delivery.jobs.change_deliveries,
    queue_replay: options.delivery.jobs.queue_replay,
    send_from_run: options.runSends,
    run_workflow: options.workflowRuns.runs,
    update_repository: options.repositories,
    import_project: options.imports,
    delete_owner: options.deletions,
  };
}
