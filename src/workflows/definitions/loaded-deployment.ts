import type { PropDefinition } from '#components/component-shape.ts';
import { distinctPackages } from '#runner/loadable-packages.ts';
import type { Bundle, BundlePackages } from '#runner/runner.ts';
import type { OpenVariables } from '#user-data/variables/variables.ts';
import type { Redactor } from '#vault/redact.ts';
import type { BlockDefinition } from './block-definition.ts';
import type { StepRetries, WorkflowSettings } from './workflow-definition.ts';

/** Everything needed to run a deployment, loaded once and kept while it is in use. Made by load-deployment.ts. */
export interface LoadedDeployment {
  id: string;
  workflowId: string;
  ownerId: string;
  workflowName: string;
  projectId: string | null;
  settings: WorkflowSettings;
  steps: LoadedStep[];
  /** What steps have as files. */
  packages: BundlePackages[];
  /** The trust domain whose code it may share processes with. */
  trustDomain: string;
  /** Accounts whose credentials are in the props of steps. */
  accountIds: string[];
  /** The time (epoch ms) from which credentials must be read again; null: they are valid until they are changed. */
  freshUntilMs: number | null;
  /** The variables in its `process.env`: never stored, never logged. */
  variables: OpenVariables;
  /** Names this state of code, props, credentials and variables: code is evaluated again for another one. */
  revision: string;
  /** Replaces known secret values (credentials, secret props, secret variables) in whatever leaves a run. */
  redact: Redactor;
}

export function packagesOf(steps: readonly Pick<LoadedStep, 'bundle'>[]): BundlePackages[] {
  return distinctPackages(steps.map(({ bundle }) => bundle));
}

export interface LoadedStep {
  /** c_… */
  id: string;
  namespace: string;
  disabled: boolean;
  bundle: Bundle;
  definitions: PropDefinition[];
  /** What `this.<prop>` is made from, as in the runner's CallRequest; credentials included: never stored, never logged. */
  props: Record<string, unknown>;
  dynamicProps: Record<string, unknown> | undefined;
  /** It has a `$.service.db` prop: its state is kept under the step's id. */
  usesDb: boolean;
  /** Absent: a step that is no block. */
  block?: BlockDefinition;
  /** As in `StepDefinition`. */
  timeoutSeconds?: number;
  retries?: StepRetries;
}
