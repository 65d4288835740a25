import type { Subscription, Workflow } from '#sdk';

/** The subscriptions of a workflow that are not those of its triggers: a source has one, and so have failed runs. */
export function heardBy<S extends Pick<Subscription, 'listener_id' | 'emitter_id' | 'event_name'>>(
  workflow: Pick<Workflow, 'id' | 'triggers'> | undefined,
  subscriptions: readonly S[],
): S[] {
  if (workflow === undefined) return [];
  const isOfTrigger = ({ emitter_id, event_name }: S) =>
    workflow.triggers.some(({ type, id }) =>
      type === 'on_failure' ? emitter_id === 'p_*' && event_name === '$errors' : id === emitter_id,
    );
  return subscriptions.filter((one) => one.listener_id === workflow.id && !isOfTrigger(one));
}
