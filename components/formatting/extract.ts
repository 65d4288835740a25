import { type ActionRun, textOf } from '../action.ts';

/** The props of actions that find something in a text. */
export function extractProps(noun: string) {
  return {
    input: { type: 'string', label: 'Input', description: `Text that may contain ${noun}` },
    all: {
      type: 'boolean',
      label: 'Find all',
      description: 'Return all that are found, as a list, instead of the first',
      optional: true,
      default: false,
    },
  };
}

export interface Extract {
  input: string;
  all?: boolean;
}

/** The first match or null; with `all` a list of matches. `keep` turns a match into what is returned, or drops it. */
export function extract(
  { input, all }: Extract,
  { $ }: ActionRun,
  what: { noun: string; pattern: RegExp; keep?: (match: string) => string | undefined },
): string | string[] | null {
  const { noun, pattern, keep = (match) => match } = what;
  const found = [...textOf('input', input).matchAll(pattern)]
    .map(([match]) => keep(match))
    .filter((match) => match !== undefined);
  $.export(
    '$summary',
    found.length === 0 ? `Found no ${noun}` : `Found ${noun}: ${found.slice(0, 3).join(', ')}`,
  );
  return all === true ? found : (found[0] ?? null);
}
