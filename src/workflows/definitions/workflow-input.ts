import type { ConfiguredProps } from '#components/validate-props.ts';
import type { TriggerKind } from '#storage/tables/workflow-tables.ts';
import { invalidAt } from './at-parameter.ts';
import { exportedField, foreignRuntime } from './foreign-steps.ts';
import { defaultWorkflowSettings, type WorkflowSettings } from './workflow-definition.ts';

/** A step as a request (or a template) gives it. */
export interface StepInput {
  namespace: string;
  props?: ConfiguredProps;
  /** Source text of a code cell. */
  code?: string;
  /** Registry or saved component: key, `key@version`, sc_ id or URL. */
  component?: string;
  disabled?: boolean;
  /** For people: what the step is for. */
  note?: string;
}

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
}

export interface DefinitionInput {
  steps?: StepInput[];
  triggers?: TriggerInput[];
  settings?: SettingsInput;
}

export const stepsMax = 100;
export const triggersMax = 10;

const stepFields: readonly string[] = ['namespace', 'props', 'code', 'component', 'disabled', 'note'];

/** Checks steps as far as that is possible without building them. `fromTemplate`: their code is the template's. */
export function checkSteps(steps: readonly StepInput[], options: { fromTemplate: boolean }): void {
  if (steps.length > stepsMax)
    throw invalidAt('steps', `a workflow has at most ${stepsMax} steps, found ${steps.length}`);
  const seen = new Map<string, number>();
  for (const [index, step] of steps.entries()) {
    const at = `steps[${index}]`;
    for (const field of ['runtime', 'lang'] as const) {
      const why = foreignRuntime((step as { runtime?: unknown; lang?: unknown })[field]);
      if (why !== undefined) throw invalidAt(`${at}.${field}`, why);
    }
    const exported = exportedField(step);
    if (exported !== undefined)
      throw invalidAt(`${at}.${exported.field}`, exported.instead, 'unknown_parameter');
    refuseUnknownFields(step, stepFields, at);
    const { namespace } = step;
    if (namespace === undefined)
      throw invalidAt(`${at}.namespace`, 'required: the name of the step', 'missing_parameter');
    if (!namePattern.test(namespace))
      throw invalidAt(
        `${at}.namespace`,
        `expected at most 100 letters, digits and underscores that begin with no digit, found ${quoted(namespace)}`,
      );
    if (reservedNamespaces.has(namespace))
      throw invalidAt(`${at}.namespace`, `${quoted(namespace)} is taken: choose another name`);
    const first = seen.get(namespace);
    if (first !== undefined)
      throw invalidAt(`${at}.namespace`, `steps[${first}] is called ${quoted(namespace)} already`);
    seen.set(namespace, index);
    checkCodeOf(step, at, options.fromTemplate);
  }
}

const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/;

/** True when a step can have this name. */
export function isNamespace(name: string): boolean {
  return namePattern.test(name) && !reservedNamespaces.has(name);
}

/** `trigger` has its own place beside the exports of steps; the others are properties of every object. */
const reservedNamespaces: ReadonlySet<string> = new Set(['trigger', '__proto__', 'constructor', 'prototype']);

function checkCodeOf({ code, component, note }: StepInput, at: string, fromTemplate: boolean): void {
  refuseNul(code, `${at}.code`);
  refuseNul(component, `${at}.component`);
  refuseNul(note, `${at}.note`);
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

/** PostgreSQL cannot store it in text. */
export function refuseNul(text: string | undefined, parameter: string): void {
  if (text?.includes('\u0000') === true) throw invalidAt(parameter, 'must not contain the character U+0000');
}

export function refuseUnknownFields(value: object, known: readonly string[], at: string): void {
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw invalidAt(
    `${at}.${unknown}`,
    `there is no such field; there ${known.length === 0 ? 'is none' : `are ${known.join(', ')}`}`,
    'unknown_parameter',
  );
}

export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** Settings laid over those that are there. Their ranges are the schema's (http/routes/workflow-shapes.ts). */
export function settingsOf(
  given: SettingsInput | undefined,
  before: WorkflowSettings = defaultWorkflowSettings,
): WorkflowSettings {
  refuseNul(given?.name, 'settings.name');
  const { timeout_seconds, memory_mb, auto_retry, concurrency, throttle, queue_size, isolated } = given ?? {};
  return {
    timeoutSeconds: timeout_seconds === undefined ? before.timeoutSeconds : timeout_seconds,
    memoryMb: memory_mb ?? before.memoryMb,
    autoRetry: auto_retry ?? before.autoRetry,
    concurrency: concurrency === undefined ? before.concurrency : concurrency,
    throttle: throttle === undefined ? before.throttle : throttle,
    queueSize: queue_size ?? before.queueSize,
    isolated: isolated ?? before.isolated ?? false,
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
  };
}
