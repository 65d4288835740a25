import type { ImportedKind } from '#storage/tables/import-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { MappedSource } from './map-source.ts';
import type { AccountSlot, ActionUse } from './map-step.ts';
import { type ImportStatus, type MappedWorkflow, statusOf } from './map-workflow.ts';
import type { OpenQuestions } from './open-questions.ts';
import type {
  FileProblem,
  Finding,
  ForeignAccount,
  ForeignProject,
  ForeignTriggerKind,
  KeyUse,
  UnreadablePart,
} from './project.ts';
import { noChanges, type ReportedChanges } from './report-changes.ts';

export const importOutcomes = ['created', 'updated', 'unchanged', 'conflict', 'failed'] as const;
/** `conflict`: it was changed here since it was imported, so it was left as it is. `failed`: it could not be made, or changed. */
export type ImportOutcome = (typeof importOutcomes)[number];

export const actionStates = ['exact', 'included', 'other_version', 'missing'] as const;
export type ActionState = (typeof actionStates)[number];

export const objectKinds = ['source', 'webhook', 'subscription'] as const;

/** The outcome of one source, webhook or subscription; of a dry run, the expected one. */
export interface ObjectItem extends Partial<ReportedChanges> {
  kind: (typeof objectKinds)[number];
  old_id: string;
  name: string;
  status: ImportStatus;
  outcome: ImportOutcome;
  /** Its id here; null: there is none. */
  id: string | null;
  active: boolean;
  /** The key of its endpoint; the answer of the API has the URL made of it. */
  key: string | null;
  /** Its endpoint URL there; '': it has none, or it is not known. */
  old_address: string;
  findings: Finding[];
  accounts: ImportItem['accounts'];
  actions: ImportItem['actions'];
}

/** The outcome of one workflow; of a dry run, the expected one. Changes are absent in items from before they were reported. */
export interface ImportItem extends Partial<ReportedChanges> {
  old_id: string;
  name: string;
  folder: string;
  status: ImportStatus;
  outcome: ImportOutcome;
  workflow_id: string | null;
  active: boolean;
  /** It was active there. */
  was_active: boolean;
  /** `key`: of its endpoint or address; the answer of the API has the URL made of it. */
  triggers: {
    old_id: string;
    kind: ForeignTriggerKind;
    trigger_id: string | null;
    key: string | null;
    /** The export has all that it takes to make it. Absent in items from before it was kept. */
    complete?: boolean;
    /** Its address there. Absent or '': not known. */
    old_address?: string;
  }[];
  findings: Finding[];
  accounts: { app: string; old_id: string; account_id: string | null; place: string }[];
  data_stores: { old_id: string; data_store_id: string | null }[];
  variables: string[];
  /** Variables that secrets were moved to. */
  secrets: string[];
  actions: { key: string; version: string; state: ActionState; found: string; step: string }[];
}

/** What is known of the whole export. */
export interface ImportSummary {
  keys: KeyUse[];
  problems: FileProblem[];
  /** Runtimes of steps, with how many name each. */
  runtimes: { runtime: string; steps: number }[];
  /** Names of workflows that asked for a notification of their errors. */
  notified: string[];
  /** Code steps that a dry run did not compile within its time; absent: an import, which compiles all. */
  not_compiled?: number;
  /** What the last undo left; absent: there was none. */
  kept?: KeptObject[];
  /** How many things the last undo removed. */
  removed?: number;
  /** What the API of the hosted service did not answer. Absent: nothing was asked. */
  unreadable?: UnreadablePart[];
  /** Accounts there that the API named. Absent: as before. */
  accounts?: ForeignAccount[];
  /** What an import that waits for answers asks. Absent: nothing. */
  questions?: OpenQuestions;
}

/** What an undo left as it is, and why. */
export interface KeptObject {
  kind: ImportedKind;
  id: string;
  reason: string;
}

export function summaryOf(project: ForeignProject): ImportSummary {
  const runtimes = new Map<string, number>();
  for (const { runtime } of project.workflows.flatMap(({ steps }) => steps))
    if (runtime !== '') runtimes.set(runtime, (runtimes.get(runtime) ?? 0) + 1);
  return {
    keys: project.keys,
    problems: project.problems,
    runtimes: [...runtimes].map(([runtime, steps]) => ({ runtime, steps })),
    notified: project.workflows
      .filter(({ settings }) => settings.errorNotification === true)
      .map(({ name }) => name),
    ...(project.objects === undefined
      ? {}
      : { unreadable: project.objects.unreadable, accounts: project.objects.accounts }),
  };
}

/** False for an item of a workflow. */
export function isObjectItem(item: ImportItem | ObjectItem): item is ObjectItem {
  return 'kind' in item;
}

export function objectItemOf(
  mapped: MappedSource,
  {
    outcome,
    source,
    changes = noChanges,
  }: { outcome: ImportOutcome; source: SourceTable | undefined; changes?: ReportedChanges },
): ObjectItem {
  const { oldId, name, findings, accounts, action, address } = mapped;
  return {
    ...simpleItem('source', oldId, {
      ...{ name, outcome, findings, id: source?.id ?? null, active: source?.state === 'active' },
      ...changes,
    }),
    key: source?.endpoint_key ?? null,
    old_address: address,
    accounts: accounts.map(reportedAccount),
    actions: action === undefined ? [] : [reportedAction(action)],
  };
}

