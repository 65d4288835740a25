/** A change of a value that depends on what it is. */
export type ValueChange =
  | { op: 'increment'; amount: number }
  /** `value`: JSON text. */
  | { op: 'append'; value: string };

/** JSON text of the new value, or what the present one should have been. `found`: JSON text; undefined: there is none. */
export function changedValue(
  change: ValueChange,
  found: string | undefined,
): { value: string } | { expected: string } {
  const before: unknown = found === undefined ? null : JSON.parse(found);
  if (change.op === 'increment') {
    const number = numberOf(before);
    const sum = (number ?? Number.NaN) + change.amount;
    return Number.isFinite(sum) ? { value: JSON.stringify(sum) } : { expected: 'a number' };
  }
  if (before === null) return { value: `[${change.value}]` };
  if (Array.isArray(before))
    return {
      value:
        before.length === 0 ? `[${change.value}]` : JSON.stringify([...before, JSON.parse(change.value)]),
    };
  const value: unknown = JSON.parse(change.value);
  if (typeof before === 'string' && typeof value === 'string')
    return { value: JSON.stringify(before + value) };
  return { expected: 'an array, or text for a text' };
}

/** A value that does not exist counts as 0, and text that is a number as that. */
function numberOf(value: unknown): number | undefined {
  if (value === null) return 0;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}
