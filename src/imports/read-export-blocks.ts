import { isRecord } from '#components/validate-props.ts';
import { checkBlock } from '#workflows/definitions/block-input.ts';
import type { RuleInput } from '#workflows/definitions/rule-input.ts';
import { convertRule } from './convert-rule.ts';
import type { Fields } from './key-ledger.ts';
import type { ForeignBlock } from './project.ts';
import { rangesByForm } from './secret-forms.ts';

type Loose = Record<string, unknown>;
type Kind = ForeignBlock['kind'];

/** A branch as it stands in an export. */
export interface ForeignBranch {
  slug: string;
  rule: unknown;
  case: unknown;
  /** It is taken when no other is. */
  isElse: boolean;
  /** All of its keys are known. */
  isKnown: boolean;
  /** What holds its steps. */
  lists: unknown[];
}

const typeNames = ['block', 'type', 'kind', 'block_type', 'blockType', 'control_flow', 'controlFlow'];
const keyNames = ['component_key', 'componentKey', 'uses', 'key'];
export const ruleNames = ['rule', 'if', 'condition', 'conditions', 'rules', 'when'];
const valueNames = ['value', 'expression', 'expr', 'on'];
const itemNames = ['items', 'list', 'array', 'collection', 'over', 'for_each', 'forEach'];
const milliseconds = ['ms', 'milliseconds', 'duration_ms', 'durationMs', 'delay_ms', 'delayMs'];
const durationNames = ['duration', 'amount', 'delay'];
const unitNames = ['unit', 'units'];
const reasonNames = ['reason', 'message'];
const concurrencyNames = ['concurrency', 'parallelism'];
/** Every field of a block that is no branch. */
const fieldNames = [
  ...[...ruleNames, ...valueNames, ...itemNames, 'seconds', ...milliseconds],
  ...[...durationNames, ...unitNames, ...reasonNames, ...concurrencyNames],
];
const propsNames = ['props', 'configured_props', 'configuredProps', 'params', 'config'];

const kinds: Readonly<Record<Kind, RegExp>> = {
  if: /^(?:if|ifelse|ifthenelse|condition|conditional|branch)$/,
  switch: /^switch(?:case)?$/,
  parallel: /^(?:parallel|fork)$/,
  map: /^(?:map|foreach|loop|iterate|iterator)$/,
  filter: /^filter$/,
  delay: /^delay$/,
  end: /^(?:end|endworkflow|exit)$/,
};
const unitSeconds: Readonly<Record<string, number>> = {
  ms: 0.001,
  millisecond: 0.001,
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
};
const elseSlug = /^(?:else|otherwise|default|no|false|if_?false)$/i;
const thenSlug = /^(?:then|yes|true|if_?true)$/i;
const textMax = 2_000;

/** The kind of block that a record says it is; undefined: it says none. */
export function blockKindOf(record: Loose): Kind | undefined {
  const { component } = record;
  const keys = [...keyNames.map((name) => record[name]), isRecord(component) ? component.key : undefined];
  const named = keys.filter((key) => typeof key === 'string' && /^control[_-]?flow/i.test(key));
  for (const text of [...typeNames.map((name) => record[name]), ...named]) {
    if (typeof text !== 'string') continue;
    const word = text
      .toLowerCase()
      .replaceAll(/@.*$|[^a-z]/g, '')
      .replace(/^controlflow(?=.)/, '')
      .replace(/(?<=.)(?:block|step|cell|operator|node)$/, '');
    for (const [kind, pattern] of Object.entries(kinds)) if (pattern.test(word)) return kind as Kind;
  }
  return undefined;
}

/**
 * Takes the fields that make a record a block. Returns the block here, and its branches in their order; undefined when its meaning is not sure:
 * then it is built by hand, and the note of its step has what it was.
 */
