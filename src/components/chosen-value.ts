import { isDeepStrictEqual } from 'node:util';
import type { PropDefinition } from './component-shape.ts';

/** `{__lv: {label, value}}` is how clients keep a choice with its label; arrays hold such wrappers or are wrapped. */
export function unwrapChoice(value: unknown, withLabel: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => unwrapChoice(item, withLabel));
  if (!isRecord(value) || !('__lv' in value)) return value;
  const wrapped = value.__lv;
  if (Array.isArray(wrapped))
    return wrapped.map((item) => (withLabel ? item : isRecord(item) && 'value' in item ? item.value : item));
  return withLabel || !isRecord(wrapped) ? wrapped : wrapped.value;
}

/** The ids that choosers of Airtable and Discord give come as `{ value }`; code is given the id. */
export function unwrapId(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unwrapId);
  return isRecord(value) && 'value' in value ? value.value : value;
}

/** Exported workflows name a data store as `{ storeId }`; it is kept as its id. */
export function unwrapDataStore(value: unknown): unknown {
  return isRecord(value) && typeof value.storeId === 'string' ? value.storeId : value;
}

/**
 * True when a value of another type than the prop's is valid because its options have such values. For static options, the value is one of them.
 * For a text prop whose options only the code knows, it is an ID that is a number, a boolean or an object, because the options that were offered
 * are no longer known.
 */
export function isOption(definition: PropDefinition, type: string, value: unknown): boolean {
  if (definition.remoteOptions === true)
    return type === 'string' && (isRecord(value) || typeof value === 'number' || typeof value === 'boolean');
  if (!Array.isArray(definition.options)) return false;
  return definition.options.some((option) => isDeepStrictEqual(unwrapId(option), value));
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
