import axiosNpm, {
  AxiosHeaders,
  type AxiosInstance,
  type AxiosResponse,
  type AxiosRequestConfig as NpmRequestConfig,
} from 'axios';
import { ConfigurationError } from './platform-errors.ts';
import { cloneSafe, jsonStringifySafe } from './platform-json.ts';

export interface AxiosRequestConfig extends NpmRequestConfig {
  /** Export the request and the response as `debug_config` and `debug_response` of the step. */
  debug?: boolean;
  /** Resolve to the whole response instead of its data. */
  returnFullResponse?: boolean;
  /** Refused: what axios sends is `data`. */
  body?: unknown;
}

/** Lets a signer that holds an app's OAuth 1 secrets sign a request. */
export interface OauthSignConfig {
  oauthSignerUri: string;
  token: Record<string, unknown>;
}

/** A step's `$`, a component's `this`, or nothing. */
interface StepLike {
  export?: unknown;
  context?: unknown;
}

/**
 * One HTTP request. Resolves to the response's data (`returnFullResponse`: to the response). Rejects with
 * - `ConfigurationError` when `config.body` is given (axios calls it `data`, and would silently send nothing);
 * - for a refused status, an error whose message is the JSON of the response body, with `response`
 *   `{status, statusText, headers, data}`, and without the request (it holds the credentials).
 */
async function request(
  step: unknown,
  config: AxiosRequestConfig,
  signConfig?: OauthSignConfig,
): Promise<unknown> {
  const tidy = tidyRequest(config);
  if (signConfig !== undefined) await sign(tidy, signConfig);
  if (tidy.debug === true) exportFrom(step, 'debug_config', tidy);
  let response: AxiosResponse<unknown>;
  try {
    response = await axiosNpm.request(tidy);
  } catch (error) {
    throw tidyError(step, error);
  }
  if (tidy.debug === true) exportFrom(step, 'debug_response', response.data);
  return tidy.returnFullResponse === true ? response : response.data;
}

/** An axios instance (`instance(config)`, `instance.get(…)`, …) whose requests and errors are treated alike. */
function create(config: AxiosRequestConfig = {}, signConfig?: OauthSignConfig): AxiosInstance {
  refuseBody(config);
  const instance = axiosNpm.create(config);
  instance.interceptors.request.use(async (merged) => {
    const tidy = tidyRequest(merged);
    Object.assign(merged, withoutHeaders(tidy));
    if (signConfig !== undefined) {
      merged.headers.set('Authorization', await askSigner(merged as AxiosRequestConfig, signConfig));
    }
    if (tidy.debug === true) {
      // Not the rest, which is axios's own: transformers, adapters, limits.
      const { method, baseURL, url, headers, params, data } = merged;
      exportFrom(undefined, 'debug_config', { method, baseURL, url, headers, params, data });
    }
    return merged;
  });
  instance.interceptors.response.use(
    // The interceptor's type knows whole responses only; unwrapping them is the point here.
    (response: AxiosResponse) => {
      const { debug, returnFullResponse } = response.config as AxiosRequestConfig;
      if (debug === true) exportFrom(undefined, 'debug_response', response.data);
      return returnFullResponse === true ? response : response.data;
    },
    (error) => Promise.reject(tidyError(undefined, error)),
  );
  return instance;
}

// Pure calls are left out of a bundle that does not use them, here with the whole of axios.
export const axios = /* @__PURE__ */ Object.assign(request, { create });

/** An empty `body` passes: components write `body: condition ? … : null`, and nothing is lost by it. */
function refuseBody(config: { body?: unknown }): void {
  if (config.body) {
    throw new ConfigurationError(
      'The request has a "body", which axios does not know: put it in "data" instead.',
    );
  }
}

function tidyRequest(config: AxiosRequestConfig): AxiosRequestConfig {
  refuseBody(config);
  const tidy: AxiosRequestConfig = { ...config };
  if (isPlainObject(config.headers))
    tidy.headers = withoutUndefined(config.headers) as typeof config.headers & object;
  if (isPlainObject(config.data)) tidy.data = withoutUndefined(config.data);
  if (isPlainObject(config.params)) tidy.params = withoutUndefined(config.params);
  return moveQueryIntoParams(tidy);
}

/**
 * The query of the URL becomes params, which win over it. A key that occurs several times in the URL stays there,
 * because params would write it differently (`a[]=1&a[]=2`).
 */
function moveQueryIntoParams(config: AxiosRequestConfig): AxiosRequestConfig {
  const { url } = config;
  if (typeof url !== 'string' || !url.includes('?')) return config;
  const [withoutFragment = ''] = url.split('#', 1);
  const start = withoutFragment.indexOf('?');
  if (start === -1) return config;
  const query = new URLSearchParams(withoutFragment.slice(start + 1));
  const given =
    config.params instanceof URLSearchParams ? Object.fromEntries(config.params) : (config.params ?? {});
  const moved: Record<string, string> = Object.create(null);
  const staying = new URLSearchParams();
  for (const [key, value] of query) {
    if (Object.hasOwn(given, key)) continue;
    if (query.getAll(key).length === 1) moved[key] = value;
    else staying.append(key, value);
  }
  const rest = staying.size > 0 ? `?${staying}` : '';
  const tidy = { ...config, url: withoutFragment.slice(0, start) + rest };
  if (config.params instanceof URLSearchParams) {
    tidy.params = new URLSearchParams([...Object.entries(moved), ...config.params]);
  } else {
    tidy.params = { ...moved, ...given };
  }
  return tidy;
}

