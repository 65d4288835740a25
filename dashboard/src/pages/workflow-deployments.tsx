import { useDeployments } from '~/api/workflow-queries.ts';
import type { Deployment, Workflow } from '~/api/workflow-types.ts';
import { Ago } from '~/parts/ago.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { codeOf, StepCode, StepKind, StepProps } from '~/parts/step-parts.tsx';

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
        Every deployment is a version that never changes; a run keeps the one it began with.
      </p>
      <ol className="deployments">
        {rows.map((deployment, index) => (
          <li key={deployment.id} className="card version">
            <Version
              deployment={deployment}
              before={rows[index + 1]}
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
}: {
  deployment: Deployment;
  before: Deployment | undefined;
  isCurrent: boolean;
}) {
  return (
    <>
      <header className="facts">
        <h2>Version {deployment.number}</h2>
        {isCurrent && <span className="state good">Current</span>}
        <span className="muted">
          <Ago ms={deployment.created_at * 1000} /> by <code>{deployment.user_id}</code>
        </span>
        <span className="with-copy">
          <code>{deployment.id}</code>
          <CopyButton text={deployment.id} label="Copy the id of the deployment" />
        </span>
      </header>
      {before !== undefined && (
        <ul className="changes">
          {changesBetween(before, deployment).map((change) => (
            <li key={change}>{visible(shortened(change, 300))}</li>
          ))}
        </ul>
      )}
      <details>
        <summary>
          {deployment.steps.length} {deployment.steps.length === 1 ? 'step' : 'steps'}
        </summary>
        <ol className="version-steps">
          {deployment.steps.map((step) => (
            <li key={step.id}>
              <strong>{visible(step.namespace)}</strong> <StepKind step={step} />
              {step.disabled && <span className="state off">Disabled</span>}
              <StepProps step={step} />
              <StepCode step={step} />
            </li>
          ))}
        </ol>
      </details>
    </>
  );
}

/** What is other in a version than in the one before, a sentence for each. */
function changesBetween(before: Deployment, after: Deployment): string[] {
  const old = new Map(before.steps.map((step) => [step.namespace, step]));
  const changes: string[] = [];
  for (const step of after.steps) {
    const was = old.get(step.namespace);
    old.delete(step.namespace);
    if (was === undefined) {
      changes.push(`Step ${step.namespace} is new.`);
      continue;
    }
    const parts = [
      codeOf(was) === codeOf(step) ? undefined : 'code',
      was.configured_props_json === step.configured_props_json ? undefined : 'props',
      was.disabled === step.disabled ? undefined : step.disabled ? 'now disabled' : 'no longer disabled',
    ].filter((part) => part !== undefined);
    if (parts.length > 0) changes.push(`Step ${step.namespace} changed: ${parts.join(', ')}.`);
  }
  for (const namespace of old.keys()) changes.push(`Step ${namespace} is gone.`);
  const kept = (one: Deployment, other: Deployment) =>
    one.steps
      .map(({ namespace }) => namespace)
      .filter((namespace) => other.steps.some((step) => step.namespace === namespace))
      .join(' ');
  if (kept(before, after) !== kept(after, before)) changes.push('The order of the steps changed.');
  const [were, are] = [before.settings, after.settings].map(
    (settings) => new Map<string, unknown>(Object.entries(settings ?? {})),
  );
  const names = new Set([...(were?.keys() ?? []), ...(are?.keys() ?? [])]);
  for (const name of names) {
    const [from, to] = [were?.get(name), are?.get(name)].map((value) => JSON.stringify(value) ?? 'nothing');
    if (from !== to) changes.push(`Setting ${name}: ${from} became ${to}.`);
  }
  return changes.length === 0 ? ['Its steps and settings are those of the version before.'] : changes;
}
