import type { PropDefinition } from '#components/component-shape.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';

/** Seals and opens single values; bound to their owner and to `id`, so that none can be put in another's place. */
export interface ValueSealer {
  seal(ownerId: string, id: string, value: unknown): Promise<string>;
  /** Throws UnavailableError `wrong_encryption_key` or `sealed_value_damaged`. */
  open(ownerId: string, id: string, sealed: string): Promise<unknown>;
}

type SealedColumns = Pick<SourceTable, 'configured_props' | 'sealed_props'>;

/** Secret props of a source: those its code calls secret. Interfaces and accounts hold no secret value of their own. */
export function isSecretProp(definition: PropDefinition): boolean {
  return definition.secret === true && definition.type !== 'app' && !definition.type.startsWith('$.');
}

/** Names of the props whose values are kept sealed. */
export function sealedNames(source: Pick<SourceTable, 'sealed_props'>): string[] {
  return source.sealed_props === null ? [] : Object.keys(JSON.parse(source.sealed_props) as object);
}

/** The columns that keep `values`, those named `secret` sealed for this source and their prop. */
export async function sealValues(
  sealer: ValueSealer,
  source: Pick<SourceTable, 'id' | 'owner_id'>,
  values: ConfiguredProps,
  secret: ReadonlySet<string>,
): Promise<SealedColumns> {
  const plain: ConfiguredProps = {};
  const sealed: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    if (secret.has(name)) sealed[name] = await sealer.seal(source.owner_id, objectId(source.id, name), value);
    else plain[name] = value;
  }
  return {
    configured_props: JSON.stringify(plain),
    sealed_props: Object.keys(sealed).length === 0 ? null : JSON.stringify(sealed),
  };
}

/** All values as the caller gave them, secrets opened: for running the source, never to be stored or answered. */
export async function openValues(
  sealer: Pick<ValueSealer, 'open'>,
  source: SealedColumns & Pick<SourceTable, 'id' | 'owner_id'>,
): Promise<ConfiguredProps> {
  const values = JSON.parse(source.configured_props) as ConfiguredProps;
  if (source.sealed_props === null) return values;
  for (const [name, sealed] of Object.entries(JSON.parse(source.sealed_props) as Record<string, string>))
    values[name] = await sealer.open(source.owner_id, objectId(source.id, name), sealed);
  return values;
}

/** True when a sealed value is lost permanently: it was changed, or its data key is gone. A wrong master key is no such loss. */
export function isLost(error: unknown): boolean {
  return error instanceof UnavailableError && error.code === 'sealed_value_damaged';
}

function objectId(sourceId: string, prop: string): string {
  return `${sourceId}:${prop}`;
}
