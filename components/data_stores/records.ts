import { ConfigurationError, shown } from '../configuration-error.ts';

/** What a prop of type `data_store` is. */
export interface DataStore extends AsyncIterable<[key: string, value: unknown]> {
  get(key: string): Promise<unknown>;
  set(key: string, value: unknown, options?: { ttl?: number | null }): Promise<void>;
  /** These change a record by what it is; of changes at the same time none is lost. */
  increment(key: string, amount: number): Promise<number>;
  append(key: string, value: unknown): Promise<unknown>;
  setTtl(key: string, seconds: number | null): Promise<void>;
  has(key: string): Promise<boolean>;
  delete(key: string): Promise<void>;
  keys(): Promise<string[]>;
  clear(): Promise<void>;
}

/** `this` of an action on one record. */
export interface RecordAction {
  dataStore: DataStore;
  key: string;
  value?: unknown;
  ttl?: number;
  addRecordIfNotFound?: 'Yes' | 'No';
}

export const storeProp = {
  type: 'data_store',
  label: 'Data store',
  description: 'The data store. Without a value it is the store named `default`',
} as const;

export const keyProp = {
  type: 'string',
  label: 'Key',
  description: 'The key of the record, such as `customer-{{steps.trigger.event.body.id}}`',
} as const;

export const valueProp = {
  type: 'any',
  label: 'Value',
  description:
    'Text, a number, an object or an array. JSON text of an object or array, such as `{"n": 1}`, is stored as such',
} as const;

export const ttlProp = {
  type: 'integer',
  label: 'Time to live',
  description:
    'How many seconds the record is kept, such as 600. Without a value, or with 0, it is kept until it is deleted',
  min: 0,
  optional: true,
} as const;

/** The props of a record that is made where there is none. */
export const createProps = {
  addRecordIfNotFound: {
    type: 'string',
    label: 'Create if missing',
    description: 'Whether a record with the value below is created when there is none',
    options: ['Yes', 'No'],
    default: 'No',
    optional: true,
  },
  value: { ...valueProp, optional: true },
  ttl: ttlProp,
} as const;

export const returnTypeProp = {
  type: 'string',
  label: 'Return type',
  description: 'The form of the result',
  options: [
    { label: 'Object of keys and values', value: 'object' },
    { label: 'List of objects with key and value', value: 'array' },
  ],
  default: 'object',
  optional: true,
} as const;

/** Records in the form that `returnTypeProp` names. */
export function inForm(records: Record<string, unknown>, returnType: string | undefined): unknown {
  if (returnType !== 'array') return records;
  return Object.entries(records).map(([key, value]) => ({ key, value }));
}

/** A key as the store takes it: expressions may give numbers. */
export function keyOf(key: unknown, name = 'key'): string {
  const text = typeof key === 'number' && Number.isFinite(key) ? String(key) : key;
  if (typeof text === 'string' && text !== '') return text;
  throw new ConfigurationError(`${name}: found ${shown(key)}, expected text that is not empty`);
}

/** A value as it is stored. */
export function storedValue(value: unknown): unknown {
  if (value === undefined)
    throw new ConfigurationError('value: found nothing, expected text, a number, an object or an array');
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** 0 counts as none, as for records that should not expire. */
export function ttlOf(ttl: unknown): { ttl?: number } {
  if (ttl === undefined || ttl === null || ttl === '' || Number(ttl) === 0) return {};
  const seconds = Number(ttl);
  if (Number.isFinite(seconds) && seconds > 0) return { ttl: seconds };
  throw new ConfigurationError(`ttl: found ${shown(ttl)}, expected a number of seconds`);
}

/** A change that the service refuses because of the record or the value is a mistake in the props. */
export async function changed<T>(change: Promise<T>): Promise<T> {
  try {
    return await change;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw code === 'invalid_parameter' ? new ConfigurationError(message) : error;
  }
}

/** Stores the record of an action that may create it. Returns the value. */
export async function createRecord({ dataStore, key, value, ttl }: RecordAction): Promise<unknown> {
  const stored = storedValue(value);
  await dataStore.set(keyOf(key), stored, ttlOf(ttl));
  return stored;
}

/** All records of a store. `__proto__` is a key like any other. */
export async function recordsOf(store: DataStore): Promise<Record<string, unknown>> {
  const entries: [string, unknown][] = [];
  for await (const entry of store) entries.push(entry);
  return Object.fromEntries(entries);
}

export function count(number: number, noun = 'record'): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
