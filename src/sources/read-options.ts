import { isRecord } from '#components/validate-props.ts';

/** One choice. Values may be objects. */
export interface PropOption {
  label: string;
  value: unknown;
}

/** What the options of a prop answered, in one form. */
export interface PropOptions {
  options: PropOption[];
  /** The same as texts, when the component gave nothing but texts; null otherwise. */
  stringOptions: string[] | null;
  /** To be sent as `prev_context` with the next page. */
  context: Record<string, unknown>;
}

export const noOptions: PropOptions = { options: [], stringOptions: null, context: {} };

/**
 * Reads an array of values, of `{ label, value }`, or `{ options, context }`. Nothing at all is no options. Answers
 * undefined for anything else.
 */
export function readOptions(answer: unknown): PropOptions | undefined {
  if (isNothing(answer)) return noOptions;
  const list = isRecord(answer) ? answer.options : answer;
  const context = isRecord(answer) && isRecord(answer.context) ? answer.context : {};
  if (isRecord(answer) && isNothing(list)) return { ...noOptions, context };
  if (!Array.isArray(list)) return undefined;
  const items: unknown[] = list.filter((item) => item !== null && item !== undefined);
  return {
    options: items.map(readOption),
    stringOptions: items.length > 0 && items.every((item) => typeof item === 'string') ? items : null,
    context,
  };
}

/** Code often computes options with `?.` of a missing value, or with `&&`. */
function isNothing(answer: unknown): boolean {
  return answer === undefined || answer === null || answer === false || answer === '' || answer === 0;
}

function readOption(item: unknown): PropOption {
  if (!isRecord(item)) return { label: labelOf(item), value: item };
  if (isRecord(item.__lv)) return readOption(item.__lv);
  if (!('value' in item)) return { label: labelOf(item.label ?? item), value: item };
  const { label, value } = item;
  return { label: labelOf(isNothing(label) ? value : label), value };
}

function labelOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}
