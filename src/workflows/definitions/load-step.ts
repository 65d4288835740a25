import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { bundleOf } from '#components/component-store.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { trustDomainOf } from '#runner/trust-domain.ts';
import { type DeploymentContext, mergedDefinitions, stringsIn } from '#sources/deployment.ts';
import { openAccounts } from '#sources/open-accounts.ts';
import { isSecretProp, openValues, sealedNames } from '#sources/sealed-props.ts';
import { accountProps, runtimeProps } from '#sources/source-props.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { secretValues } from '#vault/redact.ts';
import type { LoadedStep } from './loaded-deployment.ts';
import type { StepDefinition } from './workflow-definition.ts';

/** A step that is ready to run, and what of it must not be seen. */
export interface OpenedStep {
  step: LoadedStep;
  /** The trust domain whose code it may share processes with. */
  trustDomain: string;
  accountIds: string[];
  /** See `Deployment.freshUntilMs`. */
  freshUntilMs: number | null;
  /** Secret texts in its credentials and props. */
  secrets: string[];
}

/** A step as the functions that seal the props of sources take it. */
export function sealedStep(
  step: Pick<StepDefinition, 'id' | 'configuredProps' | 'sealedProps'>,
  ownerId: string,
) {
  return {
    id: step.id,
    owner_id: ownerId,
    configured_props: step.configuredProps,
    sealed_props: step.sealedProps,
  };
}

/**
 * Opens what a step needs. `accountOwners`: whose accounts it may use. Throws `not_found` for an account that is gone
 * or not theirs, UnavailableError when a secret cannot be opened. `values`: props that are not sealed yet.
 */
export async function loadStep(
  db: Db,
  definition: StepDefinition,
  options: {
    ownerId: string;
    /** p_… or sc_… whose code gets the credentials; null: no code does, they are only opened. */
    usedBy: string | null;
    component: Pick<ComponentTable, 'id' | 'owner_id' | 'bundle_hash' | 'shape'>;
    accountOwners: readonly string[];
    context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
    values?: ConfiguredProps;
  },
): Promise<OpenedStep> {
  const { ownerId, component, accountOwners, context } = options;
  const bundle = await bundleOf(db, component);
  const definitions = definitionsOfStep(component, definition.dynamicProps);
  const sealed = sealedStep(definition, ownerId);
  const values = options.values ?? (await openValues(context.sealer, sealed));
  const accounts = accountProps(definitions, values);
  const { credentials, freshUntilMs } = await openAccounts(context.credentials, accounts, {
    definitions,
    owners: accountOwners,
    usedBy: options.usedBy,
  });
  const secretNames = new Set([
    ...definitions.filter(isSecretProp).map(({ name }) => name),
    ...sealedNames(sealed),
  ]);
  return {
    step: {
      id: definition.id,
      namespace: definition.namespace,
      disabled: definition.disabled,
      bundle,
      definitions,
      props: runtimeProps(definitions, values, { endpointUrl: undefined, credentials }),
      dynamicProps:
        definition.dynamicProps === null
          ? undefined
          : (JSON.parse(definition.dynamicProps) as Record<string, unknown>),
      ...(definition.block === undefined ? {} : { block: definition.block }),
      ...(definition.timeoutSeconds === undefined ? {} : { timeoutSeconds: definition.timeoutSeconds }),
      ...(definition.retries === undefined ? {} : { retries: definition.retries }),
      usesDb: definitions.some(({ type }) => type === '$.service.db'),
    },
    trustDomain: trustDomainOf(ownerId, accountOwners),
    accountIds: accounts.map(({ accountId }) => accountId),
    freshUntilMs,
    secrets: [
      ...[...credentials.values()].flatMap(secretValues),
      ...[...secretNames].flatMap((name) => stringsIn(values[name]).flatMap(literalParts)),
    ],
  };
}

export function definitionsOfStep(
  component: Pick<ComponentTable, 'shape'>,
  dynamicProps: string | null,
): PropDefinition[] {
  return mergedDefinitions(JSON.parse(component.shape) as ComponentShape, dynamicProps);
}

/** The literal parts of a secret text: an expression in it is no secret, and its result is not known here. */
function literalParts(text: string): string[] {
  return text.includes('{{') ? text.split(/\{\{[\s\S]*?\}\}/).filter((part) => part !== '') : [text];
}
