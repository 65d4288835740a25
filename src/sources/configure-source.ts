import { isDeepStrictEqual } from 'node:util';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { type ConfiguredProps, draftProps, validateProps } from '#components/validate-props.ts';
import { newHexKey, newId } from '#lib/ids.ts';
import type { Runner } from '#runner/runner.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { askAdditionalProps, askDeadlineMsMax, throwCause } from './additional-props.ts';
import { type Apphook, apphooksIn, asksEventNames, hasApphook } from './apphooks.ts';
import { checkAccounts } from './check-accounts.ts';
import { type Deployment, type DeploymentContext, makeDeployment, mergedDefinitions } from './deployment.ts';
import { hookError } from './hook-error.ts';
import { refuseVariables } from './refuse-variables.ts';
import type { SourceRuns } from './run-source.ts';
import { isLost, isSecretProp, openValues, sealedNames, sealValues } from './sealed-props.ts';
import {
  accountProps,
  hasHttpInterface,
  keepMaskedSecrets,
  maskedSecret,
  refuseMasked,
  runtimeProps,
  timerSchedules,
  undefinedProps,
} from './source-props.ts';
import { accountsOf, type SourceAccount } from './source-store.ts';

/** What configuring a source makes: its columns, and what is not in them. */
export interface Configured {
  columns: Pick<
    SourceTable,
    'configured_props' | 'sealed_props' | 'dynamic_props' | 'apphooks' | 'endpoint_key'
  >;
  definitions: PropDefinition[];
  accounts: SourceAccount[];
}

interface Subject {
  source: SourceTable;
  component: ComponentTable;
  /** The caller: their own accounts may be used, those of other users not. */
  callerId: string;
}

/** Checks the values of a source against its component, which may have a say in them (additionalProps). */
export class SourceConfigurer {
  readonly #db: Db;
  readonly #runner: Pick<Runner, 'forget'>;
  readonly #runs: Pick<SourceRuns, 'call'>;
  readonly #context: DeploymentContext;

  constructor(options: {
    db: Db;
    runner: Pick<Runner, 'forget'>;
    runs: Pick<SourceRuns, 'call'>;
    context: DeploymentContext;
  }) {
    this.#db = options.db;
    this.#runner = options.runner;
    this.#runs = options.runs;
    this.#context = options.context;
  }

  /** The values of a new source. */
  async configure(subject: Subject, values: ConfiguredProps): Promise<Configured> {
    refuseVariables(values);
    refuseMasked(values);
    return this.#configure(subject, values, { unknown: 'refuse', sealed: [], kept: [], refused: [] });
  }

