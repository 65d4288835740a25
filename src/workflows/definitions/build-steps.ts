import { isDeepStrictEqual } from 'node:util';
import type { ComponentShape } from '#components/component-shape.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { must } from '#lib/assert.ts';
import { newId } from '#lib/ids.ts';
import { Pauses } from '#lib/pauses.ts';
import { type ComponentOwner, type ComponentResolver, registryOwner } from '#registry/resolve-component.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { isLost, isSecretProp, openValues, sealedNames, sealValues } from '#sources/sealed-props.ts';
import { keepMaskedSecrets, maskedSecret, refuseMasked } from '#sources/source-props.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { atParameter, type Place } from './at-parameter.ts';
import { blockComponent, blockProps, type FlatStep, flattenSteps } from './block-input.ts';
import { ExpressionChecker } from './check-expressions.ts';
import { checkOptions } from './check-options.ts';
import { ownFields } from './check-references.ts';
import { StepConfigurer, type StepSubject } from './configure-step.ts';
import { sealedStep } from './load-step.ts';
import { resolveStep } from './resolve-step.ts';
import type { StepInput } from './step-input.ts';
import type { StepDefinition, WorkflowDefinition } from './workflow-definition.ts';
import type { DeploymentAccount } from './workflow-store.ts';

/** Components that are built at the same time for one definition; the builder has a share for each owner. */
const resolvedAtOnce = 4;

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

/** How a step names what it runs. */
type NamedComponent = Pick<StepInput, 'code' | 'component'>;

/** A step whose code is there. */
interface Draft extends FlatStep {
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
  readonly #resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  readonly #context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
  readonly #configurer: StepConfigurer;

  constructor(
    options: ConstructorParameters<typeof StepConfigurer>[0] & {
      resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
    },
  ) {
    this.#resolver = options.resolver;
    this.#context = options.context;
    this.#configurer = new StepConfigurer(options);
  }

  /** Throws the errors of building, checking and additionalProps, each naming `steps[<n>]` and the field. */
  async build(
    inputs: readonly StepInput[],
    /** `workflowId`: credentials that its code gets while it is built are recorded under this id, even if nothing is deployed. */
    owner: ComponentOwner & { workflowId: string },
    former?: FormerSteps,
  ): Promise<BuiltSteps> {
    const flat = flattenSteps(inputs);
    const components = await this.#components(flat, owner);
    const drafts: Draft[] = [];
    const pauses = new Pauses();
    for (const [index, one] of flat.entries()) {
      drafts.push(await this.#draft(one, must(components[index], 'the component of a step'), owner, former));
      await pauses.pause();
    }
    // An account of another owner may stay only in the use that its owner saw, and any step decides what
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
    const expressions = new ExpressionChecker();
    for (const { block, input, at } of drafts)
      if (block !== undefined) await expressions.checkFields(ownFields(input), at);
    for (const draft of drafts) {
      const place = placeOf(draft);
      const configured = await atParameter(place, () =>
        this.#configure(draft, { owner, accounts, expressions }),
      );
      steps.push(configured.step);
      for (const account of configured.accounts) used.set(account.account_id, account);
      await pauses.pause();
    }
    return { steps, accounts: [...used.values()] };
  }

  /**
   * The component of each step. A component that several steps have is looked up once: to find what ships with the service, its files are
   * read. Throws the error of the first step that has one.
   */
  async #components(steps: readonly FlatStep[], owner: ComponentOwner): Promise<ComponentTable[]> {
    const distinct = new Map<string, { input: NamedComponent; first: FlatStep }>();
    const keys = steps.map((step) => {
      const input: NamedComponent =
        step.block === undefined ? step.input : { component: blockComponent(step.block.kind) };
      const key = JSON.stringify([input.code ?? null, input.component ?? null]);
      if (!distinct.has(key)) distinct.set(key, { input, first: step });
      return key;
    });
    const found = new Map<string, ComponentTable>();
    const failures: { key: string; error: unknown }[] = [];
    const waiting = [...distinct].values();
    const resolveNext = async (): Promise<void> => {
      for (const [key, { input, first }] of waiting) {
        if (failures.length > 0) return;
        const { at, input: step } = first;
        const field = step.code === undefined ? `${at}.component` : `${at}.code`;
        try {
          found.set(
            key,
            await atParameter({ parameter: field, namespace: step.namespace }, () =>
              resolveStep(this.#resolver, input, owner),
            ),
          );
        } catch (error) {
          failures.push({ key, error });
        }
      }
    };
    await Promise.all(Array.from({ length: resolvedAtOnce }, resolveNext));
    const order = [...distinct.keys()];
    const [failure] = failures.sort((one, other) => order.indexOf(one.key) - order.indexOf(other.key));
    if (failure !== undefined) throw failure.error;
    return keys.map((key) => must(found.get(key), 'a component that was resolved'));
  }

  async #draft(
    flat: FlatStep,
    component: ComponentTable,
    owner: ComponentOwner,
    former: FormerSteps | undefined,
  ): Promise<Draft> {
    const { input, block } = flat;
    const { namespace } = input;
    const step = former?.definition.steps.find((one) => one.namespace === namespace);
    const shape = JSON.parse(component.shape) as ComponentShape;
    const draft = { ...flat, component, shape, id: step?.id ?? newId('c') };
    const given = block === undefined ? (input.props ?? {}) : blockProps(input, block.kind);
    if (step === undefined) {
      await atParameter(placeOf(flat), () => refuseMasked(given));
      return { ...draft, values: given, sealed: [], isSame: false };
    }
    const stored = sealedStep(step, owner.ownerId);
    const sealed = sealedNames(stored);
    const masked = [...sealed, ...draft.shape.configurableProps.filter(isSecretProp).map(({ name }) => name)];
    const before = await openValues(this.#context.sealer, stored).catch((error: unknown) => {
      // Secrets that are lost can be given again, but not kept.
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
        isDeepStrictEqual(step.block, block) &&
        isDeepStrictEqual(values, before),
    };
  }

