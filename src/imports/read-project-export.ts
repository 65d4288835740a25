import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '#components/validate-props.ts';
import { toError } from '#lib/errors.ts';
import { isDeeperThan } from '#lib/json-depth.ts';
import { describeValue } from './describe-value.ts';
import { type FoundWorkflow, findWorkflows, stepLists } from './find-workflow.ts';
import { Fields, KeyLedger, knownName } from './key-ledger.ts';
import {
  checkIt,
  type FileProblem,
  type Finding,
  type ForeignProject,
  type ForeignTrigger,
  type ForeignTriggerKind,
  type ForeignWorkflow,
  triggerKindOf,
} from './project.ts';
import { folderOf, manifestPathOf, nameOf, type ProjectFiles, refused } from './project-files.ts';
import { ExportSources, sourceFields } from './read-export-sources.ts';
import { listOf, StepReader, unknownFields } from './read-export-steps.ts';
import { readSettings } from './read-workflow-settings.ts';

/** Objects and lists within one another in a file. */
const depthMax = 60;
/** Names of unknown keys that a finding shows. */
const keysShown = 20;

type Loose = Record<string, unknown>;

/**
 * Reads a project export: an archive with `manifest.json` and a JSON file for each workflow. Its schema is not published, so steps, triggers
 * and their parts are looked for under every name that they have in other answers of that service, at any place. What is not recognised is
 * counted as unknown. Throws CallerError `invalid_import` when there is no workflow in it.
 */
export function readProjectExport(files: ProjectFiles): ForeignProject {
  const manifestPath = manifestPathOf([...files.keys()]) ?? '';
  const root = folderOf(manifestPath);
  const ledger = new KeyLedger();
  const sources = new ExportSources();
  const workflows: ForeignWorkflow[] = [];
  const problems: FileProblem[] = [];
  for (const path of [...files.keys()].sort()) {
    if (path === manifestPath) continue;
    try {
      const read = readWorkflows(parse(files.get(path) ?? ''), { path, root, ledger, sources });
      if (read.length === 0) throw new Error('there are no steps and no triggers in it');
      for (const workflow of read) {
        if (workflows.some(({ id }) => id === workflow.id))
          throw new Error('another file has a workflow of its id');
        workflows.push(workflow);
      }
    } catch (error) {
      problems.push({ path, message: toError(error).message });
    }
  }
  problems.push(...notExported(files.get(manifestPath) ?? '', manifestPath, workflows));
  if (workflows.length === 0)
    throw refused(
      `there is no workflow in the export: ${problems[0]?.message ?? 'it has no JSON file beside manifest.json'}`,
    );
  const objects = sources.objects();
  return {
    ...{ format: 'project_export', workflows, problems, keys: ledger.uses },
    ...(objects === undefined ? {} : { objects }),
  };
}

function parse(text: string): unknown {
  if (isDeeperThan(text, depthMax)) throw new Error(`it is nested more than ${depthMax} levels deep`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new Error('it is not well-formed JSON');
  }
}

/** Workflows that the manifest lists and that have no file. */
function notExported(text: string, path: string, workflows: readonly ForeignWorkflow[]): FileProblem[] {
  try {
    const known = new Set(workflows.map(({ id }) => id));
    return recordsIn(parse(text)).flatMap((record) => {
      const id = Object.values(record).find((value) => typeof value === 'string' && /^p_\w+$/.test(value));
      if (typeof id !== 'string' || known.has(id)) return [];
      known.add(id);
      const name = typeof record.name === 'string' ? ` (${record.name})` : '';
      return [{ path, message: `${id}${name} is in the manifest and was not exported` }];
    });
  } catch (error) {
    return [{ path, message: toError(error).message }];
  }
}

interface ReadOptions {
  path: string;
  /** The folder of the export; '': it has none of its own. */
  root: string;
  ledger: KeyLedger;
  /** What triggers say of sources and subscriptions is added to it. */
  sources?: ExportSources;
}

/** The workflow of an answer of the API; undefined: it has neither steps nor triggers. */
export function readWorkflowRecord(value: unknown, options: ReadOptions): ForeignWorkflow | undefined {
  const [found] = findWorkflows(value);
  return found === undefined ? undefined : readWorkflow(found, value, options);
}

/** In a file with several workflows each has an id of its own. */
function readWorkflows(value: unknown, options: ReadOptions): ForeignWorkflow[] {
  const found = findWorkflows(value);
  return found.map((one) => readWorkflow(one, found.length === 1 ? value : one.record, options));
}

