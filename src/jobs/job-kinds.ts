import type { DeliveryReason, DeliveryState } from '#storage/tables/delivery-tables.ts';
import type { FlowKeys } from './held-jobs.ts';

/** The `traceparent` of the span that the job belongs to; absent: tracing is off, or the job begins a trace. */
type Traceparent = string;

/** Every job kind and the JSON of its payload. `background-jobs.ts` maps each to the function that does it. */
export interface JobPayloads {
  /** One invocation of a source's `run`. */
  run_source: {
    source_id: string;
    trigger: 'http' | 'timer' | 'event' | 'apphook';
    /** JSON text of the argument of `run`; absent: called without one. */
    event?: string;
    hops: number;
    /** The node that took the request, where it did not run it itself. */
    accepted_by?: string;
    /** The node where a caller waits for its reply, if the run may be on another one. */
    reply_to?: string;
    /** The idempotency key of the request, when its reply is to be kept. */
    key_id?: string;
    /** Only the status of that reply may be kept (`x-pd-nostore`). */
    is_private?: true;
    /** The planned run of a timer that this is: the ledger records how it ended. */
    tick?: { timer_id: string; planned_ms: number };
    /** Where the source has flow control: the keys of the event. */
    flow?: FlowKeys;
    trace?: Traceparent;
  };
  /**
   * Deletes a range of an emitter's events (both ends inclusive, absent: open); accepted with 202. Without a channel:
   * whatever is left in any of them, of an emitter that was removed.
   */
  delete_events: { emitter_id: string; channel?: string; start?: string; end?: string };
  /** Moves an event that waited in `$in` to its channel. */
  deliver_scheduled_event: { emitter_id: string; ms: number; seq: number; trace?: Traceparent };
  /** Makes the deliveries of an event that has more subscribers than one transaction takes. */
  fan_out_event: {
    emitter_id: string;
    owner_id: string;
    channel: string;
    ms: number;
    seq: number;
    emit_id: string;
    hops: number;
    trace?: Traceparent;
    /** Subscribers before this place have their deliveries (delivery/subscriptions/subscription-store.ts). */
    after: { place: number; listenerId: string };
  };
  /** Puts deliveries to a listener that are in some states into another one. */
  change_deliveries: {
    listener_id: string;
    subscription_id?: string;
    replay_id?: string;
    /** Only those that ended (or, if they have not, were made) in this time, epoch ms, both inclusive. */
    since_ms?: number;
    until_ms?: number;
    from: DeliveryState[];
    to: DeliveryState;
    reason: DeliveryReason | null;
  };
  /** Brings an app event to those sources that one transaction had no room for. */
  fan_out_apphook: {
    owner_id: string;
    app: string;
    event_names: string[];
    /** JSON text. */
    event: string;
    /** Sources up to this id have it. */
    after: string;
    /** Only these sources, which had too many waiting runs; absent: all. */
    only?: string[];
  };
  /** Runs a workflow from its first unfinished step on; the job has the id of the run. */
  run_workflow: {
    run_id: string;
    workflow_id: string;
    /** The idempotency key of the request, when its reply is to be kept. */
    key_id?: string;
    /** Where the workflow has flow control: the keys of the event. */
    flow?: FlowKeys;
    trace?: Traceparent;
  };
  /** Removes the runs and deployments of a workflow that was deleted, in batches. */
  delete_workflow: { workflow_id: string };
  /** Sends what a run left to be sent (`run_sends`). */
  send_from_run: { run_id: string; number: number; trace?: Traceparent };
  /** Makes the deliveries of a replay that were not made with it. */
  queue_replay: { replay_id: string };
  /** Finds the components in the history of a Git repository of the registry. */
  update_repository: { repository_id: string };
  /** Makes the workflows of an import that are not made yet. `expires`: ends the import if it still asks. */
  import_project: { import_id: string; expires?: boolean };
  /** Ends and removes everything of a workspace or user that was deleted. `isLate`: what was written after the deletion was done. */
  delete_owner: { deletion_id: string; isLate?: true };
}
