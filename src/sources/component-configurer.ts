import { createHash } from 'node:crypto';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { CallOutcome, UserCodeError } from '#runner/call-outcome.ts';
import { textsOfOutcome } from '#runner/outcome-texts.ts';
import type { Runner, UserCall } from '#runner/runner.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { redactorOfTexts } from '#vault/redact-large.ts';
import { askDeadlineMsMax, definitionsByName, readAdditionalProps } from './additional-props.ts';
import { type DeploymentContext, mergedDefinitions } from './deployment.ts';
import { type OpenedComponent, openComponent } from './open-component.ts';
import { noOptions, type PropOptions, readOptions } from './read-options.ts';

/** What a user has chosen so far for a component that is not deployed. */
export interface Draft {
  /** sc_…, a key, or key@version. */
  id: string;
  configuredProps: ConfiguredProps;
  /** Definitions that `props` answered before for other values; static ones among them change nothing. */
  dynamicProps: readonly PropDefinition[];
}

export interface OptionsQuestion extends Draft {
  prop: string;
  page: number;
  prevContext: Record<string, unknown>;
  query: string;
}

/** What the code printed, and the errors that ended it: existing clients look for `k: 'error'`. */
export type Observation =
  | { k: string; ts: number; msg: string }
  | { k: 'error'; ts: number; err: { name: string; message: string; stack: string } };

/** The outcome of code that was called for an answer. `errors`: JSON texts of `{ name, message, stack }`; none: it answered. */
export interface Told {
  errors: string[];
  observations: Observation[];
}

export interface DynamicProps {
  /** dyp_…, made from the definitions: the same for the same props. */
  id: string;
  /** All props: the present static ones, then the added ones. */
  configurableProps: PropDefinition[];
}

/** Components of one owner that are asked at the same time. */
const askedPerOwnerMax = 8;

/**
 * Asks components that are not deployed what their props can be given, and which props they have, with the rights of who
 * asks. Each call has a process of its own that ends with the answer, so that nothing of what the code does remains.
 */
export class ComponentConfigurer {
  readonly #db: Db;
  readonly #resolver: Pick<ComponentResolver, 'resolveText'>;
  readonly #runner: Pick<Runner, 'call'>;
  readonly #context: DeploymentContext;
  readonly #deadlineMs: number;
  readonly #nowMs: () => number;
  /** By owner. */
  readonly #asked = new Map<string, number>();

  constructor(options: {
    db: Db;
    resolver: Pick<ComponentResolver, 'resolveText'>;
    runner: Pick<Runner, 'call'>;
    context: DeploymentContext;
    /** The time limit of a run. */
    deadlineMs: number;
    nowMs: () => number;
  }) {
    this.#db = options.db;
    this.#resolver = options.resolver;
    this.#runner = options.runner;
    this.#context = options.context;
    this.#deadlineMs = Math.min(options.deadlineMs, askDeadlineMsMax);
    this.#nowMs = options.nowMs;
  }

  /**
   * One page of what a prop can be given. What the code throws is in `errors`. Throws CallerError `not_found` for a
   * component or an account, `invalid_prop`, `invalid_parameter` for a prop without options, `components_busy`;
   * UnavailableError.
   */
  async options(question: OptionsQuestion, owner: ComponentOwner): Promise<PropOptions & Told> {
    const { component, shape } = await this.#resolve(question.id, owner);
    const { prop, page, prevContext, query } = question;
    const definition = shape.configurableProps.find(({ name }) => name === prop);
    const isStatic = definition?.remoteOptions !== true && Array.isArray(definition?.options);
    if (isStatic) {
      const read = page === 0 ? readOptions(definition?.options) : noOptions;
      return { ...(read ?? noOptions), errors: [], observations: [] };
    }
    // The function of a prop of additionalProps exists only in its result, so that has to be called again.
    const isDynamic = shape.hasAdditionalProps && definition?.remoteOptions !== true;
    if (!isDynamic && definition?.remoteOptions !== true) throw withoutOptions(prop, shape, definition);
    return this.#inTurn(owner, async () => {
      const opened = await this.#open(component, question, owner);
      const call: UserCall = { kind: 'options', prop, page, prevContext, query };
      const outcome = await this.#call(
        opened,
        isDynamic ? { ...call, previous: definitionsByName(opened.definitions) } : call,
        owner,
      );
      const redact = await redactorOfAnswer(owner, opened, outcome);
      const told = tell(outcome, redact, this.#nowMs());
      if (outcome.status !== 'finished') return { ...noOptions, ...told };
      const answer: unknown = outcome.result === undefined ? undefined : JSON.parse(redact(outcome.result));
      const read = readOptions(answer);
      if (read !== undefined) return { ...read, ...told };
      const message = `options of ${prop} answered ${typeof answer}: expected an array, or { options, context }`;
      return { ...noOptions, ...withError(told, { name: 'TypeError', message, stack: '' }, this.#nowMs()) };
    });
  }