/**
 * What an OAuth 1 signature covers: method, whole URL with its query, and the fields of a form-encoded body. Apps that
 * sign by themselves call this too. `config` stays as it is.
 */
export function transformConfigForOauth(config: AxiosRequestConfig): {
  method: string;
  url: string;
  data?: Record<string, string | string[]>;
} {
  const method = (config.method ?? 'get').toUpperCase();
  const form = formOf(config, method);
  const url = axiosNpm.getUri({ paramsSerializer: strictSerializer, ...config });
  return form === undefined ? { method, url } : { method, url, data: fieldsOf(form) };
}

/** The body as the form that axios sends; undefined when it sends something else, which is not signed. */
function formOf(config: AxiosRequestConfig, method: string): URLSearchParams | undefined {
  const data: unknown = config.data;
  const type = AxiosHeaders.from(config.headers as AxiosHeaders | undefined).get('content-type');
  const isTyped = typeof type === 'string' && /^application\/x-www-form-urlencoded\s*(;|$)/i.test(type);
  const mayBeForm = isTyped || type === undefined || type === null;
  if (data instanceof URLSearchParams) return mayBeForm ? data : undefined;
  if (typeof data === 'string') {
    // axios calls text a form when no content type is given.
    const isForm = isTyped || (mayBeForm && ['POST', 'PUT', 'PATCH'].includes(method));
    return isForm ? new URLSearchParams(`&${data}`) : undefined;
  }
  if (!isTyped || !isPlainObject(data)) return undefined;
  return new URLSearchParams(axiosNpm.getUri({ url: '', params: data }));
}

function fieldsOf(form: URLSearchParams): Record<string, string | string[]> {
  return Object.fromEntries(
    [...new Set(form.keys())].map((name) => {
      const values = form.getAll(name);
      const [only] = values;
      return [name, values.length === 1 && only !== undefined ? only : values];
    }),
  );
}

/** A server that checks a signature computes it from the query as it reads it, and not all read `+` as a space. */
const strictSerializer = {
  encode: (text: string) =>
    encodeURIComponent(text).replaceAll(
      /[!'()*]/g,
      (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
    ),
};

async function sign(config: AxiosRequestConfig, signConfig: OauthSignConfig): Promise<void> {
  const authorization = await askSigner(config, signConfig);
  config.headers = {
    ...(config.headers as Record<string, string> | undefined),
    Authorization: authorization,
  };
}

async function askSigner(
  config: AxiosRequestConfig,
  { oauthSignerUri, token }: OauthSignConfig,
): Promise<string> {
  // What is sent has to be what was signed.
  config.paramsSerializer ??= strictSerializer;
  const requestData = transformConfigForOauth(config);
  try {
    const { data } = await axiosNpm.post(oauthSignerUri, { requestData, token });
    return String(data);
  } catch (error) {
    throw tidyError(undefined, error);
  }
}

/** Takes the request out of an axios error, and puts the server's answer into its message. */
function tidyError(step: unknown, error: unknown): unknown {
  if (!axiosNpm.isAxiosError(error)) return error;
  const { response } = error;
  // The request holds credentials, and its sockets cannot be logged.
  const stripped = error as { config?: unknown; request?: unknown; stack?: unknown; response?: unknown };
  delete stripped.config;
  delete stripped.request;
  if (response === undefined) return error;
  const data = readableData(response.data);
  const kept = {
    status: response.status,
    statusText: response.statusText,
    headers: response.headers,
    data,
  };
  stripped.response = kept;
  delete stripped.stack;
  error.name = `${error.name} - ${error.message}`;
  const said = isStream(data) ? undefined : jsonStringifySafe(data);
  if (said !== undefined && data !== '') error.message = said;
  const { context } = asStep(step);
  if (context !== undefined && context !== null)
    exportFrom(step, 'debug', isStream(data) ? { ...kept, data: undefined } : kept);
  return error;
}

/** Bytes requested with `responseType: 'arraybuffer'` hide what an error says: read as JSON or text. */
function readableData(data: unknown): unknown {
  if (!(data instanceof ArrayBuffer) && !ArrayBuffer.isView(data)) return data;
  const text = new TextDecoder().decode(data as ArrayBuffer);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Without a step (an app calls with `this`, or there is no step to export to) it goes to the logs. */
function exportFrom(step: unknown, name: string, value: unknown): void {
  const { export: exportValue } = asStep(step);
  const shown = cloneSafe(isStream(value) ? '[stream]' : value);
  if (typeof exportValue === 'function') exportValue.call(step, name, shown);
  else console.log(`export: ${name} - ${jsonStringifySafe(shown, 2)}`);
}

function asStep(step: unknown): StepLike {
  return typeof step === 'object' && step !== null ? step : {};
}

function isStream(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && typeof (value as { pipe?: unknown }).pipe === 'function'
  );
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function withoutUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

function withoutHeaders<T extends object>(config: T): Omit<T, 'headers'> {
  const { headers: _, ...rest } = config as T & { headers?: unknown };
  return rest as Omit<T, 'headers'>;
}
