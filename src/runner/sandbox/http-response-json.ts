import { findCircle } from './find-circle.ts';

/** Responses beyond this depth are left unchanged. */
const depthMax = 32;

/** A response of axios, which also holds the request and its settings. */
interface AxiosResponse {
  status: number;
  statusText: unknown;
  headers: unknown;
  config: object;
  request?: unknown;
  data: unknown;
}

/**
 * Returns a copy in which each circular axios response (every response that came over a socket) has only status, statusText, headers and data,
 * which is what the code means. The request in it may also hold tokens. Returns the value itself when there is none.
 */
export function withPlainResponses(value: unknown): unknown {
  return plain(value, new Map(), 0);
}

function plain(value: unknown, known: Map<object, unknown>, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  if (known.has(value)) return known.get(value);
  // While a value is copied, references back to it stay references to the original, so that a circle of another kind stays one.
  known.set(value, value);
  const copy = isAxiosResponse(value) ? plainResponse(value) : plainChildren(value, known, depth);
  known.set(value, copy);
  return copy;
}

function isAxiosResponse(value: object): value is AxiosResponse {
  const { status, config } = value as Partial<AxiosResponse>;
  return (
    typeof status === 'number' &&
    typeof config === 'object' &&
    config !== null &&
    ['statusText', 'headers', 'data'].every((name) => Object.hasOwn(value, name))
  );
}

function plainResponse(response: AxiosResponse): object {
  if (findCircle(response, '') === undefined) return response;
  const { status, statusText, headers, data } = response;
  return { status, statusText, headers, data };
}

function plainChildren(value: object, known: Map<object, unknown>, depth: number): object {
  if (Array.isArray(value)) {
    const items = value.map((item) => plain(item, known, depth + 1));
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  const above: unknown = Object.getPrototypeOf(value);
  if (above !== null && Object.getPrototypeOf(above) !== null) return value;
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const child = (value as Record<string, unknown>)[key];
    const copied = plain(child, known, depth + 1);
    if (copied === child) continue;
    // Without a prototype the key `__proto__` becomes an ordinary key.
    copy ??= Object.assign(Object.create(null) as Record<string, unknown>, value);
    copy[key] = copied;
  }
  return copy ?? value;
}
