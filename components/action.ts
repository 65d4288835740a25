import { ConfigurationError, shown } from './configuration-error.ts';
import type { Step } from './step.ts';

export { ConfigurationError };

/** What `run` of an action gets, as far as actions that only compute use it. */
export interface ActionRun {
  $: Pick<Step, 'export'>;
}

/** The error for the value of one prop: what was found there, and what was expected. */
export function badInput(prop: string, value: unknown, expected: string): ConfigurationError {
  return new ConfigurationError(`${prop}: found ${shown(value)}, expected ${expected}`);
}

/** Text of a prop. Numbers and booleans of an earlier step count as their text. */
export function textOf(prop: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint')
    return String(value);
  throw badInput(prop, value, 'a text');
}

/** A number of a prop, or the text of one. */
export function numberOf(prop: string, value: unknown): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) throw badInput(prop, value, 'a number');
  return number;
}

/** A value, or what JSON text of an object or array holds. */
export function parsedValue(prop: string, value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new ConfigurationError(`${prop}: found JSON that does not parse (${(error as Error).message})`);
  }
}

/** A list of a prop, or JSON text of one. */
export function listOf(prop: string, value: unknown): unknown[] {
  const list = parsedValue(prop, value);
  if (!Array.isArray(list)) throw badInput(prop, value, 'a list');
  return list;
}

/** `1 item`, `2 items`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
