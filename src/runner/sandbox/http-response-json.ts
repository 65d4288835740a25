import { findCircle } from './find-circle.ts';

/** Deeper than this, responses are left as they are. */
const depthMax = 32;

/** What axios answers, with the request and its settings beside the answer. */
interface AxiosResponse {
  status: number;
  statusText: unknown;
  headers: unknown;
  config: object;
  request?: unknown;
  data: unknown;
}

/**
 * A copy in which responses of axios that hold themselves, as all do that came over a socket, are their status, statusText,
 * headers and data: code that returns one means these. Their requests hold tokens besides. Answers the value itself when there
 * are none.
 */
export function withPlainResponses(value: unknown): unknown {
  return plain(value, new Map(), 0);
}

function plain(value: unknown, known: Map<object, unknown>, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  if (known.has(value)) return known.get(value);
  // What refers back to this is left to refer to it: a circle of another kind stays one.
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
    // No prototype: a key `__proto__` must become a plain key.
    copy ??= Object.assign(Object.create(null) as Record<string, unknown>, value);
    copy[key] = copied;
  }
  return copy ?? value;
}
