import { jsonStringifySafe } from './platform-json.ts';

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
  method: (typeof HTTP_METHODS)[number];
  url: string;
  headers?: object;
  params?: object;
  auth?: { username: string; password: string };
  data?: string | object;
}
export interface SendConfigEmail {
  subject?: string;
  text?: string;
  html?: string;
}
export interface SendConfigEmit {
  raw_event: object;
  event?: object;
}
export interface SendConfigS3 {
  bucket: string;
  prefix: string;
  payload: string | object;
}
export interface SendConfigSSE {
  channel: string;
  payload: string | object;
}
export interface SendConfigSQL {
  table: string;
  payload: string | object;
}
export interface SendConfigSnowflake {
  account: string;
  user: string;
  private_key: string;
  database: string;
  schema: string;
  host: string;
  pipe_name: string;
  stage_name: string;
  payload: string | object;
}

/** An invalid value: its field (`''`: the whole) and what was found. */
interface Fault {
  field: string;
  value: unknown;
}

type Decoded<T> =
  | { _tag: 'Right'; right: T }
  | {
      _tag: 'Left';
      left: { value: unknown; context: { key: string; actual: unknown }[]; message: string }[];
    };

/** A type that can be asked while code runs. Fields that it does not know are let pass. */
export interface SendConfigType<T> {
  readonly name: string;
  is(value: unknown): value is T;
  /** The form that code for `io-ts` expects. */
  decode(value: unknown): Decoded<T>;
  faultOf(value: unknown): Fault | undefined;
}

type Test = (value: unknown) => boolean;
type Fields = Readonly<Record<string, Test>>;

const isText: Test = (value) => typeof value === 'string';
const isObject: Test = (value) => typeof value === 'object' && value !== null;
const isContent: Test = (value) => isText(value) || isObject(value);
const isMethod: Test = (value) => (HTTP_METHODS as readonly unknown[]).includes(value);
const isLogin: Test = (value) => faultIn({ username: isText, password: isText }, {}, value) === undefined;

function faultIn(required: Fields, optional: Fields, config: unknown): Fault | undefined {
  if (!isObject(config)) return { field: '', value: config };
  const values = config as Record<string, unknown>;
  for (const [field, test] of Object.entries({ ...required, ...optional })) {
    const value = values[field];
    const mayBeAbsent = !Object.hasOwn(required, field) && value === undefined;
    if (!mayBeAbsent && !test(value)) return { field, value };
  }
  return undefined;
}

function typeOf<T>(name: string, required: Fields, optional: Fields = {}): SendConfigType<T> {
  const faultOf = (value: unknown): Fault | undefined => faultIn(required, optional, value);
  return {
    name,
    faultOf,
    is: (value): value is T => faultOf(value) === undefined,
    decode(config) {
      const fault = faultOf(config);
      if (fault === undefined) return { _tag: 'Right', right: config as T };
      const { field, value } = fault;
      const context = [
        { key: '', actual: config },
        { key: field, actual: value },
      ];
      return { _tag: 'Left', left: [{ value, context, message: messageOf(fault) }] };
    },
  };
}

function messageOf({ field, value }: Fault): string {
  const shown = typeof value === 'string' ? value : String(jsonStringifySafe(value));
  return `invalid value ${shown.length > 200 ? `${shown.slice(0, 200)}…` : shown} for ${field || 'the configuration'}`;
}

export const SendConfigHTTP = typeOf<SendConfigHTTP>(
  'SendConfigHTTP',
  { method: isMethod, url: isText },
  { auth: isLogin, data: isContent, headers: isObject, params: isObject },
);
export const SendConfigEmail = typeOf<SendConfigEmail>(
  'SendConfigEmail',
  {},
  { html: isText, subject: isText, text: isText },
);
export const SendConfigEmit_required = typeOf<Pick<SendConfigEmit, 'raw_event'>>('SendConfigEmit_required', {
  raw_event: isObject,
});
export const SendConfigEmit_optional = typeOf<Pick<SendConfigEmit, 'event'>>(
  'SendConfigEmit_optional',
  {},
  { event: isObject },
);
export const SendConfigEmit = typeOf<SendConfigEmit>(
  'SendConfigEmit',
  { raw_event: isObject },
  { event: isObject },
);
export const SendConfigS3 = typeOf<SendConfigS3>('SendConfigS3', {
  bucket: isText,
  payload: isContent,
  prefix: isText,
});
export const SendConfigSSE = typeOf<SendConfigSSE>('SendConfigSSE', { channel: isText, payload: isContent });
export const SendConfigSQL = typeOf<SendConfigSQL>('SendConfigSQL', { payload: isContent, table: isText });
export const SendConfigSnowflake = typeOf<SendConfigSnowflake>('SendConfigSnowflake', {
  account: isText,
  database: isText,
  host: isText,
  payload: isContent,
  pipe_name: isText,
  private_key: isText,
  schema: isText,
  stage_name: isText,
  user: isText,
});

/** The kind of a `$send` call and the type of its configuration. */
export const sendTypeMap = {
  email: SendConfigEmail,
  emit: SendConfigEmit,
  http: SendConfigHTTP,
  s3: SendConfigS3,
  sql: SendConfigSQL,
  snowflake: SendConfigSnowflake,
  sse: SendConfigSSE,
} as const;

export type SendKind = keyof typeof sendTypeMap;

/** By kind: `$sendConfigRuntimeTypeChecker.http(config)` throws an Error that names the first field that is wrong. */
export const $sendConfigRuntimeTypeChecker: Record<SendKind, (config: unknown) => void> = {
  email: checkerOf('email'),
  emit: checkerOf('emit'),
  http: checkerOf('http'),
  s3: checkerOf('s3'),
  sql: checkerOf('sql'),
  snowflake: checkerOf('snowflake'),
  sse: checkerOf('sse'),
};

function checkerOf(kind: SendKind): (config: unknown) => void {
  return (config) => {
    const fault = sendTypeMap[kind].faultOf(config);
    if (fault !== undefined) throw new Error(`$send.${kind}: ${messageOf(fault)}`);
  };
}

/** Marks the error by which `$end` stops code. */
export const END_NEEDLE = '__pd_end';

/** Stops the code that calls it, by an error that carries `END_NEEDLE`. In a step, `$.flow.exit` ends the run as a success. */
export function $end(message?: string): never {
  const ended = { message, ts: new Date().toISOString() };
  throw Object.assign(new Error(message), { [END_NEEDLE]: ended });
}

/** The event of a first-generation step; steps now get it as `steps.trigger.event`. */
export const $event: Record<string, unknown> = {};

/** Destinations of a first-generation step; each says where they are now. */
export const $send: Record<SendKind, (config?: unknown) => never> = {
  email: movedTo$('email'),
  emit: movedTo$('emit'),
  http: movedTo$('http'),
  s3: movedTo$('s3'),
  sql: movedTo$('sql'),
  snowflake: movedTo$('snowflake'),
  sse: movedTo$('sse'),
};

function movedTo$(kind: SendKind): () => never {
  return () => {
    throw new Error(`$send.${kind} works only inside a workflow step: use $.send.${kind}`);
  };
}
