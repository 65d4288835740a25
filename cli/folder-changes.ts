import { structuredPatch } from 'diff';
import { isObject } from './api.ts';
import { sortedJson } from './folder-names.ts';
import type { WorkflowForm } from './workflow-file.ts';

/** One difference between a workflow or source on the service and in the folder. */
export interface Change {
  /** `steps.fetch.props.url`. */
  place: string;
  kind: 'added' | 'removed' | 'changed' | 'moved';
  before?: unknown;
  after?: unknown;
  /** Changed lines of code, each with its sign. */
  lines?: string[];
}

const linesMax = 200;
const textMax = 120;
const secretPlace = /auth\b|authorization|cookie|token|secret|password|passwd|api[-_]?key/i;

type Fields = Record<string, unknown>;

/** What is in `after` and not in `before`, and the other way round; undefined: there is none. */
export function changesOf(before: WorkflowForm | undefined, after: WorkflowForm | undefined): Change[] {
  const [old, now] = [partsOf(before), partsOf(after)];
  const changes: Change[] = [];
  compareFields(old.fields, now.fields, '', changes);
  for (const [name, step] of old.steps)
    if (!now.steps.has(name)) changes.push({ place: `steps.${name}`, kind: 'removed', before: step.fields });
  for (const [name, step] of now.steps) {
    const former = old.steps.get(name);
    if (former === undefined) {
      changes.push({ place: `steps.${name}`, kind: 'added', after: step.fields });
      if (step.code !== undefined) compareCode('', step.code, `steps.${name}.code`, changes);
      continue;
    }
    if (former.within !== step.within)
      changes.push({ place: `steps.${name}`, kind: 'moved', before: former.within, after: step.within });
    compareFields(former.fields, step.fields, `steps.${name}.`, changes);
    compareCode(former.code ?? '', step.code ?? '', `steps.${name}.code`, changes);
  }
  for (const [place, order] of now.orders) {
    const former = old.orders.get(place);
    // Steps that came, went or moved elsewhere are listed already.
    const both = (list: readonly string[], other: readonly string[] = []) =>
      list.filter((one) => other.includes(one));
    const [was, is] = [both(former ?? [], order), both(order, former)];
    if (was.join() !== is.join())
      changes.push({ place, kind: 'moved', before: was.join(', '), after: is.join(', ') });
  }
  compareCode(old.code ?? '', now.code ?? '', 'code', changes);
  return changes;
}

interface Parts {
  fields: Fields;
  steps: Map<string, { within: string; fields: Fields; code: string | undefined }>;
  /** Names of the steps of each list. */
  orders: Map<string, string[]>;
  /** The code of a source. */
  code: string | undefined;
}

function partsOf(form: WorkflowForm | undefined): Parts {
  const parts: Parts = { fields: {}, steps: new Map(), orders: new Map(), code: undefined };
  if (form === undefined) return parts;
  const { steps, schema: _schema, uses, ...fields } = form.file;
  const codeAt = (place: unknown) => form.code.get(String(place));
  parts.fields = { ...fields, ...(uses === undefined || codeAt(uses) !== undefined ? {} : { uses }) };
  parts.code = codeAt(uses);
  const addList = (list: unknown, within: string): void => {
    const entries = Array.isArray(list) ? (list as Fields[]) : [];
    parts.orders.set(
      within,
      entries.map(({ namespace }) => String(namespace)),
    );
    for (const {
      namespace,
      uses: from,
      branches,
      steps: inner,
      error_steps: errorSteps,
      ...rest
    } of entries) {
      const place = `steps.${String(namespace)}`;
      const code = codeAt(from);
      const shown = (Array.isArray(branches) ? (branches as Fields[]) : []).map(
        ({ steps: _steps, ...branch }) => branch,
      );
      parts.steps.set(String(namespace), {
        within,
        code,
        fields: {
          ...rest,
          ...(from === undefined || code !== undefined ? {} : { uses: from }),
          ...(branches === undefined ? {} : { branches: shown }),
        },
      });
      for (const branch of Array.isArray(branches) ? (branches as Fields[]) : [])
        addList(branch.steps, `${place}.branches.${String(branch.slug)}`);
      if (inner !== undefined) addList(inner, `${place}.steps`);
      if (errorSteps !== undefined) addList(errorSteps, `${place}.error_steps`);
    }
  };
  addList(steps, 'steps');
  return parts;
}

function compareFields(before: unknown, after: unknown, place: string, changes: Change[]): void {
  if (sortedJson(before) === sortedJson(after)) return;
  if (isObject(before) && isObject(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
      compareFields(
        before[name],
        after[name],
        place === '' || place.endsWith('.') ? `${place}${name}` : `${place}.${name}`,
        changes,
      );
    return;
  }
  const kind = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
  changes.push({
    place,
    kind,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  });
}

function compareCode(before: string, after: string, place: string, changes: Change[]): void {
  if (before === after) return;
  const { hunks } = structuredPatch('a', 'b', before, after, '', '', { context: 2 });
  const lines = hunks.flatMap((hunk, index) => [...(index === 0 ? [] : ['…']), ...hunk.lines]);
  const shown =
    lines.length <= linesMax
      ? lines
      : [...lines.slice(0, linesMax), `… and ${lines.length - linesMax} lines`];
  changes.push({ place, kind: before === '' ? 'added' : after === '' ? 'removed' : 'changed', lines: shown });
}

/** For people, a line or several. */
export function changeText({ place, kind, before, after, lines }: Change): string {
  const sign = { added: '+', removed: '-', changed: '~', moved: '>' }[kind];
  if (lines !== undefined) return [`${sign} ${place}`, ...lines.map((line) => `    ${line}`)].join('\n');
  if (secretPlace.test(place)) return `${sign} ${place} (not shown)`;
  const values = [before, after].filter((value) => value !== undefined).map(shortText);
  return `${sign} ${place}: ${values.join(' -> ')}`;
}

/** Without values at places of secrets, for machines too. */
export function withoutSecrets(change: Change): Change {
  const { before: _before, after: _after, ...rest } = change;
  return secretPlace.test(change.place) ? rest : change;
}

function shortText(value: unknown): string {
  const text =
    JSON.stringify(value, (name, one: unknown) =>
      secretPlace.test(name) && typeof one === 'string' ? '••••••••' : one,
    ) ?? 'null';
  return text.length <= textMax ? text : `${text.slice(0, textMax)}…`;
}