export function makeBlock(
  record: Loose,
  fields: Fields,
  branches: readonly ForeignBranch[],
): { block: ForeignBlock; branches: ForeignBranch[] } | undefined {
  const kind = blockKindOf(record);
  for (const name of [...typeNames, ...(kind === undefined ? [] : keyNames)])
    if (typeof record[name] === 'string') fields.take(name, 'noted');
  const props = fields.takeFirst(propsNames, 'noted');
  const given = { ...(isRecord(props) ? props : {}) };
  for (const name of fieldNames) {
    const value = fields.take(name, 'noted');
    if (value !== undefined) given[name] = value;
  }
  if (kind === undefined || Object.keys(given).some((name) => !fieldNames.includes(name))) return undefined;
  const made = new BlockMaker(given, branches).make(kind);
  if (made === undefined) return undefined;
  const steps = kind === 'map' ? { steps: [] } : {};
  const list = kind === 'map' || made.parts.length === 0 ? {} : { branches: made.block.branches };
  try {
    checkBlock({ namespace: 'block', block: kind, ...made.block.fields, ...list, ...steps }, 'block', kind);
  } catch {
    return undefined;
  }
  return { block: made.block, branches: made.parts };
}

interface Made {
  block: ForeignBlock;
  parts: ForeignBranch[];
}

/** Makes a block of its fields; a field that it has no use for makes its meaning unsure. */
class BlockMaker {
  readonly #given: Loose;
  readonly #parts: readonly ForeignBranch[];

  constructor(given: Loose, parts: readonly ForeignBranch[]) {
    this.#given = { ...given };
    this.#parts = parts;
  }

  make(kind: Kind): Made | undefined {
    const made = this.#make(kind);
    return Object.keys(this.#given).length === 0 ? made : undefined;
  }

  #make(kind: Kind): Made | undefined {
    switch (kind) {
      case 'if':
        return this.#choice(kind, this.#rules());
      case 'parallel':
        return this.#choice(kind, this.#branchesWith('if'));
      case 'switch': {
        const value = this.#value();
        return value === undefined
          ? undefined
          : this.#choice(kind, this.#elseLast(this.#branchesWith('case')), { value });
      }
      case 'map': {
        const [items, concurrency] = [this.#take(itemNames), this.#take(concurrencyNames)];
        const isList = Array.isArray(items) || (typeof items === 'string' && items.includes('{{'));
        const [part] = this.#parts;
        if (
          !isList ||
          part === undefined ||
          this.#parts.length > 1 ||
          part.rule !== undefined ||
          part.case !== undefined
        )
          return undefined;
        const fields = { items, ...(concurrency === undefined ? {} : { concurrency }) };
        return { block: { kind, fields, branches: [{ slug: 'each' }] }, parts: [part] };
      }
      case 'filter': {
        const rule = convertRule(this.#take(ruleNames));
        return rule === undefined ? undefined : this.#leaf(kind, { if: rule, ...this.#reason() });
      }
      case 'delay': {
        const seconds = this.#seconds();
        return seconds === undefined ? undefined : this.#leaf(kind, { seconds });
      }
      case 'end':
        return this.#leaf(kind, this.#reason());
    }
  }

  #leaf(kind: Kind, fields: Loose): Made | undefined {
    return this.#parts.length > 0 ? undefined : { block: { kind, fields, branches: [] }, parts: [] };
  }

  #choice(kind: Kind, made: ChosenBranch[] | undefined, fields: Loose = {}): Made | undefined {
    if (made === undefined || made.length === 0) return undefined;
    const taken = new Set<string>();
    const branches = made.map(({ part, decides }, index) => ({
      slug: slugOf(part.slug, index, taken),
      ...decides,
    }));
    return { block: { kind, fields, branches }, parts: made.map(({ part }) => part) };
  }

