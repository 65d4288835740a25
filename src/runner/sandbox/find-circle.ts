import { shortened } from './shortened.ts';

/** JSON is cut beyond this depth anyway. */
const depthMax = 1000;

/** Finds a place where a value refers back to one that contains it, as two paths from `name`; undefined when there is none. */
export function findCircle(value: unknown, name: string): { from: string; to: string } | undefined {
  return search(value, name, new Map(), new WeakSet(), 0);
}

function search(
  value: unknown,
  path: string,
  holders: Map<object, string>,
  /** Values that are known to lead to no circle, so that shared ones are visited once. */
  seen: WeakSet<object>,
  depth: number,
): { from: string; to: string } | undefined {
  if (typeof value !== 'object' || value === null || seen.has(value) || depth > depthMax) return undefined;
  const holder = holders.get(value);
  if (holder !== undefined) return { from: path, to: holder };
  if (ArrayBuffer.isView(value) || typeof (value as { toJSON?: unknown }).toJSON === 'function')
    return undefined;
  holders.set(value, path);
  for (const [step, child] of childrenOf(value)) {
    const found = search(child, path + step, holders, seen, depth + 1);
    if (found !== undefined) return found;
  }
  holders.delete(value);
  seen.add(value);
  return undefined;
}

function* childrenOf(value: object): Iterable<[step: string, child: unknown]> {
  if (Array.isArray(value) || value instanceof Set) {
    let i = 0;
    for (const child of value) {
      yield [`[${i}]`, child];
      i += 1;
    }
  } else if (value instanceof Map) {
    for (const [key, child] of value) yield [stepTo(String(key)), child];
  } else {
    for (const key of Object.keys(value)) yield [stepTo(key), (value as Record<string, unknown>)[key]];
  }
}

function stepTo(key: string): string {
  const short = shortened(key, 60);
  return /^[A-Za-z_$][\w$]*$/.test(short) ? `.${short}` : `[${JSON.stringify(short)}]`;
}
