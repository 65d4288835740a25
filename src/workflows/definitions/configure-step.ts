import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import {
  type ConfiguredProps,
  draftProps,
  isRecord,
  propError,
  validateProps,
} from '#components/validate-props.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Runner } from '#runner/runner.ts';
import { askAdditionalProps, throwCause } from '#sources/additional-props.ts';
import { checkAccounts } from '#sources/check-accounts.ts';
import { type DeploymentContext, stringsIn } from '#sources/deployment.ts';
import { accountProps, undefinedProps } from '#sources/source-props.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { findDataStore, findDataStoreByName } from '#user-data/data-stores/data-store-store.ts';
import { makeRedactor } from '#vault/redact.ts';
import { definitionsOfStep, loadStep, type OpenedStep } from './load-step.ts';
import type { StepDefinition } from './workflow-definition.ts';
import type { DeploymentAccount } from './workflow-store.ts';

/** A component with values for its props, as they were given. */
export interface StepSubject {
  /** What is known of the step already; its props are not. */
  step: StepDefinition;
  component: ComponentTable;
  values: ConfiguredProps;
  ownerId: string;
  /** p_… or sc_…: what its code is given on the way is on record under this id. */
  usedBy: string;
  /** The owners whose accounts it may use; those in `refused` are in use already, but the caller may not use them elsewhere. */
  accounts: { owners: readonly string[]; refused: readonly DeploymentAccount[] };
  /** True: texts may be expressions. */
  expressions: boolean;
  /** Props whose values were kept sealed before, whatever the component says of them now. */
  keptSecrets: readonly string[];
}

/** The props of a step as they were checked against its component, which may have a say in them (additionalProps). */
export interface ConfiguredStep {
  dynamicProps: string | null;
  definitions: PropDefinition[];
  values: ConfiguredProps;
  accounts: DeploymentAccount[];
}

/** Checks values against the component of a step. */
export class StepConfigurer {
  readonly #db: Db;
  readonly #runner: Pick<Runner, 'call' | 'forget'>;
  readonly #context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
  readonly #deadlineMs: number;

  constructor(options: {
    db: Db;
    runner: Pick<Runner, 'call' | 'forget'>;
    context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
    /** The time limit of additionalProps. */
    deadlineMs: number;
  }) {
    this.#db = options.db;
    this.#runner = options.runner;
    this.#context = options.context;
    this.#deadlineMs = options.deadlineMs;
  }

  /** Throws the errors of checking and additionalProps, naming `configured_props.<name>`. */
  async configure(subject: StepSubject): Promise<ConfiguredStep> {
    const { component, values, expressions } = subject;
    const shape = JSON.parse(component.shape) as ComponentShape;
    let dynamicProps: string | null = null;
    if (shape.hasAdditionalProps) {
      const { values: given, problem } = draftProps(shape.configurableProps, values, { expressions });
      const accounts = await this.#accountsIn(subject, shape.configurableProps, given);
      // Code runs here, with credentials: that is a use of them.
      const opened = await this.open(
        subject,
        { dynamicProps: null, values: given, accounts },
        subject.usedBy,
      );
      dynamicProps = await this.#additionalProps(shape, subject, opened, given).catch((error: unknown) =>
        throwCause(error, problem),
      );
    }
    const definitions = definitionsOfStep(component, dynamicProps);
    refuseUnknownTypes(definitions, 'additionalProps');
    refuseInterfaces(definitions);
    const checked = validateProps(definitions, values, { unknown: 'refuse', expressions });
    const accounts = await this.#accountsIn(subject, definitions, checked);
    const withStores = await withDataStoreIds(this.#db, definitions, checked, subject.ownerId);
    return { dynamicProps, definitions, values: withStores, accounts };
  }

  /** `usedBy`: the step or trigger that gets the credentials now; null: none, the call only proves that all of them exist and can be opened. */
  open(
    { step, component, ownerId }: StepSubject,
    { dynamicProps, values, accounts }: Omit<ConfiguredStep, 'definitions'>,
    usedBy: string | null,
  ): Promise<OpenedStep> {
    return loadStep(
      this.#db,
      { ...step, dynamicProps },
      {
        ownerId,
        usedBy,
        component,
        accountOwners: [ownerId, ...accounts.map((account) => account.owner_id)],
        context: this.#context,
        values,
      },
    );
  }

  #accountsIn(
    { accounts }: StepSubject,
    definitions: readonly PropDefinition[],
    values: ConfiguredProps,
  ): Promise<DeploymentAccount[]> {
    return checkAccounts(this.#db, accountProps(definitions, values), accounts.owners, accounts.refused);
  }

  #additionalProps(
    shape: ComponentShape,
    { ownerId, keptSecrets }: StepSubject,
    { step, secrets, trustDomain }: OpenedStep,
    values: ConfiguredProps,
  ): Promise<string> {
    const deploymentId = newId('d');
    const props = { ...undefinedProps(shape.configurableProps, values), ...step.props };
    return askAdditionalProps(shape.configurableProps, {
      call: (call) =>
        this.#runner.call({
          deploymentId,
          ownerId,
          trustDomain,
          // What has not been deployed yet harms nothing that runs.
          isolated: true,
          bundle: step.bundle,
          revision: 0,
          call,
          props,
          db: {},
          deadlineMs: this.#deadlineMs,
        }),
      forget: () => this.#runner.forget(deploymentId),
      redact: makeRedactor([...secrets, ...keptSecrets.flatMap((name) => stringsIn(values[name]))]),
    });
  }
}

export function requireRunnable(shape: ComponentShape): void {
  if (shape.type === 'app')
    throw new CallerError('invalid_component', 'this is an app, which has nothing to run: give an action');
  if (!shape.hasRun) throw new CallerError('invalid_component', 'this component has no run');
  refuseInterfaces(shape.configurableProps);
}

/** Timers and endpoints start runs: in a workflow that is what its triggers are for. */
function refuseInterfaces(definitions: readonly PropDefinition[]): void {
  const found = definitions.find(({ type }) => type.startsWith('$.interface.'));
  if (found === undefined) return;
  throw new CallerError(
    'invalid_component',
    `its prop ${JSON.stringify(found.name)} is of type ${found.type}: this is an event source, which can be a trigger but no step`,
  );
}

/**
 * The values with the ids of data stores: a data store may be named, and names are unique among those of an owner. Steps use data stores of
 * their own owner. Throws `invalid_prop` for any other.
 */
async function withDataStoreIds(
  db: Db,
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  ownerId: string,
): Promise<ConfiguredProps> {
  const changed = { ...values };
  for (const { name, type } of definitions) {
    const value = values[name];
    if (type !== 'data_store' || value === undefined || value === null) continue;
    const given = isRecord(value) ? value.id : value;
    const expected =
      'expected the id (ds_…) or the name of a data store, or no value for the data store named default';
    if (typeof given !== 'string')
      throw propError(name, `found ${JSON.stringify(value).slice(0, 60)}, ${expected}`);
    const found = await findDataStore(db, given);
    if (found?.owner_id === ownerId) continue;
    const named =
      isRecord(value) || given.includes('\0') ? undefined : await findDataStoreByName(db, ownerId, given);
    if (named === undefined)
      throw propError(
        name,
        `there is no data store ${JSON.stringify(given)}, ${expected}; GET /v1/users/me/data_stores and /v1/workspaces/{id}/data_stores list them`,
      );
    changed[name] = named.id;
  }
  return changed;
}
