import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { Link, useSearch } from 'wouter';
import { MillraceError, type Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useDeployment, useWorkflow } from '~/api/workflow-queries.ts';
import { compare, comparedDeployment } from '~/editing/definition-diff.ts';
import { useWorkflowDraft } from '~/editing/use-workflow-draft.ts';
import { definitionOf, draftOf, type WorkflowDraft } from '~/editing/workflow-draft.ts';
import { DefinitionChanges } from '~/parts/definition-changes.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { type Refusal, WorkflowEditor } from './workflow-editor.tsx';

/** Edits an existing workflow; the result is another deployment. */
export function EditWorkflowPage({ id }: { id: string }) {
  const workflow = useWorkflow(id);
  return (
    <LoadedPage query={workflow} title={`Edit ${id}`} list={{ href: '/workflows', name: 'All workflows' }}>
      {(data) => <Gate workflow={data} />}
    </LoadedPage>
  );
}

function Gate({ workflow }: { workflow: Workflow }) {
  const mayWrite = useMayWrite(workflow.owner_id);
  if (mayWrite === true) return <Edit workflow={workflow} />;
  return (
    <PageFrame title={`Edit ${workflow.name}`}>
      {mayWrite === undefined ? (
        <Loading />
      ) : (
        <Empty title="You can look at this workflow, and not change it">
          <p>
            <Link href={`/workflows/${workflow.id}?tab=steps`}>Its triggers and steps</Link> are there to be
            read. To change them, ask an admin of its workspace for the role of a member.
          </p>
        </Empty>
      )}
    </PageFrame>
  );
}

function Edit({ workflow }: { workflow: Workflow }) {
  const { id, deployment_id } = workflow;
  const asked = new URLSearchParams(useSearch());
  const queries = useQueryClient();
  const present = useMemo(
    () => ({ deploymentId: deployment_id, draft: draftOf(workflow) }),
    [workflow, deployment_id],
  );
  const editing = useWorkflowDraft(id, present);
  const { draft, base, isChanged } = editing;
  const isOld = base.deploymentId !== deployment_id;
  const deploy = useMutation({
    mutationFn: async (sent: WorkflowDraft) => {
      try {
        const answer = await api<Data<Workflow>>('POST', `/v1/workflows/${id}/deployments`, {
          body: { ...definitionOf(sent), follows: base.deploymentId },
        });
        return { workflow: answer.data, sent };
      } catch (error) {
        if (error instanceof MillraceError && error.code === 'conflict')
          void queries.invalidateQueries({ queryKey: ['workflow', id] });
        throw error;
      }
    },
    onSuccess: ({ workflow: deployed }) => {
      queries.setQueryData(['workflow', id], deployed);
      for (const key of ['workflows', 'deployments', 'subscriptions', 'sources'])
        void queries.invalidateQueries({ queryKey: [key] });
      editing.restart({ deploymentId: deployed.deployment_id, draft: draftOf(deployed) });
    },
  });
  const { restart } = editing;
  // An unchanged draft follows the current deployment.
  useEffect(() => {
    if (isOld && !isChanged && !deploy.isPending) restart(present);
  });
  const refusal: Refusal | undefined =
    deploy.error === null || deploy.variables === undefined
      ? undefined
      : { error: deploy.error, sent: deploy.variables };
  const isConflict = refusal?.error instanceof MillraceError && refusal.error.code === 'conflict';
  return (
    <PageFrame
      title={`Edit ${workflow.name}`}
      lead={
        <p className="muted">
          <Link href={`/workflows/${id}`}>Back to the workflow</Link>
        </p>
      }
    >
      {isOld && isChanged && (
        <ChangedMeanwhile
          workflow={workflow}
          base={base.deploymentId}
          onKeep={() => {
            deploy.reset();
            editing.follow(present);
          }}
          onTake={() => {
            deploy.reset();
            restart(present);
          }}
        />
      )}
      <WorkflowEditor
        editing={editing}
        workflow={workflow}
        ownerId={workflow.owner_id}
        refusal={isConflict && isOld ? undefined : refusal}
        begin={{ step: asked.get('step') ?? undefined, runId: asked.get('run') ?? undefined }}
      >
        <button
          type="button"
          className="button primary"
          disabled={!isChanged || isOld || deploy.isPending || draft.name.trim() === ''}
          onClick={() => deploy.mutate(draft)}
        >
          {deploy.isPending ? 'Deploying …' : 'Deploy'}
        </button>
        <span className="hint" role="status">
          {deploy.isPending
            ? 'Its code is built and its props are checked; this can take a while.'
            : deploy.isSuccess && !isChanged
              ? `Deployed. New runs have it; those under way end with the version they began with.${workflow.active ? '' : ' The workflow is inactive: nothing triggers it.'}`
              : ''}
        </span>
      </WorkflowEditor>
    </PageFrame>
  );
}

/** Another version was deployed since the editing began. */
function ChangedMeanwhile({
  workflow,
  base,
  onKeep,
  onTake,
}: {
  workflow: Workflow;
  base: string | null;
  onKeep: () => void;
  onTake: () => void;
}) {
  const before = useDeployment(base ?? undefined);
  return (
    <section className="card edit-section" aria-labelledby="changed-meanwhile" role="alert">
      <h2 id="changed-meanwhile">Another version was deployed in the meantime</h2>
      {before.data !== undefined && (
        <DefinitionChanges
          changes={compare(comparedDeployment(before.data), comparedDeployment(workflow))}
          none="Its steps and settings are the same; its triggers may differ."
        />
      )}
      {before.error !== null && <Problem error={before.error} />}
      <p>
        Your changes are still here. If you keep them, your next deployment replaces the other version, which
        stays in the list of versions.
      </p>
      <div className="edit-row">
        <button type="button" className="button" onClick={onKeep}>
          Keep my changes
        </button>
        <button type="button" className="button danger" onClick={onTake}>
          Discard my changes
        </button>
      </div>
    </section>
  );
}
