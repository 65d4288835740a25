import { isRecord } from '#components/validate-props.ts';
import { blockDepthMax } from '#workflows/definitions/block-input.ts';
import { describeValue } from './describe-value.ts';
import { bookkeeping, stepLists } from './find-workflow.ts';
import { Fields, type KeyLedger, knownName } from './key-ledger.ts';
import { byHand, checkIt, type Finding, type ForeignStep, languageOf, type StepContent } from './project.ts';
import { blockKindOf, type ForeignBranch, makeBlock, outlineBlock, ruleNames } from './read-export-blocks.ts';

type Loose = Record<string, unknown>;

const codeNames = ['code', 'code_raw', 'codeRaw', 'source_code'];
const componentNames = ['component', 'saved_component', 'savedComponent', 'action'];
const actionNames = ['component_key', 'componentKey', 'uses'];
const propsNames = [
  ...['props', 'configured_props', 'configuredProps', 'params'],
  ...['configured_props_json', 'params_json'],
];
/** What is never looked through for steps: values of props may be records of any form. */
const opaqueNames = new Set([...codeNames, ...componentNames, ...actionNames, ...propsNames]);
/** What is in a step that makes it a block of control flow, also when no step is in it. */
const innerNames = new Set([...stepLists, 'step', 'branches', 'blocks', 'children', 'cases', 'then', 'else']);
const ownLists = new Set([...stepLists, 'step', 'children', 'body', 'do']);
const depthMax = 60;

/** What is found on the way. */
export interface StepNotes {
  ledger: KeyLedger;
  /** Keys that are not known, with a description of what they have. */
  unknown: string[];
  findings: Finding[];
}

/** Where steps stand: in a block that is made here, or in one that is not, so that they must not run. */
interface Surroundings {
  inside?: ForeignStep['inside'];
  isDisabled: boolean;
  depth: number;
}

/** Reads steps, wherever they nest, into one list: a block is followed by the steps in it. */
export class StepReader {
  readonly steps: ForeignStep[] = [];
  readonly #notes: StepNotes;

  constructor(notes: StepNotes) {
    this.#notes = notes;
  }

  /** A list of steps, a record of them by their names, or one step. */
  add(value: unknown, around: Surroundings = { isDisabled: false, depth: 0 }): void {
    const isOne = isRecord(value) && isStep(value);
    const items: [string, unknown][] =
      isRecord(value) && !isOne ? Object.entries(value) : listOf(value).map((item) => ['', item]);
    for (const [name, item] of items) {
      if (isRecord(item)) {
        // A record that a key describes, and that is no step.
        if (name !== '' && !hasContent(item) && !holdsSteps(item) && blockKindOf(item) === undefined)
          this.#addUnknown(`steps.${knownName(name)}`, item);
        else this.#addStep(item, name, around);
      } else if (Array.isArray(item) || item === null) {
        if (name !== '') this.#notes.ledger.count(`steps.${knownName(name)}`, 'noted');
        this.add(item, around);
      } else this.#addUnknown(name === '' ? 'steps[]' : `steps.${knownName(name)}`, item);
    }
  }

