import { Link } from 'wouter';
import type { Workflow, WorkflowTrigger } from '#sdk';
import { useMayWrite } from '~/api/rights.ts';
import { useWorkflow } from '~/api/workflow-queries.ts';
import { dropDraft, useKeptDraft } from '~/editing/kept-draft.ts';
import { Ago } from '~/parts/ago.tsx';
import { Command, CopyButton } from '~/parts/copy.tsx';
import { HealthBadge, HealthNote } from '~/parts/health.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { MapLink } from '~/parts/map-link.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { WorkflowDeployments } from './workflow-deployments.tsx';
import { WorkflowGraph } from './workflow-graph.tsx';
import { WorkflowRuns } from './workflow-runs.tsx';
import { WorkflowSettings } from './workflow-settings.tsx';
import { WorkflowTestEvents } from './workflow-test-events.tsx';

export function WorkflowPage({ id }: { id: string }) {
  const workflow = useWorkflow(id);
  return (
    <LoadedPage
      query={workflow}
      title={`Workflow ${id}`}
      list={{ href: '/workflows', name: 'All workflows' }}
    >
      {(data) => <Details workflow={data} />}
    </LoadedPage>
  );
}

function Details({ workflow }: { workflow: Workflow }) {
  const mayWrite = useMayWrite(workflow.owner_id) === true;
  const kept = useKeptDraft(workflow.id);
  return (
    <PageFrame
      title={workflow.name}
      lead={
        <p className="muted facts">
          <HealthBadge health={workflow.health} />
          <span className="with-copy">
            <code>{workflow.id}</code>
            <CopyButton text={workflow.id} label="Copy the id" />
          </span>
          <span>
            {workflow.steps.length} {workflow.steps.length === 1 ? 'step' : 'steps'}
          </span>
          <span>
            changed <Ago ms={workflow.updated_at * 1000} />
          </span>
        </p>
      }
      actions={
        <>
          <MapLink id={workflow.id} ownerId={workflow.owner_id} />
          {mayWrite && (
            <Link href={`/workflows/${workflow.id}/edit`} className="button primary">
              Edit
            </Link>
          )}
        </>
      }
    >
      <HealthNote kind="workflow" id={workflow.id} health={workflow.health} />
      {workflow.warnings.length > 0 && (
        <ul className="note" aria-label="Warnings">
          {workflow.warnings.map((warning) => (
            <li key={warning}>{warning}</li>
          ))}
        </ul>
      )}
      {mayWrite && kept !== undefined && (
        <div className="note edit-row" role="status">
          <span>
            Your changes of <Ago ms={kept.atMs} /> are not deployed.
          </span>
          <Link href={`/workflows/${workflow.id}/edit`} className="button small">
            Continue editing
          </Link>
          <button type="button" className="button small" onClick={() => dropDraft(workflow.id)}>
            Discard
          </button>
        </div>
      )}
      {workflow.triggers.map((trigger) => (
        <Address key={trigger.id} trigger={trigger} isActive={workflow.active} />
      ))}
      <PageTabs
        href={`/workflows/${workflow.id}`}
        tabs={[
          { id: 'runs', name: 'Runs', content: <WorkflowRuns workflow={workflow} /> },
          { id: 'test-events', name: 'Test events', content: <WorkflowTestEvents workflow={workflow} /> },
          { id: 'steps', name: 'Triggers and steps', content: <WorkflowGraph workflow={workflow} /> },
          { id: 'deployments', name: 'Deployments', content: <WorkflowDeployments workflow={workflow} /> },
          {
            id: 'settings',
            name: 'Settings',
            content: <WorkflowSettings workflow={workflow} mayWrite={mayWrite} />,
          },
        ]}
      />
    </PageFrame>
  );
}

/** The endpoint URLs and mail addresses of a workflow. */
function Address({ trigger, isActive }: { trigger: WorkflowTrigger; isActive: boolean }) {
  if (trigger.type !== 'http' && trigger.type !== 'email') return null;
  const text = trigger.type === 'http' ? trigger.endpoint_url : trigger.email_address;
  const isOpen = trigger.type === 'email' || trigger.auth.type === 'none';
  return (
    <section className="card endpoint" aria-label="Address">
      <div>
        <h2>{trigger.type === 'http' ? 'Endpoint URL' : 'Mail address'}</h2>
        <p className="muted">
          {!isActive
            ? 'The workflow is inactive: until it is activated, what comes here is refused.'
            : trigger.type === 'email'
              ? 'Each mail to it is a run.'
              : isOpen
                ? 'Each request to it is a run. Send one from a terminal:'
                : trigger.auth.type === 'oauth'
                  ? 'Each request to it with an access token of an API client of the workspace is a run:'
                  : 'Each request to it with the token of this trigger is a run:'}
        </p>
      </div>
      {trigger.type === 'email' && trigger.warning !== null && <p className="note">{trigger.warning}</p>}
      {trigger.type === 'http' && (
        <Command
          text={`curl -X POST ${text} ${isOpen ? '' : '-H "Authorization: Bearer $TOKEN" '}-H 'content-type: application/json' -d '{"hello": "world"}'`}
        />
      )}
      <p className="with-copy">
        <code className="break">{text}</code>
        <CopyButton text={text} label="Copy the address" />
      </p>
    </section>
  );
}
