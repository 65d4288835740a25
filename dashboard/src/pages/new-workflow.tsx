import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useLocation, useSearch } from 'wouter';
import type { Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useRegistryComponent } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useWorkflowDraft } from '~/editing/use-workflow-draft.ts';
import {
  actionStep,
  definitionOf,
  newTrigger,
  type TriggerKind,
  usualSettings,
  type WorkflowDraft,
} from '~/editing/workflow-draft.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { StartFromExample } from '~/parts/start-from-example.tsx';
import { WorkflowEditor } from './workflow-editor.tsx';

const beginnings: readonly { name: string; text: string; trigger: TriggerKind | null }[] = [
  { name: 'An HTTP request', text: 'It gets an address; each request to it is a run.', trigger: 'http' },
  { name: 'A timer', text: 'It runs again and again, or as a cron expression says.', trigger: 'timer' },
  { name: 'A source', text: 'Each event of a source is a run.', trigger: 'source' },
  { name: 'A mail', text: 'It gets a mail address; each mail to it is a run.', trigger: 'email' },
  { name: 'Nothing yet', text: 'Begin with an empty workflow.', trigger: null },
];

const empty: WorkflowDraft = { name: '', triggers: [], steps: [], settings: usualSettings };

/** Choose what starts it; then a form of all of it. */
export function NewWorkflowPage() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  if (mayWrite === false) {
    return (
      <PageFrame title="New workflow">
        <Empty title="You can look at this workspace, and not change it">
          <p>Ask one of its admins for the role of a member, or choose My own under Showing.</p>
        </Empty>
      </PageFrame>
    );
  }
  return <Create key={ownerId} ownerId={ownerId} />;
}

function Create({ ownerId }: { ownerId: string }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const begin = useMemo(() => ({ deploymentId: null, draft: empty }), []);
  const editing = useWorkflowDraft(`new.${ownerId}`, begin);
  const { draft, isChanged } = editing;
  const [hasBegun, setHasBegun] = useState(isChanged);
  const [isActive, setIsActive] = useState(true);
  const asked = new URLSearchParams(useSearch()).get('component') ?? undefined;
  const action = useRegistryComponent(asked);
  const create = useMutation({
    mutationFn: async (sent: WorkflowDraft) => {
      const { settings, ...definition } = definitionOf(sent);
      const { name, ...rest } = settings;
      return (
        await api<Data<Workflow>>('POST', '/v1/workflows', {
          body: {
            ...definition,
            settings: { ...rest, ...(name === '' ? {} : { name }), auto_deploy: isActive },
            ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
          },
        })
      ).data;
    },
    onSuccess: (workflow) => {
      queries.setQueryData(['workflow', workflow.id], workflow);
      void queries.invalidateQueries({ queryKey: ['workflows'] });
      editing.restart(begin);
      navigate(`/workflows/${workflow.id}`);
    },
  });
  if (!hasBegun && !isChanged) {
    if (asked !== undefined && action.data === undefined) {
      return (
        <PageFrame title="New workflow">
          {action.error === null ? (
            <Loading what="Building the component" />
          ) : (
            <Problem
              error={action.error}
              what="This component cannot be used."
              onRetry={() => void action.refetch()}
            />
          )}
        </PageFrame>
      );
    }
    return (
      <PageFrame title="New workflow">
        {action.data !== undefined && (
          <p className="note">
            Its first step is <bdi>{visible(shortened(action.data.name, 200))}</bdi>.
          </p>
        )}
        <h2>What starts it?</h2>
        <ul className="choices begin">
          {beginnings.map(({ name, text, trigger }) => (
            <li key={name}>
              <button
                type="button"
                className="choice-row as-button"
                onClick={() => {
                  if (trigger !== null || action.data !== undefined)
                    editing.change({
                      triggers: trigger === null ? [] : [newTrigger(trigger)],
                      steps: action.data === undefined ? [] : [actionStep([], action.data)],
                    });
                  setHasBegun(true);
                }}
              >
                <strong>{name}</strong>
                <span className="choice-text">{text}</span>
              </button>
            </li>
          ))}
        </ul>
        <p className="muted">Triggers and steps can be added, changed and removed afterwards.</p>
        {asked === undefined && <StartFromExample ownerId={ownerId} />}
      </PageFrame>
    );
  }
  return (
    <PageFrame title="New workflow">
      {asked !== undefined && !draft.steps.some(({ component }) => component?.name === asked) && (
        <p className="note">
          This workflow was begun before. Add <code>{visible(shortened(asked, 200))}</code> to its steps, or
          start over below.
        </p>
      )}
      <WorkflowEditor
        editing={editing}
        workflow={undefined}
        ownerId={ownerId}
        refusal={
          create.error === null || create.variables === undefined
            ? undefined
            : { error: create.error, sent: create.variables }
        }
      >
        <label className="check">
          <input type="checkbox" checked={isActive} onChange={(event) => setIsActive(event.target.checked)} />
          Activate immediately
        </label>
        <button
          type="button"
          className="button primary"
          disabled={create.isPending}
          onClick={() => create.mutate(draft)}
        >
          {create.isPending ? 'Creating …' : 'Create workflow'}
        </button>
        <button
          type="button"
          className="button quiet"
          onClick={() => {
            editing.restart(begin);
            setHasBegun(false);
            create.reset();
          }}
        >
          Start over
        </button>
        <span className="hint" role="status">
          {create.isPending ? 'Its code is built and its props are checked; this can take a while.' : ''}
        </span>
      </WorkflowEditor>
    </PageFrame>
  );
}