  /** Steps in a value that the importer does not know, which are kept and do not run. */
  addStray(value: unknown, place: string): void {
    if (!holdsSteps(value)) return;
    const before = this.steps.length;
    this.#collect(value, { isDisabled: true, depth: 0 });
    const names = this.steps.slice(before).map(({ namespace }) => namespace);
    this.#notes.findings.push(
      byHand(`there are steps in ${place}, where none are expected: ${names.join(', ')} are kept, disabled`),
    );
  }

  /** The outermost steps in a value. */
  #collect(value: unknown, around: Surroundings): void {
    if (Array.isArray(value)) for (const item of value) this.#collect(item, around);
    else if (!isRecord(value)) return;
    else if (hasContent(value)) this.#addStep(value, '', around);
    else
      for (const [key, item] of Object.entries(value)) {
        if (isRecord(item) && hasContent(item)) this.#addStep(item, key, around);
        else this.#collect(item, around);
      }
  }

  #addUnknown(key: string, value: unknown): void {
    this.#notes.ledger.countUnknown(key, value);
    this.#notes.unknown.push(`${key}: ${describeValue(value)}`);
  }

  #addStep(record: Loose, name: string, around: Surroundings): void {
    const fields = new Fields(record, 'steps[].', this.#notes.ledger);
    const given = textOf(fields.takeFirst(['namespace', 'slug', 'name']));
    const namespace = given === '' ? name : given;
    if (name !== '' && name !== namespace) this.#notes.ledger.count(`steps.${knownName(name)}`, 'ignored');
    const runtime = textOf(fields.takeFirst(['runtime', 'lang', 'language'], 'noted'));
    const isOff = fields.take('disabled') === true || fields.take('enabled') === false;
    const kind = blockKindOf(record);
    const inner = Object.keys(record).filter(
      (key) =>
        !opaqueNames.has(key) && (holdsSteps(record[key]) || (innerNames.has(key) && isFilled(record[key]))),
    );
    const step: ForeignStep = {
      ...{ namespace, runtime, disabled: isOff || around.isDisabled },
      content: { kind: 'missing', uses: 'the block' },
      props: {},
      note: textOf(fields.takeFirst(['note', 'notes'])),
      ...(around.inside === undefined ? {} : { inside: around.inside }),
    };
    if (kind !== undefined || inner.length > 0) {
      this.#addBlock(step, { record, fields, inner, around });
      return;
    }
    if (typeof record.type === 'string' && /^(?:code|component|action|registry)/i.test(record.type))
      fields.take('type', 'noted');
    step.content = this.#contentOf(fields, step);
    step.props = propsOf(fields.takeFirst(propsNames));
    this.#noteUnknown(fields, 'steps[].');
    this.steps.push(step);
  }

  #addBlock(
    step: ForeignStep,
    {
      record,
      fields,
      inner,
      around,
    }: { record: Loose; fields: Fields; inner: string[]; around: Surroundings },
  ): void {
    const { namespace } = step;
    const branches = inner.flatMap((key) => this.#branchesOf(key, fields.take(key, 'noted')));
    // Its own code stays a step before the steps in it.
    const hasCode = blockKindOf(record) === undefined && hasContent(record);
    if (hasCode) {
      step.content = this.#contentOf(fields, step);
      step.props = propsOf(fields.takeFirst(propsNames));
    }
    const made = makeBlock(record, fields, branches);
    const isKnown = this.#noteUnknown(fields, 'steps[].') === 0 && branches.every((branch) => branch.isKnown);
    const at = this.steps.length;
    this.steps.push(step);
    const depth = around.depth + 1;
    if (made !== undefined && isKnown && !hasCode && depth <= blockDepthMax) {
      step.block = made.block;
      for (const [branch, { lists }] of made.branches.entries())
        for (const list of lists) this.add(list, { ...around, inside: { block: at, branch }, depth });
      const what = `the block ${made.block.kind} here: look at its rules and test it`;
      this.#notes.findings.push(checkIt(`it is a block of control flow, and ${what}`, namespace));
      return;
    }
    const names = branches.map(({ lists }) => {
      const from = this.steps.length;
      for (const list of lists) this.add(list, { ...around, isDisabled: true, depth });
      return this.steps.slice(from).map((one) => one.namespace);
    });
    step.note = [step.note, outlineBlock(record, branches, names)].filter((text) => text !== '').join('\n\n');
    const kept = names.flat().join(', ') || 'none';
    this.#notes.findings.push(
      byHand(
        `it is a block of control flow: build it here, with its steps (${kept}), which are kept, disabled; its note has its branches and rules`,
        namespace,
      ),
    );
  }

  /** The branches in a field of a block, with all keys of theirs counted. */
  #branchesOf(key: string, value: unknown): ForeignBranch[] {
    const items = listOf(value);
    const areSteps = items.every((item) => !isRecord(item) || isStep(item));
    if (ownLists.has(key) || (Array.isArray(value) && areSteps)) return [plainBranch(key, value)];
    if (Array.isArray(value)) return items.flatMap((item, at) => this.#branchOf(`branch_${at + 1}`, item));
    if (!isRecord(value)) return [];
    const isBranch = isStep(value) || Object.keys(value).some((name) => ownLists.has(name));
    if (isBranch) return this.#branchOf(key, value);
    return Object.entries(value).flatMap(([name, one]) => this.#branchOf(name, one));
  }

  #branchOf(slug: string, value: unknown): ForeignBranch[] {
    if (Array.isArray(value) || (isRecord(value) && isStep(value))) return [plainBranch(slug, value)];
    if (!isRecord(value)) {
      this.#addUnknown(`steps[].branches[].${knownName(slug)}`, value);
      return [{ ...plainBranch(slug, []), isKnown: false }];
    }
    const at = 'steps[].branches[].';
    const fields = new Fields(value, at, this.#notes.ledger);
    const given = textOf(fields.takeFirst(['slug', 'key', 'name', 'label', 'title']));
    if (given !== '' && given !== slug) this.#notes.ledger.count(`${at}${knownName(slug)}`, 'ignored');
    fields.take('description', 'noted');
    const isElse = ['else', 'default', 'is_else', 'is_default', 'isElse', 'isDefault']
      .map((name) => (typeof value[name] === 'boolean' ? fields.take(name) : undefined))
      .includes(true);
    const lists = fields
      .left()
      .filter((name) => holdsSteps(value[name]) || ownLists.has(name))
      .map((name) => ({ name, list: fields.take(name, 'noted') }));
    const rule = fields.takeFirst(ruleNames);
    const matched = fields.takeFirst(['case', 'value', 'match']);
    const isKnown = this.#noteUnknown(fields, at) === 0 && lists.every(({ name }) => ownLists.has(name));
    return [
      {
        slug: given === '' ? slug : given,
        ...{ rule, case: matched, isElse, isKnown },
        lists: lists.map(({ list }) => list),
      },
    ];
  }

  #contentOf(
    fields: Fields,
    { namespace, runtime }: Pick<ForeignStep, 'namespace' | 'runtime'>,
  ): StepContent {
    const { ledger, findings } = this.#notes;
    const given = fields.takeFirst(componentNames);
    const component = new Fields(given, 'steps[].component.', ledger);
    if (given !== undefined && given !== null && !isRecord(given) && typeof given !== 'boolean')
      findings.push(checkIt(`its component is ${describeValue(given)}, expected a mapping`, namespace));
    const own = codeText(fields.takeFirst(codeNames), namespace, findings);
    const code = own ?? codeText(component.takeFirst(codeNames.slice(0, 3)), namespace, findings);
    // The key of a cell of code names nothing.
    const key = own === undefined ? fields.take('key') : undefined;
    const named = textOf(fields.takeFirst(actionNames) ?? key ?? component.takeFirst(['key', 'slug']));
    const version = textOf(
      fields.takeFirst(['component_version', 'componentVersion', 'version']) ?? component.take('version'),
    );
    component.take('name', 'ignored');
    this.#noteUnknown(component, 'steps[].component.');
    const [, scope = '', action = '', pinned = ''] =
      /^(?:@([^/@]+)\/)?([A-Za-z0-9_.-]+)(?:@(.+))?$/.exec(named) ?? [];
    if (action !== '') return { kind: 'action', key: action, version: pinned || version, scope };
    if (code === undefined) return { kind: 'missing', uses: '' };
    const language = runtime === '' ? 'nodejs' : languageOf('', runtime);
    return { kind: 'code', language, path: namespace, text: code };
  }

  /** The number of fields that are not known. */
  #noteUnknown(fields: Fields, at: string): number {
    const left = unknownFields(fields, at);
    this.#notes.unknown.push(...left);
    return left.length;
  }
}

