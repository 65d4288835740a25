/** A change of a value that depends on what it is. */
export type ValueChange =
  | { op: 'increment'; amount: number }
  /** `value`: JSON text. */
  | { op: 'append'; value: string };

/** Texts that are longer are no number that anyone meant. */
const numberTextMax = 100;

/**
 * JSON text of the new value, or what the present one should have been. `found`: JSON text; undefined: there is none. Large values are not
 * parsed: fifty appends to an array of 600 KB held the loop that serves everyone for 200 ms.
 */
export function changedValue(
  change: ValueChange,
  found: string | undefined,
): { value: string } | { expected: string } {
  if (change.op === 'append') return appended(found?.trim() ?? 'null', change.value.trim());
  const number = numberOf(found ?? 'null');
  const sum = (number ?? Number.NaN) + change.amount;
  return Number.isFinite(sum) ? { value: JSON.stringify(sum) } : { expected: 'a number' };
}

/** JSON texts without white space around them. */
function appended(found: string, value: string): { value: string } | { expected: string } {
  if (found === 'null') return { value: `[${value}]` };
  if (found.startsWith('[')) {
    const elements = found.slice(1, -1).trim();
    return { value: elements === '' ? `[${value}]` : `[${elements},${value}]` };
  }
  if (found.startsWith('"') && value.startsWith('"'))
    return { value: `${found.slice(0, -1)}${value.slice(1)}` };
  return { expected: 'an array, or text for a text' };
}

/** A value that does not exist counts as 0, and text that is a number as that. `found`: JSON text. */
function numberOf(found: string): number | undefined {
  if (found.length > numberTextMax) return undefined;
  const value: unknown = JSON.parse(found);
  if (value === null) return 0;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}
