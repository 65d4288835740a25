const shownMax = 200;
const plainName = /^[\w$.-]{1,60}$/;

/** A value of an export for a message. Numbers and booleans are shown; a text never is, since it may be a secret. */
export function describeValue(value: unknown): string {
  return describe(value, 2);
}

/** `left`: mappings within one another that are described. */
function describe(value: unknown, left: number): string {
  if (value === undefined) return 'not given';
  if (typeof value === 'string') return 'a text';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value !== 'object' || value === null) return String(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return 'an empty mapping';
  if (left === 0) return 'a mapping';
  const parts = entries.map(
    ([name, inner]) => `${plainName.test(name) ? name : 'an unusual name'}: ${describe(inner, left - 1)}`,
  );
  const text = `a mapping with ${parts.join(', ')}`;
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}
