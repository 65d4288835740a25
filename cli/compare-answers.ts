import { isObject } from './api.ts';
import type { EndpointAnswer } from './endpoint-request.ts';
import { sortedJson } from './folder-names.ts';

export interface CompareOptions {
  /** Headers that have to be the same. */
  headers: readonly string[];
  /** Fields of JSON that may differ: a path such as `data.id`, or a name at any place. */
  ignored: readonly string[];
}

const textMax = 60;
const differencesMax = 20;

/** Differences of two answers, each in one line; none: they are the same. JSON is compared by value. */
export function differencesOf(from: EndpointAnswer, to: EndpointAnswer, options: CompareOptions): string[] {
  const differences: string[] = [];
  if (from.status !== to.status) differences.push(`status: ${from.status} -> ${to.status}`);
  for (const name of options.headers) {
    const [before, after] = [from.headers.get(name), to.headers.get(name)];
    if (before !== after) differences.push(`header ${name}: ${shown(before)} -> ${shown(after)}`);
  }
  const [before, after] = [jsonOf(from.body), jsonOf(to.body)];
  if (before !== undefined && after !== undefined)
    compareValues(
      without(before.value, options.ignored),
      without(after.value, options.ignored),
      'body',
      differences,
    );
  else if (!Buffer.from(from.body).equals(Buffer.from(to.body)))
    differences.push(
      `body: ${shown(Buffer.from(from.body).toString())} -> ${shown(Buffer.from(to.body).toString())}`,
    );
  const more = differences.length - differencesMax;
  return more <= 0 ? differences : [...differences.slice(0, differencesMax), `and ${more} more`];
}

function jsonOf(body: Uint8Array): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(Buffer.from(body).toString()) };
  } catch {
    return undefined;
  }
}

function without(value: unknown, ignored: readonly string[], path = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => without(one, ignored, path));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => {
      const here = path === '' ? name : `${path}.${name}`;
      return ignored.includes(here) || ignored.includes(name) ? [] : [[name, without(one, ignored, here)]];
    }),
  );
}

function compareValues(before: unknown, after: unknown, place: string, differences: string[]): void {
  if (
    sortedJson(before ?? null) === sortedJson(after ?? null) &&
    (before === undefined) === (after === undefined)
  )
    return;
  if (isObject(before) && isObject(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
      compareValues(before[name], after[name], `${place}.${name}`, differences);
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    for (const [index, one] of before.entries())
      compareValues(one, after[index], `${place}[${index}]`, differences);
  } else differences.push(`${place}: ${shown(before)} -> ${shown(after)}`);
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return value === null ? 'null' : 'nothing';
  const text = JSON.stringify(value);
  return text.length <= textMax ? text : `${text.slice(0, textMax)}…`;
}
