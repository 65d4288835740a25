import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { TestEventSummary, Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useTestEvent, useTestEvents } from '~/api/workflow-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { formatBytes } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { triggerName } from '~/parts/run-state.tsx';

/** Events that are kept with a workflow: what they hold, and a run with one. */
export function WorkflowTestEvents({ workflow }: { workflow: Workflow }) {
  const events = useTestEvents(workflow.id);
  const mayWrite = useMayWrite(workflow.owner_id) === true;
  if (events.data === undefined) {
    if (events.error === null) return <Loading what="Loading test events" />;
    return <Problem error={events.error} onRetry={() => void events.refetch()} />;
  }
  if (events.data.length === 0)
    return (
      <Empty title="No test events yet">
        <p>
          Open a run and press “Keep event”: its event is kept here, to test steps in the editor and to run
          the workflow with it again.
        </p>
      </Empty>
    );
  return (
    <>
      {events.data.map((event) => (
        <TestEventCard key={event.name} event={event} mayWrite={mayWrite} />
      ))}
    </>
  );
}

function TestEventCard({ event, mayWrite }: { event: TestEventSummary; mayWrite: boolean }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [asks, setAsks] = useState(false);
  const path = `/v1/workflows/${event.workflow_id}/test_events/${encodeURIComponent(event.name)}`;
  const run = useMutation({
    mutationFn: async () => (await api<Data<{ run_id: string }>>('POST', `${path}/run`, { body: {} })).data,
    onSuccess: ({ run_id }) => navigate(`/runs/${run_id}`),
  });
  const remove = useMutation({
    mutationFn: () => api('DELETE', path),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['test-events', event.workflow_id] }),
  });
  return (
    <section className="card" aria-label={`Test event ${event.name}`}>
      <div className="tools">
        <h2 className="break">{visible(event.name)}</h2>
        <span className="muted">
          as by {triggerName(event.source_type)}, kept <Ago ms={event.created_at * 1000} />
        </span>
        {mayWrite && (
          <span className="tools-end">
            <button
              type="button"
              className="button low"
              disabled={run.isPending}
              onClick={() => run.mutate()}
            >
              {run.isPending ? 'Starting …' : 'Run the workflow'}
            </button>
            <button type="button" className="button low" onClick={() => setAsks(true)}>
              Delete
            </button>
          </span>
        )}
      </div>
      <WholeEvent event={event} />
      {run.error !== null && <Problem error={run.error} what="Nothing was run." />}
      <Confirm
        open={asks}
        onClose={() => setAsks(false)}
        title="Delete this test event?"
        action="Delete"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
      >
        <p>Runs stay as they are.</p>
        {remove.error !== null && <Problem error={remove.error} />}
      </Confirm>
    </section>
  );
}

/** The event is read when it is opened. */
function WholeEvent({ event: { workflow_id: workflowId, name, bytes } }: { event: TestEventSummary }) {
  const [open, setOpen] = useState(false);
  const whole = useTestEvent(workflowId, name, open);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Event, {formatBytes(bytes)}</summary>
      {open && whole.data !== undefined && <JsonView value={whole.data.event} />}
      {open && whole.isPending && <Loading what="Loading the event" />}
      {whole.error !== null && <Problem error={whole.error} onRetry={() => void whole.refetch()} />}
    </details>
  );
}
