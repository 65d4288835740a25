import { isRecord } from '#components/validate-props.ts';
import type { FlowControl } from '#flow-control/flow-control.ts';
import { Pauses } from '#lib/pauses.ts';
import type { TriggerKind } from '#storage/tables/workflow-tables.ts';
import { invalidAt, quoted, refuseNul, refuseUnknownFields } from './at-parameter.ts';
import { type BlockKind, isStructured } from './block-definition.ts';
import { blockDepthMax, blockFieldNames, blockKindOf, checkBlock, stepListsOf } from './block-input.ts';
import { checkReferences } from './check-references.ts';
import { exportedField, foreignRuntime } from './foreign-steps.ts';
import type { StepInput } from './step-input.ts';
import { defaultWorkflowSettings, type WorkflowSettings } from './workflow-definition.ts';

/** A trigger as a request (or a template) gives it. */
export interface TriggerInput {
  /** The id of an existing trigger, which is kept with its address. */
  id?: string;
  type?: TriggerKind;
  props?: Record<string, unknown>;
}

/** `settings` of a request, of a template, and of an answer. */
export interface SettingsInput {
  name?: string;
  auto_deploy?: boolean;
  timeout_seconds?: number | null;
  memory_mb?: number;
  auto_retry?: boolean;
  concurrency?: number | null;
  throttle?: { limit: number; seconds: number } | null;
  queue_size?: number;
  isolated?: boolean;
  flow_control?: FlowControl | null;
}

export interface DefinitionInput {
  steps?: StepInput[];
  triggers?: TriggerInput[];
  settings?: SettingsInput;
}

export const stepsMax = 500;
export const triggersMax = 10;
/** Characters of the note of a step. */
export const noteMax = 10_000;

const stepFields: readonly string[] = [
  'namespace',
  'props',
  'code',
  'component',
  'disabled',
  'note',
  'timeout_seconds',
  'retries',
];

/** Checks steps as far as that is possible without building them. `fromTemplate`: their code is the template's. */
export async function checkSteps(
  steps: readonly StepInput[],
  { fromTemplate }: { fromTemplate: boolean },
): Promise<void> {
  await checkList(steps, { at: 'steps', depth: 0, seen: new Map(), fromTemplate, pauses: new Pauses() });
  await checkReferences(steps);
}

interface StepList {
  at: string;
  /** Blocks around it. */
  depth: number;
  /** The places of the steps so far, by their names. */
  seen: Map<string, string>;
  fromTemplate: boolean;
  pauses: Pauses;
}

async function checkList(steps: readonly StepInput[], list: StepList): Promise<void> {
  const { depth, seen, fromTemplate } = list;
  for (const [index, step] of steps.entries()) {
    await list.pauses.pause();
    const at = `${list.at}[${index}]`;
    for (const field of ['runtime', 'lang'] as const) {
      const why = foreignRuntime((step as { runtime?: unknown; lang?: unknown })[field]);
      if (why !== undefined) throw invalidAt(`${at}.${field}`, why);
    }
    const exported = exportedField(step);
    if (exported !== undefined)
      throw invalidAt(`${at}.${exported.field}`, exported.instead, 'unknown_parameter');
    const kind = blockKindOf(step, at);
    if (kind === undefined) refuseBlockFields(step, at);
    checkName(step.namespace, at, seen);
    checkTypes(step, at);
    if (seen.size > stepsMax)
      throw invalidAt(
        'steps',
        `a workflow has at most ${stepsMax} steps, blocks and the steps in them included`,
      );
    checkTries(step, at, kind);
    if (kind === undefined) {
      checkCodeOf(step, at, fromTemplate);
      continue;
    }
    if (fromTemplate)
      throw invalidAt(`${at}.block`, 'a block of a template has its steps already; leave it out');
    checkBlock(step, at, kind);
    for (const inner of stepListsOf(step, at)) {
      if (inner.steps.length > 0 && depth === blockDepthMax)
        throw invalidAt(inner.at, `blocks may be ${blockDepthMax} deep in one another`);
      await checkList(inner.steps, { ...list, at: inner.at, depth: depth + 1 });
    }
  }
}

function refuseBlockFields(step: StepInput, at: string): void {
  const field = blockFieldNames.find(
    (name) => (step as unknown as Record<string, unknown>)[name] !== undefined,
  );
  if (field !== undefined && !stepFields.includes(field))
    throw invalidAt(`${at}.${field}`, `only blocks have this field: give the kind of block as ${at}.block`);
  refuseUnknownFields(step, [...stepFields, 'block'], at);
}

function checkName(namespace: unknown, at: string, seen: Map<string, string>): void {
  if (namespace === undefined)
    throw invalidAt(`${at}.namespace`, 'required: the name of the step', 'missing_parameter');
  if (typeof namespace !== 'string' || !namePattern.test(namespace))
    throw invalidAt(
      `${at}.namespace`,
      `expected at most 100 letters, digits and underscores that begin with no digit, found ${quoted(namespace)}`,
    );
  if (reservedNamespaces.has(namespace))
    throw invalidAt(`${at}.namespace`, `${quoted(namespace)} is taken: choose another name`);
  const first = seen.get(namespace);
  if (first !== undefined)
    throw invalidAt(`${at}.namespace`, `${first} is called ${quoted(namespace)} already`);
  seen.set(namespace, at);
}

