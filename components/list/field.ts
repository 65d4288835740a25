/** What a prop for the name of a field says. */
export const fieldProp = {
  type: 'string',
  label: 'Field',
  description: 'Field of each item, such as `customer.name`; without it, the item itself',
  optional: true,
} as const;

/** The value of a field of an item: `customer.name`, `lines.0.sku`; the item itself without a field. */
export function fieldOf(item: unknown, field: string | undefined): unknown {
  if (field === undefined || field === '') return item;
  let value = item;
  for (const name of field.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

const collator = new Intl.Collator('en', { numeric: true });

/** Numbers by size, texts as people sort them, dates in ISO 8601 by time; missing values last. */
export function compareValues(a: unknown, b: unknown): number {
  const isMissing = (value: unknown) => Number(value === undefined || value === null);
  if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(keyOf(a), keyOf(b));
}

/** A text that equal values share. */
export function keyOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