  async #configure(
    draft: Draft,
    {
      owner,
      accounts,
      expressions,
    }: {
      owner: ComponentOwner & { workflowId: string };
      accounts: { owners: readonly string[]; refused: readonly DeploymentAccount[] };
      expressions: ExpressionChecker;
    },
  ): Promise<{ step: StepDefinition; accounts: DeploymentAccount[] }> {
    const { component, values, input } = draft;
    const subject: StepSubject = {
      step: {
        id: draft.id,
        namespace: input.namespace,
        componentId: component.id,
        origin: input.code === undefined ? 'component' : 'code',
        componentKey: draft.block === undefined ? keyOf(input) : blockComponent(draft.block.kind),
        configuredProps: '{}',
        sealedProps: null,
        dynamicProps: null,
        disabled: input.disabled === true,
        ...(draft.block === undefined ? {} : { block: draft.block }),
        // That of a block with steps in it is the block's.
        ...(input.timeout_seconds === undefined || draft.block?.timeoutSeconds !== undefined
          ? {}
          : { timeoutSeconds: input.timeout_seconds }),
        ...(input.retries === undefined ? {} : { retries: input.retries }),
      },
      component,
      values,
      ownerId: owner.ownerId,
      usedBy: owner.workflowId,
      accounts,
      expressions: true,
      keptSecrets: draft.sealed,
    };
    const configured = await this.#configurer.configure(subject);
    const { definitions, dynamicProps } = configured;
    if (draft.block === undefined) await expressions.checkProps(definitions, configured.values);
    if (component.owner_id === registryOwner) checkOptions(draft.shape.configurableProps, configured.values);
    const secret = new Set([...definitions.filter(isSecretProp).map(({ name }) => name), ...draft.sealed]);
    const kept = await sealValues(
      this.#context.sealer,
      { id: draft.id, owner_id: owner.ownerId },
      configured.values,
      secret,
    );
    const step: StepDefinition = {
      ...subject.step,
      ...(input.note === undefined || input.note === '' ? {} : { note: input.note }),
      configuredProps: kept.configured_props,
      sealedProps: kept.sealed_props,
      dynamicProps,
    };
    // Loading it proves that everything is there and can be opened.
    await this.#configurer.open({ ...subject, step }, configured, null);
    return { step, accounts: configured.accounts };
  }
}

/** Errors of its props name the fields of the request: those of a block are at the step itself. */
function placeOf({ at, input, block }: FlatStep): Place {
  const props = block === undefined ? `${at}.props` : at;
  return { parameter: at, namespace: input.namespace, names: { configured_props: props } };
}

/** The requested key, for answers; null for code, ids and URLs. */
function keyOf({ component }: StepInput): string | null {
  if (component === undefined || component.startsWith('sc_') || component.includes('://')) return null;
  return component.replace(/(?<=.)@[^@]*$/, '');
}
