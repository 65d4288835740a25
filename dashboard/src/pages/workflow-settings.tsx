import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { WorkflowSettings as SettingsOf, Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { ActivityCard } from '~/parts/activity-card.tsx';
import { DeleteCard } from '~/parts/delete-card.tsx';
import { EndedSubscriptions } from '~/parts/ended-subscriptions.tsx';
import { flowControlWords } from '~/parts/flow-control-words.ts';
import { formatDuration, formatNumber } from '~/parts/format.ts';
import { MakeTemplate } from '~/parts/make-template.tsx';

/** The run settings of a workflow, and the actions that the user may take. */
export function WorkflowSettings({ workflow, mayWrite }: { workflow: Workflow; mayWrite: boolean }) {
  return (
    <>
      <section className="card" aria-labelledby="settings">
        <h2 id="settings">How it runs</h2>
        <Settings settings={workflow.settings} />
      </section>
      {mayWrite ? (
        <>
          <Activity workflow={workflow} />
          <MakeTemplate workflow={workflow} />
          <Remove workflow={workflow} />
        </>
      ) : (
        <p className="muted">
          You can look at this workflow; changing it takes the role of a member in its workspace.
        </p>
      )}
    </>
  );
}

function Settings({ settings }: { settings: SettingsOf | null }) {
  if (settings === null) return <p className="muted">It has no deployment.</p>;
  const { timeout_seconds, memory_mb, auto_retry, concurrency, throttle, queue_size, isolated } = settings;
  const facts: [string, string][] = [
    [
      'Longest time of a step',
      timeout_seconds === null
        ? '30 s in runs that a request or a mail started, else 60 s'
        : formatDuration(timeout_seconds * 1000),
    ],
    ['Memory of a step', `${formatNumber(memory_mb)} MB`],
    ['A step that fails', auto_retry ? 'is tried again, 8 times in about ten hours' : 'ends the run'],
    ['Runs at the same time', concurrency === null ? 'any number' : `at most ${formatNumber(concurrency)}`],
    [
      'Runs that begin',
      throttle === null
        ? 'at once'
        : `at most ${formatNumber(throttle.limit)} in each ${formatNumber(throttle.seconds)} s`,
    ],
    ['Process', isolated ? 'its own' : 'shared with other code of the owner'],
    ...(settings.flow_control === null ? [] : flowControlWords(settings.flow_control)),
    ['Events that wait for their turn', `at most ${formatNumber(queue_size)}; those beyond are dropped`],
  ];
  return (
    <dl className="props">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Activity({ workflow }: { workflow: Workflow }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: async (active: boolean) =>
      (await api<Data<Workflow>>('PUT', `/v1/workflows/${workflow.id}`, { body: { active } })).data,
    onSuccess: (changed) => {
      queries.setQueryData(['workflow', workflow.id], changed);
      void queries.invalidateQueries({ queryKey: ['workflows'] });
    },
  });
  return (
    <ActivityCard
      active={workflow.active}
      meaning={{
        active:
          'An inactive workflow keeps its runs, endpoint URLs and subscriptions, but nothing triggers it: timers stop, and requests to its endpoints get 404. Runs under way continue.',
        inactive:
          'Nothing triggers the workflow. When you activate it, its timers restart and its endpoints accept requests.',
      }}
      change={change}
      onChange={(active) => change.mutate(active)}
    />
  );
}

function Remove({ workflow }: { workflow: Workflow }) {
  return (
    <DeleteCard
      kind="workflow"
      object={workflow}
      text="Deletes the workflow with its runs, versions and endpoint URLs. This cannot be undone."
      hookFailure="The deactivate hook of a source failed, so all is still there."
    >
      <li>Runs under way are stopped; what their steps have done stays done.</li>
      <li>All its runs, with what they exported and printed, and all its versions are deleted.</li>
      <li>Its addresses are gone for good: senders get 404, and a new workflow gets others.</li>
      <li>Sources that came with it are deleted too, after their deactivate hook; others stay.</li>
      <li>
        <EndedSubscriptions id={workflow.id} ownerId={workflow.owner_id} />
      </li>
    </DeleteCard>
  );
}
