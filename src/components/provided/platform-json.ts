/**
 * `JSON.stringify` for values that it refuses: a reference back to an ancestor becomes `"[Circular]"`, a bigint its
 * digits, and a getter or `toJSON` that throws is shown as such. Returns undefined where `JSON.stringify` does.
 */
export function jsonStringifySafe(value: unknown, indent?: string | number): string | undefined {
  return JSON.stringify(printable(value, []), null, indent);
}

/** A copy that shares nothing with `value` and holds plain JSON values only; null of what JSON cannot say at all. */
export function cloneSafe<T>(value: T): T {
  // The type is kept for callers' convenience: what JSON cannot say is missing in the copy.
  return JSON.parse(jsonStringifySafe(value) ?? 'null') as T;
}

function printable(value: unknown, ancestors: readonly object[]): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (ancestors.includes(value)) return '[Circular]';
  const path = [...ancestors, value];
  try {
    const toJson = (value as { toJSON?: unknown }).toJSON;
    // Buffers, Dates, URLs and others have their own JSON form; what comes back may still hold anything.
    if (typeof toJson === 'function') return printable(toJson.call(value, ''), path);
  } catch (error) {
    return `[Throws: ${messageOf(error)}]`;
  }
  if (Array.isArray(value)) return value.map((item) => printable(item, path));
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return value.valueOf();
  const copy: Record<string, unknown> = Object.create(null);
  for (const key of Object.keys(value)) {
    try {
      copy[key] = printable((value as Record<string, unknown>)[key], path);
    } catch (error) {
      copy[key] = `[Throws: ${messageOf(error)}]`;
    }
  }
  return copy;
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
