import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { bundleOf } from '#components/component-store.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { type ConfiguredProps, draftProps, isRecord, validateProps } from '#components/validate-props.ts';
import type { Bundle } from '#runner/runner.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { makeRedactor, type Redactor, secretValues } from '#vault/redact.ts';
import { checkAccounts } from './check-accounts.ts';
import { type DeploymentContext, stringsIn } from './deployment.ts';
import { openAccounts } from './open-accounts.ts';
import { isSecretProp } from './sealed-props.ts';
import { accountProps, refuseMasked, runtimeProps, timerSchedules, undefinedProps } from './source-props.ts';

/** A component that is not deployed, with the values it has so far: ready to be asked something. */
export interface OpenedComponent {
  bundle: Bundle;
  /** The static ones, then the additional ones. */
  definitions: PropDefinition[];
  /** What `this.<prop>` is made from, credentials included: never stored, never logged. */
  props: Record<string, unknown>;
  dynamicProps: Record<string, unknown> | undefined;
  redact: Redactor;
}

/**
 * `values` may be incomplete. Accounts in them have to belong to `owners`, and their use is on record under the component.
 * Throws `invalid_prop`, `invalid_component` for dynamic props of an unknown type, and what opening accounts throws.
 */
export async function openComponent(
  db: Db,
  component: Pick<ComponentTable, 'id' | 'owner_id' | 'bundle_hash' | 'shape'>,
  given: {
    values: ConfiguredProps;
    dynamicProps: readonly PropDefinition[];
    owners: readonly string[];
    context: Pick<DeploymentContext, 'credentials'>;
  },
): Promise<OpenedComponent> {
  const { configurableProps, hasAdditionalProps } = JSON.parse(component.shape) as ComponentShape;
  const bundle = await bundleOf(db, component);
  const dynamic = dynamicDefinitions(configurableProps, given);
  refuseUnknownTypes(dynamic, 'dynamic_props');
  const definitions = [...configurableProps, ...dynamic];
  refuseMasked(given.values);
  const incomplete = definitions.map((definition) => ({ ...definition, optional: true }));
  // The code may have given a prop another type since.
  const values = hasAdditionalProps
    ? draftProps(incomplete, given.values, { expressions: true }).values
    : validateProps(incomplete, given.values, { unknown: 'keep', expressions: true });
  timerSchedules(definitions, values);
  const accounts = accountProps(definitions, values);
  await checkAccounts(db, accounts, given.owners, []);
  const { credentials } = await openAccounts(given.context.credentials, accounts, {
    definitions,
    owners: given.owners,
    usedBy: component.id,
  });
  const secrets = definitions.filter(isSecretProp).flatMap(({ name }) => stringsIn(values[name]));
  return {
    bundle,
    definitions,
    props: {
      ...undefinedProps(definitions, values),
      ...runtimeProps(definitions, values, { endpointUrl: undefined, credentials }),
    },
    dynamicProps:
      dynamic.length === 0
        ? undefined
        : Object.fromEntries(dynamic.map((definition) => [definition.name, definition])),
    redact: makeRedactor([...[...credentials.values()].flatMap(secretValues), ...secrets]),
  };
}

/** The given definitions that are not static, and an app for each account in the place of an undefined prop. */
function dynamicDefinitions(
  configurableProps: readonly PropDefinition[],
  { values, dynamicProps }: { values: ConfiguredProps; dynamicProps: readonly PropDefinition[] },
): PropDefinition[] {
  const known = new Set(configurableProps.map(({ name }) => name));
  const dynamic: PropDefinition[] = [];
  const add = (definition: PropDefinition) => {
    if (known.has(definition.name)) return;
    known.add(definition.name);
    dynamic.push(definition);
  };
  for (const definition of dynamicProps) add(definition);
  for (const [name, value] of Object.entries(values))
    if (isRecord(value) && typeof value.authProvisionId === 'string') add({ name, type: 'app' });
  return dynamic;
}