  /** The rule of a block may stand beside its branches: then it is that of `then`, and `else` has none. */
  #rules(): ChosenBranch[] | undefined {
    const rule = this.#take(ruleNames);
    if (rule === undefined) return this.#elseLast(this.#branchesWith('if'));
    const isPlain = this.#parts.every(({ slug }) => thenSlug.test(slug) || elseSlug.test(slug));
    const parts = this.#parts.map((part) =>
      thenSlug.test(part.slug) && part.rule === undefined ? { ...part, rule } : part,
    );
    return isPlain ? this.#elseLast(this.#branchesWith('if', parts)) : undefined;
  }

  #branchesWith(
    field: 'if' | 'case',
    parts: readonly ForeignBranch[] = this.#parts,
  ): ChosenBranch[] | undefined {
    const made = parts.map((part) => {
      const [wanted, other] = field === 'if' ? [part.rule, part.case] : [part.case, part.rule];
      if (other !== undefined || (part.isElse && wanted !== undefined)) return undefined;
      if (wanted === undefined) return { part, decides: {} };
      const value = field === 'if' ? convertRule(wanted) : typeof wanted === 'object' ? undefined : wanted;
      return value === undefined ? undefined : { part, decides: { [field]: value } };
    });
    return made.every((one) => one !== undefined) ? made : undefined;
  }

  /** Undefined: it is not sure which branch is taken when no other is. */
  #elseLast(made: ChosenBranch[] | undefined): ChosenBranch[] | undefined {
    const others = made?.filter(({ decides }) => Object.keys(decides).length === 0) ?? [];
    const [other] = others;
    if (made === undefined || other === undefined) return made;
    const isSure = other.part.isElse || elseSlug.test(other.part.slug) || other === made.at(-1);
    if (others.length > 1 || made.length < 2 || !isSure) return undefined;
    return [...made.filter((one) => one !== other), other];
  }

  #value(): string | undefined {
    const isExpression = this.#given.expression !== undefined || this.#given.expr !== undefined;
    const value = this.#take(valueNames);
    if (typeof value !== 'string') return undefined;
    if (value.includes('{{')) return value;
    return isExpression && /^[A-Za-z_$][\w$.[\]'"?]*$/.test(value.trim()) ? `{{${value.trim()}}}` : undefined;
  }

  #seconds(): unknown {
    const seconds = this.#take(['seconds']);
    if (seconds !== undefined) return isDuration(seconds) ? seconds : undefined;
    const exact = this.#take(milliseconds);
    if (exact !== undefined) return typeof exact === 'number' ? exact / 1_000 : undefined;
    const [amount, unit] = [this.#take([...durationNames, ...valueNames]), this.#take(unitNames)];
    const factor =
      typeof unit === 'string' ? unitSeconds[unit.toLowerCase().replace(/(?<=..)s$/, '')] : undefined;
    const number = typeof amount === 'string' && amount.trim() !== '' ? Number(amount) : amount;
    return typeof number === 'number' && Number.isFinite(number) && factor !== undefined
      ? number * factor
      : undefined;
  }

  #reason(): { reason?: string } {
    const reason = this.#take(reasonNames);
    return typeof reason === 'string' && reason !== '' ? { reason } : {};
  }

  /** The first of several names of one thing. */
  #take(names: readonly string[]): unknown {
    const name = names.find((one) => this.#given[one] !== undefined);
    if (name === undefined) return undefined;
    const value = this.#given[name];
    delete this.#given[name];
    return value ?? undefined;
  }
}

interface ChosenBranch {
  part: ForeignBranch;
  decides: { if?: RuleInput; case?: unknown };
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' || (typeof value === 'string' && value.includes('{{'));
}

function slugOf(given: string, index: number, taken: Set<string>): string {
  const base = given.replaceAll(/[^A-Za-z0-9_-]+/g, '_').slice(0, 90);
  let slug = base === '' || base === '__proto__' ? `branch_${index + 1}` : base;
  for (let number = 2; taken.has(slug); number += 1) slug = `${base}_${number}`;
  taken.add(slug);
  return slug;
}

/** What a block was, for the note of the step that stands for it. `steps`: names of the steps of each branch. */
export function outlineBlock(
  record: Loose,
  branches: readonly ForeignBranch[],
  steps: readonly (readonly string[])[],
): string {
  const shownNames = [...typeNames, ...propsNames, ...fieldNames].filter((name) => isShown(record[name]));
  const fields = shownNames.map((name) => `${name}: ${shown(record[name])}`);
  const lines = branches.map(({ slug, rule, case: matched, isElse }, index) => {
    const parts = [
      isShown(rule) ? `, rule ${shown(rule)}` : '',
      isShown(matched) ? `, case ${shown(matched)}` : '',
      isElse ? ', else' : '',
    ];
    return `branch ${slug}${parts.join('')}: ${steps[index]?.join(', ') || 'no steps'}`;
  });
  return ['This was a block of control flow:', ...fields, ...lines]
    .map((line) => `- ${line}`)
    .join('\n')
    .slice(2);
}

function isShown(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** A value for a note. What has the form of a secret is left out. */
function shown(value: unknown): string {
  let text = JSON.stringify(value) ?? '';
  for (const { start, end } of rangesByForm(text).toSorted((one, other) => other.start - one.start))
    text = `${text.slice(0, start)}…${text.slice(end)}`;
  return text.length > textMax ? `${text.slice(0, textMax)}…` : text;
}
