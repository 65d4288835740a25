import { createHash } from 'node:crypto';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { bundleOf, componentShapes, findComponent } from '#components/component-store.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { must } from '#lib/assert.ts';
import type { Bundle } from '#runner/runner.ts';
import { trustDomainOf } from '#runner/trust-domain.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { makeRedactor, type Redactor, secretValues } from '#vault/redact.ts';
import { type CredentialsFor, openAccounts } from './open-accounts.ts';
import { isSecretProp, openValues, sealedNames, type ValueSealer } from './sealed-props.ts';
import { accountProps, runtimeProps } from './source-props.ts';
import { accountsOf, type SourceAccount } from './source-store.ts';

/** Everything needed to run a source's code, loaded once and kept while the source is busy. */
export interface Deployment {
  source: SourceTable;
  shape: ComponentShape;
  bundle: Bundle;
  definitions: PropDefinition[];
  /** What `this.<prop>` is made from, credentials included: never stored, never logged. */
  props: Record<string, unknown>;
  /** Static and dynamic definitions differ only when additionalProps returned some. */
  dynamicProps: Record<string, unknown> | undefined;
  /** Names this state of code, props and credentials: code is evaluated again for another one. */
  revision: string;
  /** The trust domain whose code it may share processes with. */
  trustDomain: string;
  /** Accounts whose credentials are in `props`. */
  accountIds: string[];
  /** The time (epoch ms) from which credentials must be read again; null: they are valid until they are changed. */
  freshUntilMs: number | null;
  /** Replaces known secret values in whatever leaves the run. */
  redact: Redactor;
}

/** What a deployment needs from others. */
export interface DeploymentContext {
  /** Keeps the values of secret props. */
  sealer: ValueSealer;
  endpointUrl(key: string | null): string | undefined;
  credentials: CredentialsFor;
}

/** Static definitions with those that additionalProps left in the place of some, in order, then those it added. */
export function mergedDefinitions(shape: ComponentShape, dynamicProps: string | null): PropDefinition[] {
  if (dynamicProps === null) return shape.configurableProps;
  const dynamic = JSON.parse(dynamicProps) as Record<string, PropDefinition>;
  const names = new Set(shape.configurableProps.map((definition) => definition.name));
  return [
    // A whole definition: nothing of the old one is valid for another type.
    ...shape.configurableProps.map((definition) => {
      const { name } = definition;
      const changed = Object.hasOwn(dynamic, name) ? dynamic[name] : undefined;
      return changed === undefined ? definition : { ...changed, name };
    }),
    ...Object.entries(dynamic)
      .filter(([name]) => !names.has(name))
      .map(([name, definition]) => ({ ...definition, name })),
  ];
}

/** Definitions of many sources, for showing them: one query for all their components. */
export async function loadSourceDefinitions(
  db: Db,
  sources: readonly SourceTable[],
): Promise<Map<string, PropDefinition[]>> {
  const shapes = await componentShapes(db, [...new Set(sources.map((source) => source.component_id))]);
  return new Map(
    sources.map((source) => {
      const shape = shapes.get(source.component_id);
      return [
        source.id,
        shape === undefined
          ? []
          : mergedDefinitions(JSON.parse(shape) as ComponentShape, source.dynamic_props),
      ];
    }),
  );
}

export async function loadDeployment(
  db: Db,
  source: SourceTable,
  context: DeploymentContext,
): Promise<Deployment> {
  const component = must(
    await findComponent(db, source.component_id),
    `component ${source.component_id} of ${source.id}`,
  );
  return makeDeployment(db, source, component, context);
}

/** `given`: what is not in the store yet. Throws `not_found` for an account that is not there or not the source's to use. */
export async function makeDeployment(
  db: Db,
  source: SourceTable,
  component: Pick<ComponentTable, 'id' | 'owner_id' | 'bundle_hash' | 'shape'>,
  context: DeploymentContext,
  given: { values?: ConfiguredProps; accounts?: readonly SourceAccount[] } = {},
): Promise<Deployment> {
  const shape = JSON.parse(component.shape) as ComponentShape;
  const bundle = await bundleOf(db, component);
  const definitions = mergedDefinitions(shape, source.dynamic_props);
  const values = given.values ?? (await openValues(context.sealer, source));
  const accounts = accountProps(definitions, values);
  const granted = given.accounts ?? (accounts.length === 0 ? [] : await accountsOf(db, source.id));
  const owners = [source.owner_id, ...granted.map((account) => account.owner_id)];
  const { credentials, freshUntilMs } = await openAccounts(context.credentials, accounts, {
    definitions,
    owners,
    usedBy: source.id,
  });
  const secretNames = [
    ...definitions.filter(isSecretProp).map((definition) => definition.name),
    ...sealedNames(source),
  ];
  const secrets = secretNames.flatMap((name) => stringsIn(values[name]));
  const props = runtimeProps(definitions, values, {
    endpointUrl: context.endpointUrl(source.endpoint_key),
    credentials,
  });
  const digest = createHash('sha256').update(JSON.stringify(props)).digest('hex').slice(0, 16);
  return {
    source,
    shape,
    bundle,
    definitions,
    props,
    revision: `${source.revision}-${digest}`,
    trustDomain: trustDomainOf(source.owner_id, owners),
    accountIds: accounts.map(({ accountId }) => accountId),
    freshUntilMs,
    dynamicProps:
      source.dynamic_props === null
        ? undefined
        : (JSON.parse(source.dynamic_props) as Record<string, unknown>),
    redact: makeRedactor([...[...credentials.values()].flatMap(secretValues), ...secrets]),
  };
}

/** Every text in a value, for redacting it. */
export function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}
