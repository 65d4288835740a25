import { isDeepStrictEqual } from 'node:util';
import { structuredPatch } from 'diff';
import { isRecord } from '#components/validate-props.ts';
import { hideInLine, hideSecrets, hideValue, namesSecret } from './hide-secrets.ts';

export const changeKinds = ['added', 'removed', 'changed'] as const;

/** One difference between what is here and what is imported. Secrets are never in it. */
export interface ReportedChange {
  /** Such as `steps.fetch.props.url`, `steps.fetch.code`, `settings.memory_mb`. */
  path: string;
  /** `added`: the import has it. `removed`: only this service has it. */
  what: (typeof changeKinds)[number];
  /** Shortened; null: there was none, it is secret, or it is code. */
  old: string | null;
  new: string | null;
  /** Changed lines of code, each with its sign. */
  lines: string[];
}

export interface ReportedChanges {
  changes: ReportedChange[];
  /** How many more there are. */
  changes_left_out: number;
}

export const noChanges: ReportedChanges = { changes: [], changes_left_out: 0 };

/** What is compared: a workflow or a source as a whole (`place` ''), or one step of it. */
export interface ComparedPart {
  place: string;
  fields: Readonly<Record<string, unknown>>;
  code: string | undefined;
  /** Names of props whose values are secret. */
  secretProps: readonly string[];
}

/** Changes of one workflow or object that are reported, and characters of their texts. */
const changesMax = 40;
const charactersMax = 12_000;
const textMax = 120;
const linesMax = 12;
const lineMax = 160;
/** Code beyond is not compared line by line: that takes time in the square of the changed lines. */
const comparedCharactersMax = 200_000;
const editsMax = 500;

/** Pure: what importing `there` over `here` changes. `redact` hides texts that are known to be secret. */
export function changesBetween(
  here: readonly ComparedPart[],
  there: readonly ComparedPart[],
  redact: (text: string) => string,
): ReportedChanges {
  const comparison = new Comparison(redact);
  const [old, wanted] = [byPlace(here), byPlace(there)];
  for (const [place, part] of old) if (!wanted.has(place)) comparison.addPart(part, 'removed');
  for (const [place, part] of wanted) {
    const former = old.get(place);
    if (former === undefined) comparison.addPart(part, 'added');
    else comparison.compareParts(former, part);
  }
  const order = (parts: readonly ComparedPart[], other: ReadonlyMap<string, ComparedPart>) =>
    parts.map(({ place }) => place).filter((place) => place !== '' && other.has(place));
  comparison.compareOrder(order(here, wanted), order(there, old));
  return comparison.result;
}

function byPlace(parts: readonly ComparedPart[]): Map<string, ComparedPart> {
  return new Map(parts.map((part) => [part.place, part]));
}

class Comparison {
  readonly #redact: (text: string) => string;
  readonly #changes: ReportedChange[] = [];
  #characters = 0;
  #leftOut = 0;

  constructor(redact: (text: string) => string) {
    this.#redact = redact;
  }