  /** Other values or other code (`subject.component`) for a source that has `definitions` now. */
  async reconfigure(
    subject: Subject,
    definitions: readonly PropDefinition[],
    given: ConfiguredProps | undefined,
  ): Promise<Configured> {
    const { source } = subject;
    if (given !== undefined) refuseVariables(given);
    const sealed = sealedNames(source);
    const masked = [...sealed, ...definitions.filter(isSecretProp).map(({ name }) => name)];
    const before = await openValues(this.#context.sealer, source).catch((error: unknown) => {
      // Secrets that are lost can be given again, but not kept.
      if (!isLost(error) || given === undefined || masked.some((name) => given[name] === maskedSecret))
        throw error;
      return {} as ConfiguredProps;
    });
    const values = keepMaskedSecrets(masked, given ?? before, before);
    const accounts = await accountsOf(this.#db, source.id);
    const isSame = subject.component.id === source.component_id && sameValues(definitions, values, before);
    return this.#configure(subject, values, {
      // Values that the caller did not send cannot be at fault: new code that has no use for them drops them.
      unknown: given === undefined ? 'drop' : 'refuse',
      // What was secret stays so, also when new code does not say that it is.
      sealed: sealed.filter((name) => values[name] === before[name]),
      // An account of another owner may stay only where it is put to the use that its owner saw.
      kept: isSame ? accounts : [],
      refused: isSame ? [] : accounts,
    });
  }

  async #configure(
    { source, component, callerId }: Subject,
    values: ConfiguredProps,
    options: {
      unknown: 'refuse' | 'drop';
      /** Props to seal whatever their definition says. */
      sealed: readonly string[];
      /** Accounts that may be used in addition to those of the source's owner and of the caller. */
      kept: readonly SourceAccount[];
      /** Accounts in use that are not the caller's to put in. */
      refused: readonly SourceAccount[];
    },
  ): Promise<Configured> {
    const { unknown } = options;
    const shape = JSON.parse(component.shape) as ComponentShape;
    const owners = [source.owner_id, callerId, ...options.kept.map((account) => account.owner_id)];
    const accountsIn = (definitions: readonly PropDefinition[], checked: ConfiguredProps) =>
      checkAccounts(this.#db, accountProps(definitions, checked), owners, options.refused);

    let dynamicProps: string | null = null;
    if (shape.hasAdditionalProps) {
      const draft = draftProps(shape.configurableProps, values);
      timerSchedules(shape.configurableProps, draft.values);
      const given = {
        values: draft.values,
        accounts: await accountsIn(shape.configurableProps, draft.values),
      };
      const undecided = { ...source, dynamic_props: null };
      dynamicProps = await this.#additionalProps(undecided, component, shape, given).catch((error: unknown) =>
        throwCause(error, draft.problem),
      );
    }
    const definitions = mergedDefinitions(shape, dynamicProps);
    refuseUnknownTypes(definitions, 'additionalProps');
    const checked = validateProps(definitions, values, { unknown });
    timerSchedules(definitions, checked);
    const accounts = await accountsIn(definitions, checked);
    const secret = new Set([
      ...definitions.filter(isSecretProp).map((definition) => definition.name),
      ...options.sealed,
    ]);
    const columns = {
      ...(await sealValues(this.#context.sealer, source, checked, secret)),
      dynamic_props: dynamicProps,
      endpoint_key: hasHttpInterface(definitions) ? (source.endpoint_key ?? newHexKey()) : null,
    };
    // Loading it proves that everything is there and can be opened.
    const deployment = await makeDeployment(this.#db, { ...source, ...columns }, component, this.#context, {
      values: checked,
      accounts,
    });
    const apphooks = hasApphook(definitions) ? JSON.stringify(await this.#apphooks(deployment)) : null;
    return { columns: { ...columns, apphooks }, definitions, accounts };
  }

  /** Which events of which apps it listens to. Functions are asked in a process that ends with it. */
  async #apphooks(deployment: Deployment): Promise<Apphook[]> {
    const { definitions, redact } = deployment;
    if (!asksEventNames(definitions)) return apphooksIn(definitions, {}, redact);
    const previous = Object.fromEntries(definitions.map((definition) => [definition.name, definition]));
    const throwAway = { ...deployment, source: { ...deployment.source, ...throwAwayPlace() } };
    const outcome = await this.#runs
      .call(throwAway, { kind: 'eventNames', previous }, {}, { deadlineMsMax: askDeadlineMsMax })
      .finally(() => this.#runner.forget(throwAway.source.id));
    if (outcome.status !== 'finished' || outcome.result === undefined)
      throw hookError('eventNames', outcome, redact);
    return apphooksIn(definitions, JSON.parse(outcome.result) as Record<string, unknown>, redact);
  }

  async #additionalProps(
    source: SourceTable,
    component: ComponentTable,
    shape: ComponentShape,
    given: { values: ConfiguredProps; accounts: readonly SourceAccount[] },
  ): Promise<string> {
    const deployment = await makeDeployment(this.#db, source, component, this.#context, given);
    const throwAway = {
      ...deployment,
      source: { ...source, ...throwAwayPlace() },
      props: { ...undefinedProps(shape.configurableProps, given.values), ...deployment.props },
    };
    return askAdditionalProps(shape.configurableProps, {
      call: (call) => this.#runs.call(throwAway, call, {}, { deadlineMsMax: askDeadlineMsMax }),
      forget: () => this.#runner.forget(throwAway.source.id),
      redact: deployment.redact,
    });
  }
}

/** Code that is asked before it is deployed has a process of its own: none that runs pays for what it does. */
function throwAwayPlace(): Pick<SourceTable, 'id' | 'isolated'> {
  return { id: newId('dc'), isolated: 1 };
}

/** True when the code would see the same values. Values that a client read and sent back unchanged are the same. */
function sameValues(definitions: readonly PropDefinition[], a: ConfiguredProps, b: ConfiguredProps): boolean {
  const seen = (values: ConfiguredProps) => [
    runtimeProps(definitions, validateProps(definitions, values, { unknown: 'keep' }), {
      endpointUrl: undefined,
      credentials: new Map(),
    }),
    accountProps(definitions, values),
  ];
  try {
    return isDeepStrictEqual(seen(a), seen(b));
  } catch {
    // Values that do not fit are other ones, and refused when they are checked.
    return false;
  }
}
