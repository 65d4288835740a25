import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '#components/validate-props.ts';
import { must } from '#lib/assert.ts';

type Loose = Record<string, unknown>;

/** Names of lists of steps in records of workflows. */
export const stepLists: readonly string[] = ['steps', 'nodes', 'cells'];
/** Levels at which the workflow of a file is looked for. */
const wrappersMax = 5;
/** What describes records of the other service, and no workflow. */
export const bookkeeping =
  /^(?:id|.+(?:_id|Id)|(?:created|updated|deployed|saved)(?:_?[Aa]t|_?[Bb]y)?|position|order|owner|org|project|schema|.*hash)$/;
/** What holds several states of one workflow. */
const versionLists =
  /^(?:deployments?|versions?|revisions?|history|releases?|snapshots?|builds?|drafts?|deployed|published|current|latest)$/;

/** A workflow as it stands in a file. */
export interface FoundWorkflow {
  /** p_…; '': it is not said where it is expected. */
  id: string;
  /** With what the records around it say. */
  record: Loose;
  /** Keys of the records around it. */
  around: string[];
  /** Values that have no place in `record`, since it has others under their names. */
  lost: [key: string, value: unknown][];
  /** Other definitions beside it, which are not versions of it. */
  others: Loose[];
  /** Its other versions. */
  versions: number;
}

/** What holds the definition of one workflow. */
const wrappers = /^(?:data|workflow|definition|content|flow|graph)$/;

interface Candidate {
  /** The key that it stands under. */
  key: string;
  own: Loose;
  /** What the records around it say. */
  context: Loose;
  around: string[];
  lost: FoundWorkflow['lost'];
  /** A record around it has triggers. */
  isInWorkflow: boolean;
}

/**
 * The workflows of a file: records with steps, or else with triggers; a record with triggers may have its steps in records within it. Those of one
 * level with ids of their own are several workflows; others are versions of one.
 */
export function findWorkflows(value: unknown): FoundWorkflow[] {
  const withSteps = firstLevel(value, hasSteps);
  const ids = new Set(withSteps.map(idOf));
  const withTriggers = firstLevel(value, ({ triggers }) => Array.isArray(triggers)).filter(
    (candidate) => withSteps.length === 0 || (idOf(candidate) !== '' && !ids.has(idOf(candidate))),
  );
  return [...Map.groupBy([...withSteps, ...withTriggers], idOf)].map(([id, group]) => chosen(id, group));
}

/** The records of the outermost level that has such ones. */
function firstLevel(value: unknown, isWanted: (record: Loose) => boolean): Candidate[] {
  const root: Candidate = { key: '', own: {}, context: {}, around: [], lost: [], isInWorkflow: false };
  let level = candidatesIn(root, '', value);
  for (let depth = 0; depth <= wrappersMax && level.length > 0; depth += 1) {
    const found = level.filter(({ own }) => isWanted(own));
    if (found.length > 0) return found;
    level = level.flatMap((candidate) =>
      Object.entries(candidate.own).flatMap(([key, one]) =>
        mayHoldWorkflow(candidate, key) ? candidatesIn(candidate, key, one) : [],
      ),
    );
  }
  return [];
}

/** Below a record with triggers, steps under any other name are not its list of steps. */
function mayHoldWorkflow({ own, isInWorkflow }: Candidate, key: string): boolean {
  if (/^(?:props|params|configured_?[Pp]rops.*)$/.test(key)) return false;
  return !(isInWorkflow || Array.isArray(own.triggers)) || versionLists.test(key) || wrappers.test(key);
}

function hasSteps(record: Loose): boolean {
  return stepLists.some((key) => Array.isArray(record[key]) || isRecord(record[key]));
}

/** The id of its workflow; '': it is not said. */
function idOf({ own, context }: Pick<Candidate, 'own' | 'context'>): string {
  const ids = [own.id, context.id].filter((id) => typeof id === 'string' && /^p_[A-Za-z0-9]+$/.test(id));
  return String(ids[0] ?? '');
}

/** The records in a value that stands under `key` of a candidate, or in a list there. */
function candidatesIn(parent: Candidate, key: string, value: unknown): Candidate[] {
  const records = (Array.isArray(value) ? value : [value]).filter(isRecord);
  if (records.length === 0) return [];
  const { [key]: _inner, ...beside } = parent.own;
  const around = key === '' ? [] : [...parent.around, key];
  const context: Loose = {};
  const lost = [...parent.lost];
  for (const [name, one] of Object.entries(beside)) if (!isRecord(one)) context[name] = one;
  for (const [name, one] of Object.entries(beside)) {
    if (!isRecord(one)) continue;
    around.push(name);
    // One that is a workflow is a candidate itself.
    if (!hasSteps(one)) lost.push(...addMissing(context, one, { at: `${name}.`, around }));
  }
  lost.push(...addMissing(context, parent.context, { at: '', around }));
  const isInWorkflow = parent.isInWorkflow || Array.isArray(parent.own.triggers);
  return records.map((own) => ({ key, own, context, around, lost, isInWorkflow }));
}

/** Adds to a record what it lacks; the rest, where it differs and means something, is returned. */
function addMissing(
  record: Loose,
  more: Loose,
  { at, around }: { at: string; around: string[] },
): [string, unknown][] {
  const lost: [string, unknown][] = [];
  for (const [name, value] of Object.entries(more))
    if (!Object.hasOwn(record, name)) record[name] = value;
    else if (bookkeeping.test(name)) around.push(`${at}${name}`);
    else if (!isDeepStrictEqual(record[name], value)) lost.push([`${at}${name}`, value]);
  return lost;
}

/** The definition that was deployed last, as far as the several ones say it. */
function chosen(id: string, group: readonly Candidate[]): FoundWorkflow {
  const [best, ...rest] = group.toSorted((one, other) => rankOf(other) - rankOf(one));
  const { own, context, around: outer, lost: before } = must(best, 'a candidate');
  const [record, around] = [{ ...own }, [...outer]];
  const lost = [...before, ...addMissing(record, context, { at: '', around })];
  const areVersions = group.every(({ key }) => versionLists.test(key));
  return {
    ...{ id, record, around, lost },
    others: areVersions ? [] : rest.map((one) => one.own),
    versions: areVersions ? rest.length : 0,
  };
}

function rankOf({ key, own }: Candidate): number {
  const isLive =
    [own.active, own.is_active, own.current, own.latest, own.deployed].includes(true) ||
    /^(?:deployed|published|current|latest)$/.test(key) ||
    [own.state, own.status].some((one) => one === 'active' || one === 'deployed');
  const [number = 0] = ['version', 'number', 'deployed_at', 'created_at'].flatMap((name) => {
    const time = typeof own[name] === 'string' ? Date.parse(own[name]) : own[name];
    return typeof time === 'number' && Number.isFinite(time) ? [time] : [];
  });
  return (isLive ? 1e15 : 0) + number;
}
