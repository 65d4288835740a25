import { createHash } from 'node:crypto';
import type { PropDefinition } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import { type ConfiguredProps, isRecord } from '#components/validate-props.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { type ComponentOwner, type ComponentResolver, registryOwner } from '#registry/resolve-component.ts';
import { isSecretProp } from '#sources/sealed-props.ts';
import { definitionsOf } from '#sources/source-shape.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db, Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { TemplateTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { atParameter, invalidAt } from './at-parameter.ts';
import { blockFields, flattenSteps, mapSteps, nestSteps } from './block-input.ts';
import { definitionsOfStep } from './load-step.ts';
import { resolveStep } from './resolve-step.ts';
import type { StepInput } from './step-input.ts';
import type { TemplateDefinition } from './template.ts';
import { insertTemplate } from './template-store.ts';
import { checkTriggers, readTrigger } from './trigger-definition.ts';
import { triggerAsInput } from './trigger-input.ts';
import { triggersOf } from './trigger-store.ts';
import type { WorkflowDefinition } from './workflow-definition.ts';
import {
  checkSteps,
  type DefinitionInput,
  settingsOf,
  type TriggerInput,
  viewSettings,
} from './workflow-input.ts';
import { findDeployment } from './workflow-store.ts';

interface TemplateMakerOptions {
  store: Store;
  resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  clock: Clock;
}

interface TemplateOptions {
  /** True: the template has the values of props. It never has secrets and accounts. */
  includeProps: boolean;
  name?: string;
}

/**
 * Makes templates: definitions that others can use, without accounts, secrets and tokens. The id is made from the
 * content, so that the same definition is the same template for every maker, and one that was handed out never changes.
 */
export class TemplateMaker {
  readonly #options: TemplateMakerOptions;

  constructor(options: TemplateMakerOptions) {
    this.#options = options;
  }

  /** Makes a template of the workflow's current deployment. Disabled steps are left out. */
  async fromWorkflow(
    workflow: WorkflowTable,
    owner: ComponentOwner,
    options: TemplateOptions,
  ): Promise<TemplateTable> {
    const { read } = this.#options.store;
    const deployment = must(
      await findDeployment(read, workflow.deployment_id),
      `deployment ${workflow.deployment_id}`,
    );
    const definition = JSON.parse(deployment.definition) as WorkflowDefinition;
    const inputs: (StepInput | undefined)[] = [];
    for (const step of definition.steps) {
      const timeoutSeconds = step.block?.timeoutSeconds ?? step.timeoutSeconds;
      const rest = {
        ...(timeoutSeconds === undefined ? {} : { timeout_seconds: timeoutSeconds }),
        ...(step.retries === undefined ? {} : { retries: step.retries }),
        ...(step.note === undefined ? {} : { note: step.note }),
      };
      const values = JSON.parse(step.configuredProps) as ConfiguredProps;
      const { namespace, block } = step;
      if (step.disabled) inputs.push(undefined);
      else if (block !== undefined) inputs.push({ namespace, ...blockFields(block, values), ...rest });
      else {
        const component = must(await findComponent(read, step.componentId), `component ${step.componentId}`);
        const definitions = definitionsOfStep(component, step.dynamicProps);
        const props = portableProps(definitions, values, options);
        inputs.push({ namespace, ...portableCode(component, step.origin === 'code'), props, ...rest });
      }
    }
    const steps = nestSteps(definition.steps, (position) => inputs[position]);
    const triggers: TriggerInput[] = [];
    for (const trigger of await triggersOf(read, workflow.id)) {
      const portable = await this.#portableTrigger(triggerAsInput(trigger), owner, options);
      if (portable !== undefined) triggers.push(portable);
    }
    const settings = viewSettings(definition.settings);
    return this.#save({ steps, triggers, settings }, owner, {
      ...options,
      name: options.name ?? workflow.name,
    });
  }

  /** Throws what is wrong with the definition, as creating a workflow from it would. */
  async fromDefinition(
    input: DefinitionInput,
    owner: ComponentOwner,
    options: TemplateOptions,
  ): Promise<TemplateTable> {
    await checkSteps(input.steps ?? [], { fromTemplate: false });
    checkTriggers(input.triggers ?? []);
    const portable = new Map<StepInput, StepInput>();
    for (const { at, input: step, block } of flattenSteps(input.steps ?? [])) {
      if (block !== undefined) continue;
      const { namespace, code, component: _named, props: given = {}, ...rest } = step;
      const place = { parameter: `${at}.${code === undefined ? 'component' : 'code'}`, namespace };
      const component = await atParameter(place, () => resolveStep(this.#options.resolver, step, owner));
      const props = portableProps(definitionsOfStep(component, null), given, options);
      portable.set(step, { ...rest, namespace, ...portableCode(component, code !== undefined), props });
    }
    const steps = mapSteps(input.steps ?? [], (step) =>
      step.disabled === true ? undefined : (portable.get(step) ?? step),
    );
    const triggers: TriggerInput[] = [];
    for (const [index, trigger] of (input.triggers ?? []).entries()) {
      if (trigger.id !== undefined)
        throw invalidAt(`triggers[${index}].id`, 'a template has no triggers with ids; leave it out');
      readTrigger(trigger, index);
      const place = { parameter: `triggers[${index}].props` };
      const portable = await atParameter(place, () => this.#portableTrigger(trigger, owner, options));
      if (portable === undefined)
        throw invalidAt(`triggers[${index}].props.source_id`, 'there is no such source');
      triggers.push(portable);
    }
    const settings = viewSettings(settingsOf(input.settings));
    const name = options.name ?? input.settings?.name;
    return this.#save({ steps, triggers, settings }, owner, {
      ...options,
      ...(name === undefined ? {} : { name }),
    });
  }

  async #save(
    definition: TemplateDefinition,
    owner: ComponentOwner,
    { name }: TemplateOptions,
  ): Promise<TemplateTable> {
    const text = canonicalJson(definition);
    const row: TemplateTable = {
      id: `tch_${base62Digest(text)}`,
      owner_id: owner.ownerId,
      user_id: owner.userId,
      name: name ?? 'Untitled workflow',
      definition: text,
      created_at_ms: this.#options.clock.now(),
    };
    return this.#options.store.transaction((tx) => insertTemplate(tx, row));
  }

  /** Undefined when its source is gone. */
  async #portableTrigger(
    { type, props = {} }: TriggerInput,
    owner: ComponentOwner,
    options: TemplateOptions,
  ): Promise<TriggerInput | undefined> {
    if (type === 'http') return { type, props: { custom_response: props.custom_response === true } };
    if (type !== 'source') return { ...(type === undefined ? {} : { type }), props };
    if (typeof props.source_id === 'string') return this.#portableSource(props.source_id, owner, options);
    const { resolver } = this.#options;
    const component =
      typeof props.code === 'string'
        ? await resolver.resolve({ component_code: props.code }, owner)
        : await resolver.resolveText(String(props.component), owner);
    const given = isRecord(props.configured_props) ? props.configured_props : {};
    const configured_props = portableProps(definitionsOfStep(component, null), given, options);
    return { type, props: { ...portableCode(component, typeof props.code === 'string'), configured_props } };
  }

  async #portableSource(
    id: string,
    owner: ComponentOwner,
    options: TemplateOptions,
  ): Promise<TriggerInput | undefined> {
    const db: Db = this.#options.store.read;
    const source = await findSource(db, id);
    if (source === undefined || !owner.readableOwners.includes(source.owner_id)) return undefined;
    const component = must(await findComponent(db, source.component_id), `component ${source.component_id}`);
    const given = JSON.parse(source.configured_props) as ConfiguredProps;
    const configured_props = portableProps(definitionsOf(component, source), given, options);
    return { type: 'source', props: { ...portableCode(component, true), configured_props } };
  }
}