  /** The props that a component has for these values; null when its code failed. Throws as `options` does. */
  async props(draft: Draft, owner: ComponentOwner): Promise<{ dynamicProps: DynamicProps | null } & Told> {
    const { component, shape } = await this.#resolve(draft.id, owner);
    if (!shape.hasAdditionalProps)
      return {
        dynamicProps: dynamicPropsOf(component, shape.configurableProps),
        errors: [],
        observations: [],
      };
    return this.#inTurn(owner, async () => {
      const opened = await this.#open(component, draft, owner);
      const previous = definitionsByName(opened.definitions);
      const outcome = await this.#call(opened, { kind: 'additionalProps', previous }, owner);
      const redact = await redactorOfAnswer(owner, opened, outcome);
      const told = tell(outcome, redact, this.#nowMs());
      if (outcome.status !== 'finished' || outcome.result === undefined)
        return { dynamicProps: null, ...told };
      const additional = readAdditionalProps(redact(outcome.result), previous);
      const definitions = mergedDefinitions(shape, additional);
      refuseUnknownTypes(definitions, 'additionalProps');
      return { dynamicProps: dynamicPropsOf(component, definitions), ...told };
    });
  }

  async #resolve(id: string, owner: ComponentOwner) {
    if (id.includes('://') || id.includes('\0'))
      throw new CallerError('invalid_parameter', 'id: expected sc_…, a key, or key@version', {
        parameter: 'id',
      });
    const component = await this.#resolver.resolveText(id, owner);
    return { component, shape: JSON.parse(component.shape) as ComponentShape };
  }

  #open(component: ComponentTable, draft: Draft, owner: ComponentOwner): Promise<OpenedComponent> {
    return openComponent(this.#db, component, {
      values: draft.configuredProps,
      dynamicProps: draft.dynamicProps,
      owners: [owner.ownerId, owner.userId],
      context: this.#context,
    });
  }

  #call(opened: OpenedComponent, call: UserCall, { ownerId }: ComponentOwner): Promise<CallOutcome> {
    const { bundle, props, dynamicProps } = opened;
    return this.#runner.call({
      deploymentId: newId('dc'),
      alone: true,
      ownerId,
      bundle,
      revision: 0,
      call,
      props,
      ...(dynamicProps === undefined ? {} : { dynamicProps }),
      db: {},
      deadlineMs: this.#deadlineMs,
    });
  }

  async #inTurn<T>({ ownerId }: ComponentOwner, work: () => Promise<T>): Promise<T> {
    const asked = this.#asked.get(ownerId) ?? 0;
    if (asked >= askedPerOwnerMax)
      throw new CallerError(
        'components_busy',
        `${asked} components of this owner are being asked for options or props already; try again in a moment`,
      );
    this.#asked.set(ownerId, asked + 1);
    try {
      return await work();
    } finally {
      const left = (this.#asked.get(ownerId) ?? 1) - 1;
      if (left === 0) this.#asked.delete(ownerId);
      else this.#asked.set(ownerId, left);
    }
  }
}

function withoutOptions(
  prop: string,
  shape: ComponentShape,
  definition: PropDefinition | undefined,
): CallerError {
  const others = shape.configurableProps
    .filter(({ options, remoteOptions }) => remoteOptions === true || options !== undefined)
    .map(({ name }) => name);
  const what =
    definition === undefined
      ? `the component has no prop ${JSON.stringify(prop)}`
      : `prop ${prop} has no options`;
  const rest = others.length === 0 ? 'none of its props has' : `there are some of ${others.join(', ')}`;
  return new CallerError('invalid_parameter', `prop_name: ${what}; ${rest}`, { parameter: 'prop_name' });
}

function dynamicPropsOf(
  component: Pick<ComponentTable, 'id'>,
  configurableProps: PropDefinition[],
): DynamicProps {
  const text = JSON.stringify([component.id, configurableProps]);
  const id = `dyp_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  return { id, configurableProps };
}

function redactorOfAnswer(
  { ownerId }: ComponentOwner,
  { redact }: Pick<OpenedComponent, 'redact'>,
  outcome: CallOutcome,
): Promise<(text: string) => string> {
  return redactorOfTexts(ownerId, redact, [outcome.result ?? '', ...textsOfOutcome(outcome)]);
}

/** Throws UnavailableError when the service could not run the code to its end. */
function tell(outcome: CallOutcome, redact: (text: string) => string, nowMs: number): Told {
  if (outcome.status === 'cancelled')
    throw new UnavailableError('overloaded', outcome.error?.message ?? 'the call was cancelled');
  const observations: Observation[] = outcome.logs.map(({ ts, level, message }) => ({
    k: `console.${level}`,
    ts,
    msg: redact(message),
  }));
  if (outcome.logsDropped > 0)
    observations.push({
      k: 'console.warn',
      ts: nowMs,
      msg: `${outcome.logsDropped} more lines were dropped`,
    });
  const told: Told = { errors: [], observations };
  if (outcome.status === 'finished') return told;
  const { name, message, stack } = outcome.error ?? { name: 'Error', message: outcome.status, stack: '' };
  return withError(told, { name: redact(name), message: redact(message), stack: redact(stack) }, nowMs);
}

function withError(
  { errors, observations }: Told,
  err: Pick<UserCodeError, 'name' | 'message' | 'stack'>,
  nowMs: number,
): Told {
  return {
    errors: [...errors, JSON.stringify(err)],
    observations: [...observations, { k: 'error', ts: nowMs, err }],
  };
}
