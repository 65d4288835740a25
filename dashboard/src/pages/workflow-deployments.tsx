import { useState } from 'react';
import type { Deployment, Workflow, WorkflowStep } from '#sdk';
import { useDeployments } from '~/api/workflow-queries.ts';
import { type StepNode, treeOf } from '~/editing/blocks.ts';
import { compare, comparedDeployment, sentencesOf } from '~/editing/definition-diff.ts';
import { Ago } from '~/parts/ago.tsx';
import { BlockParts } from '~/parts/block-parts.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { DefinitionChanges } from '~/parts/definition-changes.tsx';
import { OwnerLabel } from '~/parts/owner-label.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { StepCode, StepKind, StepProps } from '~/parts/step-parts.tsx';

/** Versions, newest first, each with what is other than in the one before. */
export function WorkflowDeployments({ workflow }: { workflow: Workflow }) {
  const deployments = useDeployments(workflow.id);
  if (deployments.data === undefined) {
    return deployments.error === null ? (
      <Loading what="Loading deployments" />
    ) : (
      <Problem error={deployments.error} onRetry={() => void deployments.refetch()} />
    );
  }
  const rows = deployments.data.pages.flatMap(({ data }) => data);
  return (
    <>
      <p className="muted">
        Every deployment is a version that never changes; a run keeps the one it began with. Triggers belong
        to the workflow and are the same for all of them.
      </p>
      {rows.length > 1 && <Between versions={rows} />}
      <ol className="deployments">
        {rows.map((deployment, index) => (
          <li key={deployment.id} className="card version">
            <Version
              deployment={deployment}
              before={rows[index + 1]}
              ownerId={workflow.owner_id}
              isCurrent={deployment.id === workflow.deployment_id}
            />
          </li>
        ))}
      </ol>
      {deployments.hasNextPage && (
        <button
          type="button"
          className="button"
          disabled={deployments.isFetchingNextPage}
          onClick={() => void deployments.fetchNextPage()}
        >
          {deployments.isFetchingNextPage ? 'Loading …' : 'Earlier versions'}
        </button>
      )}
      {deployments.error !== null && <Problem error={deployments.error} />}
    </>
  );
}

function Version({
  deployment,
  before,
  isCurrent,
  ownerId,
}: {
  deployment: Deployment;
  before: Deployment | undefined;
  isCurrent: boolean;
  ownerId: string;
}) {
  return (
    <>
      <header className="facts">
        <h2>Version {deployment.number}</h2>
        {isCurrent && <span className="state good">Current</span>}
        <span className="muted">
          <Ago ms={deployment.created_at * 1000} /> by{' '}
          <OwnerLabel id={deployment.user_id} ownerId={ownerId} />
        </span>
        <span className="with-copy">
          <code>{deployment.id}</code>
          <CopyButton text={deployment.id} label="Copy the id of the deployment" />
        </span>
      </header>
      {before !== undefined && <SinceBefore before={before} deployment={deployment} />}
      <details>
        <summary>
          {deployment.steps.length} {deployment.steps.length === 1 ? 'step' : 'steps'}
        </summary>
        <ol className="version-steps">
          {treeOf(deployment.steps).map((node) => (
            <li key={node.step.id}>
              <VersionStep node={node} />
            </li>
          ))}
        </ol>
      </details>
    </>
  );
}

function VersionStep({ node: { step, parts } }: { node: StepNode<WorkflowStep> }) {
  return (
    <>
      <strong>{visible(step.namespace)}</strong> <StepKind step={step} />
      {step.disabled && <span className="state off">Disabled</span>}
      <StepProps step={step} />
      <StepCode step={step} />
      <BlockParts blockKind={step.block?.block} parts={parts} draw={(node) => <VersionStep node={node} />} />
    </>
  );
}

/** What is other in a version than in the one before: in sentences, and line by line when it is opened. */
function SinceBefore({ before, deployment }: { before: Deployment; deployment: Deployment }) {
  const [open, setOpen] = useState(false);
  const changes = compare(comparedDeployment(before), comparedDeployment(deployment));
  const sentences = sentencesOf(changes);
  return (
    <>
      <ul className="changes">
        {sentences.map((sentence) => (
          <li key={sentence}>{visible(shortened(sentence, 300))}</li>
        ))}
        {sentences.length === 0 && <li>{same}</li>}
      </ul>
      {sentences.length > 0 && (
        <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>What changed since version {before.number}</summary>
          {open && <DefinitionChanges changes={changes} none={same} />}
        </details>
      )}
    </>
  );
}

const same = 'Its steps and settings are those of the version before.';

/** Any two of the versions that are shown. */
function Between({ versions }: { versions: readonly Deployment[] }) {
  const [from, setFrom] = useState(versions[1]?.id);
  const [to, setTo] = useState(versions[0]?.id);
  const [isShown, setIsShown] = useState(false);
  const before = versions.find(({ id }) => id === from);
  const after = versions.find(({ id }) => id === to);
  return (
    <section className="card edit-section" aria-label="Compare two versions">
      <div className="versions-between">
        <VersionChoice name="Compare version" versions={versions} chosen={from} onChosen={setFrom} />
        <VersionChoice name="with version" versions={versions} chosen={to} onChosen={setTo} />
        <button type="button" className="button" aria-expanded={isShown} onClick={() => setIsShown(!isShown)}>
          {isShown ? 'Hide the differences' : 'Show the differences'}
        </button>
      </div>
      {isShown && before !== undefined && after !== undefined && (
        <DefinitionChanges
          changes={compare(comparedDeployment(before), comparedDeployment(after))}
          none="Their steps and settings are the same."
        />
      )}
    </section>
  );
}

function VersionChoice({
  name,
  versions,
  chosen,
  onChosen,
}: {
  name: string;
  versions: readonly Deployment[];
  chosen: string | undefined;
  onChosen: (id: string) => void;
}) {
  return (
    <label className="check">
      {name}
      <select className="select small" value={chosen} onChange={(event) => onChosen(event.target.value)}>
        {versions.map(({ id, number }) => (
          <option key={id} value={id}>
            {number}
          </option>
        ))}
      </select>
    </label>
  );
}