/**
 * How another owner gets the same code: by key and version if it is public, else from its URL or as text.
 * `isText`: it was given as text, for which a URL may only be a comment.
 */
function portableCode(component: ComponentTable, isText: boolean): Pick<StepInput, 'code' | 'component'> {
  const { owner_id, component_key: key, version, url, code } = component;
  if (owner_id === registryOwner && key !== null)
    return { component: version === '' ? key : `${key}@${version}` };
  return url === null || isText ? { code } : { component: url };
}

/** Values without those of accounts, secrets, and objects of an owner (data stores). */
function portableProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  { includeProps }: TemplateOptions,
): ConfiguredProps {
  if (!includeProps) return {};
  const props: ConfiguredProps = {};
  for (const definition of definitions) {
    const { name, type } = definition;
    const value = values[name];
    if (value === undefined || isSecretProp(definition) || ownedTypes.has(type)) continue;
    props[name] = type === 'http_request' || type === 'sql' ? withoutAuth(value) : value;
  }
  return props;
}

const ownedTypes: ReadonlySet<string> = new Set(['app', 'data_store', '$.interface.http', '$.service.db']);

function withoutAuth(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const { auth: _auth, authProvisionId: _account, ...rest } = value;
  return 'headers' in rest ? { ...rest, headers: withoutSecretHeaders(rest.headers) } : rest;
}

/** Headers that say who asks: what is typed into them is a secret, whatever the step calls it. */
const secretHeader = /^(proxy-)?authorization$|cookie|key|secret|token|pass|credential|signature/i;

/** `headers` is a list of `{ name (or key), value }`, or an object. */
function withoutSecretHeaders(headers: unknown): unknown {
  if (Array.isArray(headers))
    return headers.filter((header) => {
      const name = isRecord(header) ? (header.name ?? header.key ?? '') : '';
      return typeof name === 'string' && !secretHeader.test(name);
    });
  if (!isRecord(headers)) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !secretHeader.test(name)));
}

/** The same text for the same content: fields of objects in the order of their names. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    isRecord(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 131 bits: another content with the same id, or an id without its content, cannot be found by trying. */
const digestCharacters = 22;

function base62Digest(text: string): string {
  let left = BigInt(`0x${createHash('sha256').update(text).digest('hex')}`);
  let digits = '';
  for (let index = 0; index < digestCharacters; index += 1) {
    digits += alphabet[Number(left % 62n)];
    left /= 62n;
  }
  return digits;
}
