import { isDeepStrictEqual } from 'node:util';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { type ConfiguredProps, isRecord, propError, validateProps } from '#components/validate-props.ts';
import { findDataStore } from '#data-stores/data-store-store.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { Runner } from '#runner/runner.ts';
import { askAdditionalProps } from '#sources/additional-props.ts';
import { checkAccounts } from '#sources/check-accounts.ts';
import { type DeploymentContext, stringsIn } from '#sources/deployment.ts';
import { isLost, isSecretProp, openValues, sealedNames, sealValues } from '#sources/sealed-props.ts';
import { accountProps, keepMaskedSecrets, maskedSecret, undefinedProps } from '#sources/source-props.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { makeRedactor } from '#vault/redact.ts';
import { atParameter } from './at-parameter.ts';
import { definitionsOfStep, loadStep, sealedStep } from './load-step.ts';
import type { StepDefinition, WorkflowDefinition } from './workflow-definition.ts';
import type { StepInput } from './workflow-input.ts';
import type { DeploymentAccount } from './workflow-store.ts';

/** What steps become, and the accounts that they use. */
export interface BuiltSteps {
  steps: StepDefinition[];
  accounts: DeploymentAccount[];
}

/** The deployment that the steps follow on: what it has of the same namespace is the same step. */
export interface FormerSteps {
  definition: WorkflowDefinition;
  accounts: readonly DeploymentAccount[];
}

/** A step whose code is there. */
interface Draft {
  at: string;
  input: StepInput;
  component: ComponentTable;
  shape: ComponentShape;
  id: string;
  values: ConfiguredProps;
  /** Props to seal whatever their definition says: what was secret stays so. */
  sealed: readonly string[];
  /** Neither code nor props differ from those of the former step, and it runs, or does not, as that did. */
  isSame: boolean;
}

/** From the steps of a request to those of a deployment: code built, props checked and secrets sealed. */
export class StepBuilder {
  readonly #db: Db;
  readonly #resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  readonly #runner: Pick<Runner, 'call' | 'forget'>;
  readonly #context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
  readonly #deadlineMs: number;

  constructor(parts: {
    db: Db;
    resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
    runner: Pick<Runner, 'call' | 'forget'>;
    context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
    /** Of additionalProps. */
    deadlineMs: number;
  }) {
    this.#db = parts.db;
    this.#resolver = parts.resolver;
    this.#runner = parts.runner;
    this.#context = parts.context;
    this.#deadlineMs = parts.deadlineMs;
  }

  /** Throws what building, checking and additionalProps tell, each naming `steps[<n>]` and the field. */
  async build(
    inputs: readonly StepInput[],
    /** `workflowId`: what its code is given on the way is on record under this id, also when nothing comes of it. */
    owner: ComponentOwner & { workflowId: string },
    former?: FormerSteps,
  ): Promise<BuiltSteps> {
    const drafts: Draft[] = [];
    for (const [index, input] of inputs.entries())
      drafts.push(await this.#draft(input, `steps[${index}]`, owner, former));
    // Somebody else's account may stay only where it is put to the use that its owner saw, and any step decides what
    // the others get.
    const isSame =
      former !== undefined &&
      drafts.length === former.definition.steps.length &&
      drafts.every(({ isSame }, index) => isSame && drafts[index]?.id === former.definition.steps[index]?.id);
    const accounts = {
      owners: [
        owner.ownerId,
        owner.userId,
        ...(isSame ? former.accounts.map((account) => account.owner_id) : []),
      ],
      refused: isSame ? [] : (former?.accounts ?? []),
    };
    const used = new Map<string, DeploymentAccount>();
    const steps: StepDefinition[] = [];
    for (const draft of drafts) {
      const place = {
        parameter: draft.at,
        namespace: draft.input.namespace,
        names: { configured_props: `${draft.at}.props` },
      };
      const configured = await atParameter(place, () => this.#configure(draft, owner, accounts));
      steps.push(configured.step);
      for (const account of configured.accounts) used.set(account.account_id, account);
    }
    return { steps, accounts: [...used.values()] };
  }

  async #draft(
    input: StepInput,
    at: string,
    owner: ComponentOwner,
    former: FormerSteps | undefined,
  ): Promise<Draft> {
    const { namespace, code, component: text } = input;
    const field = code === undefined ? `${at}.component` : `${at}.code`;
    const component = await atParameter({ parameter: field, namespace }, async () => {
      const found =
        code === undefined
          ? await this.#resolver.resolveText(text ?? '', owner)
          : await this.#resolver.resolve({ component_code: code }, owner);
      requireRunnable(JSON.parse(found.shape) as ComponentShape);
      return found;
    });
    const step = former?.definition.steps.find((one) => one.namespace === namespace);
    const shape = JSON.parse(component.shape) as ComponentShape;
    const draft = { at, input, component, shape, id: step?.id ?? newId('c') };
    const given = input.props ?? {};
    if (step === undefined) {
      const place = { parameter: at, namespace, names: { configured_props: `${at}.props` } };
      await atParameter(place, () => refuseMasked(given));
      return { ...draft, values: given, sealed: [], isSame: false };
    }
    const stored = sealedStep(step, owner.ownerId);
    const sealed = sealedNames(stored);
    const masked = [...sealed, ...draft.shape.configurableProps.filter(isSecretProp).map(({ name }) => name)];
    const before = await openValues(this.#context.sealer, stored).catch((error: unknown) => {
      // Secrets that are lost can be given anew, but not kept.
      if (!isLost(error) || masked.some((name) => given[name] === maskedSecret)) throw error;
      return {} as ConfiguredProps;
    });
    const values = keepMaskedSecrets(masked, given, before);
    return {
      ...draft,
      values,
      sealed: sealed.filter((name) => values[name] === before[name]),
      isSame:
        step.componentId === component.id &&
        step.disabled === (input.disabled === true) &&
        isDeepStrictEqual(values, before),
    };
  }

