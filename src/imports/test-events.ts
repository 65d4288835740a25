import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Tx } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { findTestEvent, putTestEvent } from '#workflows/definitions/test-event-store.ts';
import type { ForeignProject } from './project.ts';

/** Maximum of the events of one source that one workflow gets. */
const eventsOfSourceMax = 5;
/** Maximum of the events that one workflow gets. */
const eventsMax = 20;

export interface TestEvent {
  name: string;
  event: unknown;
}

/** By the id of a workflow there: the last events of the sources that it listens to. */
export function testEventsIn({ workflows, objects }: ForeignProject): Map<string, TestEvent[]> {
  const events = new Map((objects?.sources ?? []).map((source) => [source.id, source.events]));
  const subscriptions = (objects?.subscriptions ?? []).filter(({ eventName }) => eventName === '');
  return new Map(
    workflows.map(({ id, triggers }) => {
      const subscribed = subscriptions.filter(({ listenerId }) => listenerId === id);
      const emitters = [...triggers.map((trigger) => trigger.id), ...subscribed.map((one) => one.emitterId)];
      const found = [...new Set(emitters)].flatMap((emitter) =>
        (events.get(emitter) ?? []).slice(0, eventsOfSourceMax),
      );
      const named = found.map(({ id: eventId, event }) => ({ name: `imported ${eventId}`, event }));
      return [id, named.slice(0, eventsMax)];
    }),
  );
}

/** Test events of the same name stay. What a workflow has no room for is left out. */
export async function putTestEvents(
  tx: Tx,
  workflow: Pick<WorkflowTable, 'id' | 'owner_id'>,
  events: readonly TestEvent[],
  nowMs: number,
): Promise<void> {
  for (const { name, event } of events) {
    if ((await findTestEvent(tx, workflow.id, name)) !== undefined) continue;
    try {
      await putTestEvent(tx, {
        ...{ id: newId('te'), workflow_id: workflow.id, owner_id: workflow.owner_id, name },
        ...{ event: JSON.stringify(event), source_type: 'COMPONENT', created_at_ms: nowMs },
      });
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      return;
    }
  }
}
