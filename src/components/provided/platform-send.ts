/**
 * Names of the first generation of workflow code, before everything moved to `$` (`$.send`, `$.flow.exit`). They are
 * here so that code which imports them loads; what a workflow needs is on its `$`.
 */

export const HTTP_METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'CONNECT',
  'OPTIONS',
  'TRACE',
  'PATCH',
] as const;

export interface SendConfigHTTP {
  /** Upper case. */
  method?: (typeof HTTP_METHODS)[number];
  url: string;
  headers?: Record<string, string>;
  params?: Record<string, string>;
  auth?: { username: string; password: string };
  data?: unknown;
}
export interface SendConfigEmail {
  subject: string;
  text?: string;
  html?: string;
}
export interface SendConfigEmit {
  event?: Record<string, unknown>;
  raw_event?: Record<string, unknown>;
  channel?: string;
}
export interface SendConfigS3 {
  bucket: string;
  prefix: string;
  payload: unknown;
}
export interface SendConfigSSE {
  channel: string;
  payload: unknown;
}
export interface SendConfigSQL {
  table: string;
  payload: unknown;
}
export interface SendConfigSnowflake {
  account: string;
  username: string;
  private_key: string;
  database: string;
  schema: string;
  pipe_name: string;
  payload: unknown;
}

/** The kind of a `$send` call and the name of its configuration type. */
export const sendTypeMap = {
  http: 'SendConfigHTTP',
  email: 'SendConfigEmail',
  emit: 'SendConfigEmit',
  s3: 'SendConfigS3',
  sse: 'SendConfigSSE',
  sql: 'SendConfigSQL',
  snowflake: 'SendConfigSnowflake',
} as const;

type SendKind = keyof typeof sendTypeMap;
type SendTypeName = (typeof sendTypeMap)[SendKind];

export interface ConfigChecker {
  /** Throws a TypeError that names the field. */
  check(config: unknown): void;
  test(config: unknown): boolean;
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? undefined : 'a string');
const present = (value: unknown): string | undefined => (value === undefined ? 'a value' : undefined);
const object = (value: unknown): string | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'an object';
const method = (value: unknown): string | undefined =>
  (HTTP_METHODS as readonly unknown[]).includes(value)
    ? undefined
    : `one of ${HTTP_METHODS.join(', ')} in upper case`;
const anything = (): undefined => undefined;

interface FieldRule {
  expects: (value: unknown) => string | undefined;
  required: boolean;
}
const needs = (expects: FieldRule['expects']): FieldRule => ({ expects, required: true });
const may = (expects: FieldRule['expects']): FieldRule => ({ expects, required: false });

const rules: Record<SendTypeName, Record<string, FieldRule>> = {
  SendConfigHTTP: {
    method: may(method),
    url: needs(text),
    headers: may(object),
    params: may(object),
    auth: may(object),
    data: may(anything),
  },
  SendConfigEmail: { subject: needs(text), text: may(text), html: may(text) },
  SendConfigEmit: { event: may(object), raw_event: may(object), channel: may(text) },
  SendConfigS3: { bucket: needs(text), prefix: needs(text), payload: needs(present) },
  SendConfigSSE: { channel: needs(text), payload: needs(present) },
  SendConfigSQL: { table: needs(text), payload: needs(present) },
  SendConfigSnowflake: {
    account: needs(text),
    username: needs(text),
    private_key: needs(text),
    database: needs(text),
    schema: needs(text),
    pipe_name: needs(text),
    payload: needs(present),
  },
};

/** By type name: `$sendConfigRuntimeTypeChecker[sendTypeMap.http].check(config)`. */
export const $sendConfigRuntimeTypeChecker: Record<SendTypeName, ConfigChecker> = {
  SendConfigHTTP: checkerOf('SendConfigHTTP'),
  SendConfigEmail: checkerOf('SendConfigEmail'),
  SendConfigEmit: checkerOf('SendConfigEmit'),
  SendConfigS3: checkerOf('SendConfigS3'),
  SendConfigSSE: checkerOf('SendConfigSSE'),
  SendConfigSQL: checkerOf('SendConfigSQL'),
  SendConfigSnowflake: checkerOf('SendConfigSnowflake'),
};

function checkerOf(typeName: SendTypeName): ConfigChecker {
  return {
    check(config) {
      const problem = problemOf(typeName, config);
      if (problem !== undefined) throw new TypeError(problem);
    },
    test: (config) => problemOf(typeName, config) === undefined,
  };
}

function problemOf(typeName: SendTypeName, config: unknown): string | undefined {
  if (object(config) !== undefined) return `${typeName}: expected an object`;
  const fields = config as Record<string, unknown>;
  for (const [name, rule] of Object.entries(rules[typeName])) {
    if (fields[name] === undefined && !rule.required) continue;
    const expected = rule.expects(fields[name]);
    if (expected !== undefined) return `${typeName}.${name}: expected ${expected}`;
  }
  return undefined;
}

/** Marks the error by which `$end` stops code. */
export const END_NEEDLE = '__pd_end';

/** Stops the code that calls it, by an error that carries `END_NEEDLE`. */
export function $end(message = ''): never {
  throw Object.assign(new Error(message), { name: 'End', [END_NEEDLE]: true });
}

/** The event of a first-generation step; steps now get it as `steps.trigger.event`. */
export const $event: Record<string, unknown> = {};

/** Destinations of a first-generation step; each says where they are now. */
export const $send: Record<SendKind, (config?: unknown) => never> = {
  http: movedTo$('http'),
  email: movedTo$('email'),
  emit: movedTo$('emit'),
  s3: movedTo$('s3'),
  sse: movedTo$('sse'),
  sql: movedTo$('sql'),
  snowflake: movedTo$('snowflake'),
};

function movedTo$(kind: SendKind): () => never {
  return () => {
    throw new Error(`$send.${kind} works only inside a workflow step: use $.send.${kind}`);
  };
}