  async #configure(
    draft: Draft,
    owner: ComponentOwner & { workflowId: string },
    allowed: { owners: readonly string[]; refused: readonly DeploymentAccount[] },
  ): Promise<{ step: StepDefinition; accounts: DeploymentAccount[] }> {
    const { component, shape, values, input } = draft;
    const accountsIn = (definitions: readonly PropDefinition[], checked: ConfiguredProps) =>
      checkAccounts(this.#db, accountProps(definitions, checked), allowed.owners, allowed.refused);
    const unconfigured: StepDefinition = {
      id: draft.id,
      namespace: input.namespace,
      componentId: component.id,
      origin: input.code === undefined ? 'component' : 'code',
      componentKey: keyOf(input),
      configuredProps: '{}',
      sealedProps: null,
      dynamicProps: null,
      disabled: input.disabled === true,
    };
    const load = (
      step: StepDefinition,
      checked: ConfiguredProps,
      accounts: readonly DeploymentAccount[],
      workflowId: string | null,
    ) =>
      loadStep(this.#db, step, {
        ownerId: owner.ownerId,
        workflowId,
        component,
        accountOwners: [owner.ownerId, ...accounts.map((account) => account.owner_id)],
        context: this.#context,
        values: checked,
      });

    let dynamicProps: string | null = null;
    if (shape.hasAdditionalProps) {
      const given = validateProps(shape.configurableProps, values, { unknown: 'keep', expressions: true });
      const accounts = await accountsIn(shape.configurableProps, given);
      // Code runs here, with credentials: that is a use of them.
      const opened = await load(unconfigured, given, accounts, owner.workflowId);
      dynamicProps = await this.#additionalProps(draft, owner, opened, given);
    }
    const definitions = definitionsOfStep(component, dynamicProps);
    refuseUnknownTypes(definitions, 'additionalProps');
    refuseInterfaces(definitions);
    const checked = validateProps(definitions, values, { unknown: 'refuse', expressions: true });
    const accounts = await accountsIn(definitions, checked);
    await checkDataStores(this.#db, definitions, checked, owner.ownerId);
    const secret = new Set([...definitions.filter(isSecretProp).map(({ name }) => name), ...draft.sealed]);
    const kept = await sealValues(
      this.#context.sealer,
      { id: draft.id, owner_id: owner.ownerId },
      checked,
      secret,
    );
    const step: StepDefinition = {
      ...unconfigured,
      configuredProps: kept.configured_props,
      sealedProps: kept.sealed_props,
      dynamicProps,
    };
    // Loading it proves that everything is there and can be opened.
    await load(step, checked, accounts, null);
    return { step, accounts };
  }

  #additionalProps(
    { shape, sealed }: Draft,
    { ownerId }: ComponentOwner,
    { step, secrets }: Awaited<ReturnType<typeof loadStep>>,
    values: ConfiguredProps,
  ): Promise<string> {
    const deploymentId = newId('d');
    const props = { ...undefinedProps(shape.configurableProps, values), ...step.props };
    return askAdditionalProps(shape.configurableProps, {
      call: (call) =>
        this.#runner.call({
          deploymentId,
          ownerId,
          bundle: step.bundle,
          revision: 0,
          call,
          props,
          db: {},
          deadlineMs: this.#deadlineMs,
        }),
      forget: () => this.#runner.forget(deploymentId),
      redact: makeRedactor([...secrets, ...sealed.flatMap((name) => stringsIn(values[name]))]),
    });
  }
}

/** The key that was asked for, for answers; null for code, ids and URLs. */
function keyOf({ component }: StepInput): string | null {
  if (component === undefined || component.startsWith('sc_') || component.includes('://')) return null;
  return component.replace(/(?<=.)@[^@]*$/, '');
}

export function requireRunnable(shape: ComponentShape): void {
  if (shape.type === 'app')
    throw new CallerError('invalid_component', 'this is an app, which has nothing to run: give an action');
  if (!shape.hasRun) throw new CallerError('invalid_component', 'this component has no run');
  refuseInterfaces(shape.configurableProps);
}

/** Steps use data stores of their own owner. Throws `invalid_prop` for any other. */
async function checkDataStores(
  db: Db,
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  ownerId: string,
): Promise<void> {
  for (const { name, type } of definitions) {
    const value = values[name];
    if (type !== 'data_store' || value === undefined || value === null) continue;
    const id = isRecord(value) ? value.id : value;
    if (typeof id !== 'string') throw propError(name, 'expected the id of a data store (ds_…)');
    const found = await findDataStore(db, id);
    if (found?.owner_id !== ownerId) throw propError(name, `there is no data store ${JSON.stringify(id)}`);
  }
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

function refuseMasked(values: ConfiguredProps): void {
  for (const [name, value] of Object.entries(values))
    if (value === maskedSecret) throw propError(name, 'this is how a secret is shown; give its value');
}
