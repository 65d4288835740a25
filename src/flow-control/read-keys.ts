import { createHash } from 'node:crypto';
import type { FlowKeys } from '#jobs/held-jobs.ts';
import { type AppliedFlowControl, type FlowControl, plainPath, priorityMax } from './flow-control.ts';

/** A text that is longer is cut, and made unique by a hash. */
const keyTextMax = 128;
const keyTextKept = 64;

const keyed = ['concurrency', 'throttle', 'debounce', 'singleton', 'batch'] as const;

/** True when an expression of the flow control is one that the service cannot read from the event by itself. */
export function hasCode(flow: FlowControl): boolean {
  return codeOf(flow).length > 0;
}

/** The expressions that are code, and no paths into the event. */
export function codeOf(flow: FlowControl): string[] {
  return expressionsOf(flow).filter((expression) => plainPath(expression) === undefined);
}

export function expressionsOf(flow: FlowControl): string[] {
  const keys = keyed.flatMap((control) => flow[control]?.key ?? []);
  return [...new Set(typeof flow.priority === 'string' ? [...keys, flow.priority] : keys)];
}

/** The values of the expressions that are plain paths: no code of the user is evaluated. */
export function plainValues(flow: FlowControl, eventJson: string): Map<string, unknown> {
  const plain = expressionsOf(flow).flatMap((expression) => {
    const path = plainPath(expression);
    return path === undefined ? [] : [{ expression, path }];
  });
  if (plain.length === 0) return new Map();
  const event: unknown = JSON.parse(eventJson);
  return new Map(plain.map(({ expression, path }) => [expression, valueAt(event, path)]));
}

/** Own members only: the prototype of a value is no part of an event. */
function valueAt(value: unknown, path: readonly string[]): unknown {
  let at = value;
  for (const member of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, member)) return undefined;
    at = (at as Record<string, unknown>)[member];
  }
  return at;
}

/** The keys by the values of the expressions. A value that cannot be a key counts as the empty one, with a warning. */
export function keysFrom(
  flow: AppliedFlowControl,
  values: ReadonlyMap<string, unknown>,
  event: { bytes: number; repeats: boolean },
): FlowKeys {
  const warnings = new Set<string>();
  const keys: FlowKeys = { bytes: event.bytes };
  for (const control of keyed) {
    const settings = flow[control];
    if (settings === undefined) continue;
    if (event.repeats && (control === 'debounce' || control === 'batch')) continue;
    keys[control] =
      settings.key === undefined ? '' : keyText(values.get(settings.key), settings.key, warnings);
  }
  const priority = priorityOf(flow.priority, values, warnings);
  if (priority !== 0) keys.priority = priority;
  if (event.repeats) keys.repeats = true;
  if (warnings.size > 0) keys.warning = [...warnings].join('; ').slice(0, 500);
  return keys;
}

function keyText(value: unknown, expression: string, warnings: Set<string>): string {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
    warnings.add(`${shortened(expression)} is ${kindOf(value)}, expected a text, number or boolean`);
    return '';
  }
  const text = String(value);
  // Without NUL and half characters, which not every store keeps; the hash keeps such texts apart.
  const isPlain = text.length <= keyTextMax && text.isWellFormed() && !text.includes('\0');
  if (isPlain) return text;
  const kept = text.slice(0, keyTextKept).replaceAll('\0', '').toWellFormed();
  return `${kept}…${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('hex')}`;
}

function priorityOf(
  priority: FlowControl['priority'],
  values: ReadonlyMap<string, unknown>,
  warnings: Set<string>,
): number {
  if (typeof priority !== 'string') return priority ?? 0;
  const value = values.get(priority);
  const seconds = numberIn(value);
  if (!Number.isNaN(seconds)) return Math.round(Math.min(priorityMax, Math.max(-priorityMax, seconds)));
  warnings.add(`${shortened(priority)} is ${kindOf(value)}, expected a number`);
  return 0;
}

/** NaN for anything but a number, and a text that is one. Objects of an event may have members that no conversion survives. */
function numberIn(value: unknown): number {
  if (typeof value === 'string' && value.trim() !== '') return Number(value);
  return typeof value === 'number' ? value : Number.NaN;
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (value instanceof Error) return `no value (${value.message.slice(0, 200)})`;
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function shortened(expression: string): string {
  return expression.length > 80 ? `${expression.slice(0, 79)}…` : expression;
}