export function simpleItem(
  kind: ObjectItem['kind'],
  oldId: string,
  given: Pick<ObjectItem, 'name' | 'outcome' | 'id' | 'active' | 'findings'> & Partial<ReportedChanges>,
): ObjectItem {
  return {
    ...{ kind, old_id: oldId, status: statusOf(given.findings), key: null, old_address: '' },
    ...{ accounts: [], actions: [] },
    ...given,
  };
}

function reportedAccount({ app, oldId, accountId, place }: AccountSlot): ImportItem['accounts'][number] {
  return { app, old_id: oldId, account_id: accountId ?? null, place };
}

function reportedAction({ key, version, availability, step }: ActionUse): ImportItem['actions'][number] {
  return {
    ...{ key, version, step, state: availability.state },
    found: availability.state === 'missing' ? '' : availability.version,
  };
}

export function itemOf(
  mapped: MappedWorkflow,
  made: {
    outcome: ImportOutcome;
    workflowId: string | null;
    active: boolean;
    triggers: readonly { id: string; key: string | null }[];
    dataStores: ReadonlyMap<string, string>;
    /** Absent: it is new, or as it was. */
    changes?: ReportedChanges;
  },
): ImportItem {
  const { findings } = mapped;
  // Triggers are made in the order of the export, those that could not be made left out.
  const rows = made.triggers.values();
  return {
    old_id: mapped.oldId,
    name: mapped.name,
    folder: mapped.folder,
    status: statusOf(findings),
    outcome: made.outcome,
    workflow_id: made.workflowId,
    active: made.active,
    was_active: mapped.active,
    triggers: mapped.triggers.map(({ oldId, kind, address, input }) => {
      const row = input === undefined ? undefined : rows.next().value;
      return {
        ...{ old_id: oldId, kind, trigger_id: row?.id ?? null, key: row?.key ?? null },
        complete: input !== undefined,
        old_address: address,
      };
    }),
    findings,
    accounts: mapped.accounts.map(reportedAccount),
    data_stores: mapped.dataStores.map((oldId) => ({
      ...{ old_id: oldId, data_store_id: made.dataStores.get(oldId) ?? null },
    })),
    variables: mapped.variables,
    secrets: mapped.secrets.map(({ name }) => name),
    actions: mapped.actions.map(reportedAction),
    ...(made.changes ?? noChanges),
  };
}

/**
 * What is needed once for all workflows and sources, from what is known of each. `isSet`: true for a variable that has a value here.
 * `known`: accounts there with their names.
 */
export function needsOf(
  items: readonly ImportItem[],
  objects: readonly ObjectItem[],
  { isSet, known }: { isSet: (variable: string) => boolean; known: readonly ForeignAccount[] },
) {
  const accounts = new Map<
    string,
    { app: string; old_id: string; name: string; account_id: string | null; places: string[] }
  >();
  const names = new Map(known.map(({ id, name }) => [id, name]));
  const variables = new Map<string, { name: string; set: boolean; secret: boolean; workflows: string[] }>();
  const stores = new Map<string, { old_id: string; data_store_id: string | null; workflows: string[] }>();
  const actions = new Map<
    string,
    { key: string; version: string; state: ActionState; found: string; places: string[] }
  >();
  for (const item of [...items, ...objects]) {
    for (const { app, old_id, account_id, place } of item.accounts)
      entryOf(accounts, `${old_id} ${app}`, {
        ...{ app, old_id, account_id, name: names.get(old_id) ?? '', places: [] },
      }).places.push(`${item.name}: ${place}`);
    for (const { key, version, state, found, step } of item.actions)
      entryOf(actions, `${key}@${version}`, { key, version, state, found, places: [] }).places.push(
        step === '' ? item.name : `${item.name}: ${step}`,
      );
  }
  for (const item of items) {
    for (const name of item.variables)
      entryOf(variables, name, { name, set: isSet(name), secret: false, workflows: [] }).workflows.push(
        item.name,
      );
    for (const name of item.secrets)
      entryOf(variables, name, { name, set: isSet(name), secret: true, workflows: [] }).workflows.push(
        item.name,
      );
    for (const { old_id, data_store_id } of item.data_stores)
      entryOf(stores, old_id, { old_id, data_store_id, workflows: [] }).workflows.push(item.name);
  }
  const byName = <Entry>(entries: Map<string, Entry>) =>
    [...entries].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, entry]) => entry);
  return {
    accounts: byName(accounts),
    variables: byName(variables),
    data_stores: byName(stores),
    actions: byName(actions),
  };
}

function entryOf<Entry>(entries: Map<string, Entry>, id: string, fresh: Entry): Entry {
  const known = entries.get(id) ?? fresh;
  entries.set(id, known);
  return known;
}

export function countsOf(items: readonly ImportItem[]) {
  const count = (match: (item: ImportItem) => boolean) => items.filter(match).length;
  return {
    workflows: items.length,
    converted: count(({ status }) => status === 'converted'),
    check: count(({ status }) => status === 'check'),
    by_hand: count(({ status }) => status === 'by_hand'),
    created: count(({ outcome }) => outcome === 'created'),
    updated: count(({ outcome }) => outcome === 'updated'),
    unchanged: count(({ outcome }) => outcome === 'unchanged'),
    conflict: count(({ outcome }) => outcome === 'conflict'),
    failed: count(({ outcome }) => outcome === 'failed'),
  };
}
