import type { PropDefinition } from '#components/component-shape.ts';
import { type ConfiguredProps, draftProps } from '#components/validate-props.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { isSecretProp, openValues, sealedNames } from '#sources/sealed-props.ts';
import type { Db } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { openValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';

export interface CompareOptions {
  db: Db;
  vault: Vault;
}

type Stored = Pick<SourceTable, 'id' | 'owner_id' | 'configured_props' | 'sealed_props'>;

/** Props that are here beside those that are imported, to be compared. They hold secrets in clear. */
export interface ComparedProps {
  here: ConfiguredProps;
  there: ConfiguredProps;
  /** Names of props whose values are secret. */
  secretProps: string[];
  /** Their texts here. */
  secrets: string[];
}

export async function comparedProps(
  { db, vault }: CompareOptions,
  stored: Stored,
  { definitions, props }: { definitions: readonly PropDefinition[]; props: ConfiguredProps },
): Promise<ComparedProps> {
  const sealer = {
    open: (ownerId: string, id: string, sealed: string) => openValue(db, vault, { ownerId, id, sealed }),
  };
  const here = await openValues(sealer, stored).catch((error: unknown) => {
    // Values that are lost are as if there were none.
    if (!(error instanceof UnavailableError)) throw error;
    return JSON.parse(stored.configured_props) as ConfiguredProps;
  });
  const secretProps = [
    ...new Set([...definitions.filter(isSecretProp).map(({ name }) => name), ...sealedNames(stored)]),
  ];
  const secrets = secretProps.flatMap((name) => (typeof here[name] === 'string' ? here[name] : []));
  return { here, there: asStored(definitions, props), secretProps, secrets };
}

/** As a deployment stores them: options that were chosen without their labels, data stores by their ids. */
function asStored(definitions: readonly PropDefinition[], props: ConfiguredProps): ConfiguredProps {
  try {
    return draftProps(definitions, props, { expressions: true }).values;
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    return props;
  }
}