/** Counts what is left in fields; what is not known is described. */
export function unknownFields(fields: Fields, at: string): string[] {
  for (const name of fields.left()) if (bookkeeping.test(name)) fields.take(name, 'ignored');
  return fields.rest().map(([name, value]) => `${at}${knownName(name)}: ${describeValue(value)}`);
}

/** True for a record that is a step, whatever it runs. */
function isStep(record: Loose): boolean {
  return (
    hasContent(record) ||
    (typeof record.namespace === 'string' && !Object.keys(record).some((key) => ownLists.has(key)))
  );
}

/** True for a record that says what a step runs. */
function hasContent(record: Loose): boolean {
  return (
    codeNames.some((name) => isCode(record[name])) ||
    actionNames.some((name) => textOf(record[name]) !== '') ||
    componentNames.some((name) => {
      const component = record[name];
      return isRecord(component) && [...codeNames, 'key', 'slug'].some((one) => isCode(component[one]));
    }) ||
    (typeof record.namespace === 'string' &&
      [...propsNames, 'key'].some((name) => Object.hasOwn(record, name)))
  );
}

function isCode(value: unknown): boolean {
  return typeof value === 'string' || partsOfCode(value) !== undefined;
}

/** True when there is a step in a value, at any depth. */
function holdsSteps(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null || depth > depthMax) return false;
  if (isRecord(value) && hasContent(value)) return true;
  return Object.entries(value).some(
    ([key, inner]) => (Array.isArray(value) || !opaqueNames.has(key)) && holdsSteps(inner, depth + 1),
  );
}

function isFilled(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function plainBranch(slug: string, list: unknown): ForeignBranch {
  return { slug, rule: undefined, case: undefined, isElse: false, isKnown: true, lists: [list] };
}

/** Code is a text; lines of one, or a record with a text, are read too. Undefined: there is none. */
function codeText(value: unknown, namespace: string, findings: Finding[]): string | undefined {
  if (typeof value === 'string') return value;
  if (value === undefined || value === null) return undefined;
  const text = partsOfCode(value);
  findings.push(
    text === undefined
      ? byHand(`its code is ${describeValue(value)}, expected a text`, namespace)
      : checkIt(`its code was ${describeValue(value)}: see that it is right`, namespace),
  );
  return text;
}

function partsOfCode(value: unknown): string | undefined {
  if (Array.isArray(value))
    return value.length > 0 && value.every((line) => typeof line === 'string') ? value.join('\n') : undefined;
  if (!isRecord(value)) return undefined;
  const entries = Object.entries(value);
  const [[name = '', text] = []] = entries;
  return entries.length === 1 && /^(?:text|raw|source|content|body)$/.test(name) && typeof text === 'string'
    ? text
    : undefined;
}

/** Props as an object, or as JSON text of one. */
function propsOf(value: unknown): Loose {
  if (typeof value !== 'string') return isRecord(value) ? value : {};
  try {
    const parsed = JSON.parse(value) as unknown;
    return isRecord(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

export function listOf(value: unknown): unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