/** The schema of a request knows the steps at the top only. */
function checkTypes({ code, component, props, disabled, note }: StepInput, at: string): void {
  for (const [field, value, isRight, expected] of [
    ['code', code, typeof code === 'string', 'text'],
    ['component', component, typeof component === 'string', 'text'],
    ['props', props, isRecord(props), 'an object'],
    ['disabled', disabled, typeof disabled === 'boolean', 'true or false'],
    [
      'note',
      note,
      typeof note === 'string' && note.length <= noteMax,
      `text of at most ${noteMax} characters`,
    ],
  ] as const)
    if (value !== undefined && !isRight)
      throw invalidAt(`${at}.${field}`, `expected ${expected}, found ${quoted(value)}`);
  refuseNul(note, `${at}.note`);
}

const stepSecondsMax = 750;
/** Steps in a block may wait: a year, as a delay. */
const blockSecondsMax = 365 * 24 * 3600;

/** Ranges of the time limit and the retries of one step. */
function checkTries({ timeout_seconds: timeout, retries }: StepInput, at: string, kind?: BlockKind): void {
  const timeoutMax = kind !== undefined && isStructured(kind) ? blockSecondsMax : stepSecondsMax;
  if (timeout !== undefined) requireWhole(timeout, `${at}.timeout_seconds`, 1, timeoutMax);
  if (retries === undefined) return;
  if (typeof retries !== 'object' || retries === null)
    throw invalidAt(`${at}.retries`, `expected { times, seconds }, found ${quoted(retries)}`);
  refuseUnknownFields(retries, ['times', 'seconds'], `${at}.retries`);
  requireWhole(retries.times, `${at}.retries.times`, 1, 10);
  requireWhole(retries.seconds, `${at}.retries.seconds`, 1, 3600);
}

function requireWhole(value: unknown, at: string, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw invalidAt(at, `expected a whole number from ${min} to ${max}, found ${quoted(value)}`);
}

const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/;

/** True when a step can have this name. */
export function isNamespace(name: string): boolean {
  return namePattern.test(name) && !reservedNamespaces.has(name);
}

/** `trigger` has its own place beside the exports of steps; the others are properties of every object. */
const reservedNamespaces: ReadonlySet<string> = new Set(['trigger', '__proto__', 'constructor', 'prototype']);

function checkCodeOf({ code, component }: StepInput, at: string, fromTemplate: boolean): void {
  refuseNul(code, `${at}.code`);
  refuseNul(component, `${at}.component`);
  if (fromTemplate) {
    if (code === undefined && component === undefined) return;
    const field = code === undefined ? 'component' : 'code';
    throw invalidAt(`${at}.${field}`, 'a step of a template has its code already; only props can be given');
  }
  if (code === undefined && component === undefined)
    throw invalidAt(
      `${at}.code`,
      'one of code (source text) and component (key, key@version or sc_ id) is required',
      'missing_parameter',
    );
  if (code !== undefined && component !== undefined)
    throw invalidAt(`${at}.component`, 'give either code or component, not both');
}

/** An object without controls is the same as none. */
function orNone(flow: FlowControl | null): FlowControl | null {
  return flow === null || Object.keys(flow).length === 0 ? null : flow;
}

/** Settings laid over those that are there. Their ranges are the schema's (http/routes/workflow-shapes.ts). */
export function settingsOf(
  given: SettingsInput | undefined,
  before: WorkflowSettings = defaultWorkflowSettings,
): WorkflowSettings {
  refuseNul(given?.name, 'settings.name');
  const { timeout_seconds, memory_mb, auto_retry, concurrency, throttle, queue_size, isolated } = given ?? {};
  const { flow_control } = given ?? {};
  return {
    timeoutSeconds: timeout_seconds === undefined ? before.timeoutSeconds : timeout_seconds,
    memoryMb: memory_mb ?? before.memoryMb,
    autoRetry: auto_retry ?? before.autoRetry,
    concurrency: concurrency === undefined ? before.concurrency : concurrency,
    throttle: throttle === undefined ? before.throttle : throttle,
    queueSize: queue_size ?? before.queueSize,
    isolated: isolated ?? before.isolated ?? false,
    flowControl: flow_control === undefined ? (before.flowControl ?? null) : orNone(flow_control),
  };
}

export function viewSettings(settings: WorkflowSettings) {
  return {
    timeout_seconds: settings.timeoutSeconds,
    memory_mb: settings.memoryMb,
    auto_retry: settings.autoRetry,
    concurrency: settings.concurrency,
    throttle: settings.throttle,
    queue_size: settings.queueSize,
    isolated: settings.isolated ?? false,
    flow_control: settings.flowControl ?? null,
  };
}