function readWorkflow(
  { id: known, record, around, lost, others, versions }: FoundWorkflow,
  /** What its id is looked for in. */
  whole: unknown,
  { path, root, ledger, sources }: ReadOptions,
): ForeignWorkflow {
  const fields = new Fields(record, '', ledger);
  const findings: Finding[] = [];
  const unknown: string[] = [];
  for (const key of around) ledger.count(knownName(key), 'noted');
  const name = fields.takeFirst(['name', 'title']);
  const active = fields.takeFirst(['active', 'enabled']);
  const inactive = fields.takeFirst(['inactive', 'disabled', 'paused']);
  const folder = folderOf(path).slice(root === '' ? 0 : root.length + 1);
  const given = fields.takeFirst(['settings', 'config']);
  const settings = new Fields(given, 'settings.', ledger);
  const id = known === '' ? textsIn(whole).find((text) => /^p_[A-Za-z0-9]+$/.test(text)) : known;
  const workflow: ForeignWorkflow = {
    id: id ?? `path:${path}`,
    name: typeof name === 'string' && name !== '' ? name : nameOf(path).replace(/\.json$/, ''),
    ...{ folder, path },
    active: active !== false && inactive !== true,
    settings: readSettings(settings),
    triggers: [],
    steps: [],
    findings,
  };
  for (const record of listOf(fields.takeFirst(['triggers', 'trigger']))) {
    const trigger = readTrigger(record, ledger, unknown);
    workflow.triggers.push(trigger);
    sources?.add(record, trigger, workflow.id);
  }
  const reader = new StepReader({ ledger, unknown, findings });
  const lists = stepLists.filter((key) => Object.hasOwn(record, key)).map((key) => fields.take(key));
  for (const [at, list] of lists.entries())
    if (at === 0) reader.add(list);
    // The same list under another name.
    else if (!isDeepStrictEqual(list, lists[0])) reader.addStray(list, 'another list of steps');
  if (versions > 0)
    findings.push(
      checkIt(`its file has ${versions + 1} versions of it: the one that was deployed last was read`),
    );
  const strays: [string, unknown][] = [
    ...fields.left().map((key): [string, unknown] => [key, record[key]]),
    ...(isRecord(given)
      ? settings.left().map((key): [string, unknown] => [`settings.${key}`, given[key]])
      : []),
    ...lost,
  ];
  unknown.push(...unknownFields(settings, 'settings.'), ...unknownFields(fields, ''));
  if (given !== undefined && given !== null && !isRecord(given))
    unknown.push(`settings: ${describeValue(given)}`);
  for (const [key, value] of lost) {
    ledger.countUnknown(knownName(key), value);
    unknown.push(`${knownName(key)}: ${describeValue(value)}`);
  }
  for (const [key, value] of strays) reader.addStray(value, knownName(key));
  for (const other of others) {
    ledger.countUnknown('another definition', other);
    reader.addStray(other, 'another definition of it in its file');
  }
  workflow.steps = reader.steps;
  if (unknown.length > 0) {
    const names = [...new Set(unknown)].sort();
    const more = names.length > keysShown ? ` and ${names.length - keysShown} more` : '';
    findings.push(checkIt(`the importer does not know ${names.slice(0, keysShown).join(', ')}${more}`));
  }
  return workflow;
}

function readTrigger(value: unknown, ledger: KeyLedger, unknown: string[]): ForeignTrigger {
  const fields = new Fields(value, 'triggers[].', ledger);
  const id = textsIn(value).find((text) => triggerKindOf(text) !== undefined) ?? '';
  const type = [
    fields.takeFirst(['type', 'kind']),
    fields.takeFirst(['key', 'component_key', 'componentKey']),
  ].join(' ');
  for (const name of ['timer', 'schedule', ...sourceFields]) fields.take(name, 'noted');
  const timing = [
    'cron',
    'timezone',
    'interval_seconds',
    'intervalSeconds',
    'custom_response',
    'customResponse',
  ];
  for (const name of timing) fields.take(name);
  const cron = findTyped(value, ['cron', 'cron_expression'], 'string');
  const timezone = findTyped(value, ['timezone', 'time_zone'], 'string');
  const seconds = findTyped(value, ['interval_seconds', 'intervalSeconds'], 'number');
  const custom = findTyped(value, ['custom_response', 'customResponse'], 'boolean');
  unknown.push(...unknownFields(fields, 'triggers[].'));
  return {
    id,
    kind: triggerKindOf(id) ?? kindByName(type),
    ...(typeof cron === 'string' && cron !== ''
      ? { schedule: { cron, timezone: typeof timezone === 'string' && timezone !== '' ? timezone : 'UTC' } }
      : typeof seconds === 'number'
        ? { schedule: { interval_seconds: seconds } }
        : {}),
    ...(typeof custom === 'boolean' ? { customResponse: custom } : {}),
  };
}

function kindByName(text: string): ForeignTriggerKind {
  if (/http|webhook/i.test(text)) return 'http';
  if (/cron|timer|schedule/i.test(text)) return 'timer';
  return /e-?mail/i.test(text) ? 'email' : 'unknown';
}

/** The first value of this type under one of these names, at any depth. */
function findTyped(value: unknown, names: readonly string[], type: 'string' | 'number' | 'boolean'): unknown {
  for (const record of recordsIn(value))
    for (const name of names) {
      if (typeof record[name] === type) return record[name];
    }
  return undefined;
}

/** All records in a value, outer ones first. */
function recordsIn(value: unknown): Loose[] {
  if (Array.isArray(value)) return value.flatMap(recordsIn);
  return isRecord(value) ? [value, ...Object.values(value).flatMap(recordsIn)] : [];
}

/** Texts of a value, those of outer records first. */
function textsIn(value: unknown): string[] {
  return recordsIn(value).flatMap((record) => Object.values(record).filter((one) => typeof one === 'string'));
}
