interface FailureEvent {
  original_event?: unknown;
  original_context?: { workflow_id?: unknown; source_type?: unknown; emitter_id?: unknown } | null;
}

/**
 * True when a failed run began with a failure that followed from one of this workflow: to run the workflow again would be a circle of
 * workflows that handle each other's failures. `body`: the text of an event on `$errors`. A failure of a workflow names it in its own context;
 * what else a workflow emits is no link of the chain, so that a workflow may handle the failures of runs that its events started.
 */
export function cameThrough(body: string, workflowId: string): boolean {
  let event = asFailure(JSON.parse(body));
  for (;;) {
    const context = event?.original_context;
    const before = asFailure(event?.original_event);
    if (context?.source_type !== 'WORKFLOW') return false;
    if (before?.original_context?.workflow_id !== context.emitter_id) return false;
    if (context.emitter_id === workflowId) return true;
    event = before;
  }
}

function asFailure(event: unknown): FailureEvent | undefined {
  return typeof event === 'object' && event !== null ? event : undefined;
}