  get result(): ReportedChanges {
    return { changes: this.#changes, changes_left_out: this.#leftOut };
  }

  addPart({ place, fields, code }: ComparedPart, what: 'added' | 'removed'): void {
    const shown = code === undefined ? this.#text(fields.component, '') : `code of ${countLines(code)}`;
    this.#add({ path: place, what, ...(what === 'added' ? { new: shown } : { old: shown }) });
  }

  compareParts(here: ComparedPart, there: ComparedPart): void {
    const prefix = there.place === '' ? '' : `${there.place}.`;
    const secret = new Set([...here.secretProps, ...there.secretProps]);
    for (const name of namesIn(here.fields, there.fields)) {
      const [old, wanted] = [here.fields[name], there.fields[name]];
      if (name === 'props') this.#compareProps(old, wanted, { prefix, secret });
      else this.#compareValues(old, wanted, { path: `${prefix}${name}`, isSecret: false });
    }
    this.#compareCode(here.code, there.code, `${prefix}code`);
  }

  compareOrder(here: readonly string[], there: readonly string[]): void {
    if (isDeepStrictEqual(here, there)) return;
    const text = (places: readonly string[]) =>
      this.#text(places.map((place) => place.replace('steps.', '')).join(', '), '');
    this.#add({ path: 'steps', what: 'changed', old: text(here), new: text(there) });
  }

  #compareProps(
    here: unknown,
    there: unknown,
    { prefix, secret }: { prefix: string; secret: ReadonlySet<string> },
  ): void {
    const [old, wanted] = [isRecord(here) ? here : {}, isRecord(there) ? there : {}];
    for (const name of namesIn(old, wanted))
      this.#compareValues(old[name], wanted[name], {
        path: `${prefix}props.${name}`,
        isSecret: secret.has(name) || namesSecret(name),
      });
  }

  #compareValues(
    here: unknown,
    there: unknown,
    { path, isSecret }: { path: string; isSecret: boolean },
  ): void {
    if (isDeepStrictEqual(here, there)) return;
    const [old, wanted] = [asRecord(here), asRecord(there)];
    // What is secret as a whole has no places of its own.
    if (!isSecret && old !== undefined && wanted !== undefined) {
      for (const name of namesIn(old, wanted))
        this.#compareValues(old[name], wanted[name], {
          path: `${path}.${name}`,
          isSecret: namesSecret(name),
        });
      return;
    }
    this.#add({
      path,
      what: here === undefined ? 'added' : there === undefined ? 'removed' : 'changed',
      old: here === undefined ? null : this.#shown(here, isSecret),
      new: there === undefined ? null : this.#shown(there, isSecret),
    });
  }

  #compareCode(here: string | undefined, there: string | undefined, path: string): void {
    if (here === there) return;
    this.#add({
      path,
      what: here === undefined ? 'added' : there === undefined ? 'removed' : 'changed',
      lines: here === undefined || there === undefined ? [] : this.#linesOf(here, there),
    });
  }

  #linesOf(here: string, there: string): string[] {
    if (here.length + there.length > comparedCharactersMax) return [];
    const patch = structuredPatch('', '', here, there, '', '', { context: 0, maxEditLength: editsMax });
    const lines = (patch?.hunks ?? []).flatMap((hunk) => hunk.lines).filter((line) => /^[-+]/.test(line));
    return [
      ...lines.slice(0, linesMax).map((line) => cut(this.#redact(hideInLine(line)), lineMax)),
      ...(lines.length > linesMax ? [`… and ${lines.length - linesMax} lines`] : []),
    ];
  }

  #shown(value: unknown, isSecret: boolean): string | null {
    if (!isSecret) return this.#text(value, '');
    const shown = hideValue(value);
    return shown === value ? this.#text(shown, '') : null;
  }

  /** A value in one line; what `namesSecret` within it is hidden. */
  #text(value: unknown, name: string): string {
    const safe = withoutSecrets(value, name);
    const text = typeof safe === 'string' ? safe : (JSON.stringify(safe) ?? '');
    return cut(this.#redact(text).replaceAll(/\s+/g, ' '), textMax);
  }

  #add(change: Partial<ReportedChange> & Pick<ReportedChange, 'path' | 'what'>): void {
    const { path, what, old = null, new: wanted = null, lines = [] } = change;
    const reported = { path: cut(path, 2 * textMax), what, old, new: wanted, lines };
    const characters = JSON.stringify(reported).length;
    if (this.#changes.length >= changesMax || this.#characters + characters > charactersMax) {
      this.#leftOut += 1;
      return;
    }
    this.#characters += characters;
    this.#changes.push(reported);
  }
}

function withoutSecrets(value: unknown, name: string): unknown {
  if (namesSecret(name)) return hideValue(value);
  if (typeof value === 'string') return hideSecrets(value);
  const record = asRecord(value);
  if (record !== undefined)
    return Object.fromEntries(
      Object.entries(record).map(([inner, one]) => [inner, withoutSecrets(one, inner)]),
    );
  return Array.isArray(value) ? value.map((one) => withoutSecrets(one, '')) : value;
}

/** The places in a value by their names; of pairs with a name and a value, as headers are, those of the pairs. */
function asRecord(value: unknown): Record<string, unknown> | undefined {
  if (isRecord(value)) return value;
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const names = value.map((one) => (isRecord(one) && 'value' in one ? one.name : undefined));
  const isPairs = names.every((one) => typeof one === 'string') && new Set(names).size === names.length;
  if (!isPairs) return undefined;
  return Object.fromEntries(
    value.map(({ name, ...rest }: { name: string; value: unknown }) => [
      name,
      Object.keys(rest).length === 1 ? rest.value : rest,
    ]),
  );
}

function namesIn(one: Readonly<Record<string, unknown>>, other: Readonly<Record<string, unknown>>): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])];
}

function countLines(code: string): string {
  const count = code.trimEnd().split('\n').length;
  return count === 1 ? '1 line' : `${count} lines`;
}

function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}
