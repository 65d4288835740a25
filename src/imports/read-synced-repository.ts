import { isRecord } from '#components/validate-props.ts';
import { toError } from '#lib/errors.ts';
import { describeValue } from './describe-value.ts';
import { importedFile } from './imported-file.ts';
import { Fields, KeyLedger } from './key-ledger.ts';
import {
  byHand,
  checkIt,
  type FileProblem,
  type Finding,
  type ForeignProject,
  type ForeignSettings,
  type ForeignStep,
  type ForeignTrigger,
  type ForeignWorkflow,
  type KeyOutcome,
  languageOf,
  type StepContent,
  triggerKindOf,
} from './project.ts';
import { folderOf, nameOf, type ProjectFiles, refused } from './project-files.ts';
import { readSettings } from './read-workflow-settings.ts';
import { readYaml } from './read-yaml.ts';

/** Maximum of workflows in one import. */
export const workflowsMax = 1_000;
const schemaKnown = 'workflow/2022.04';

/**
 * Reads a synced repository: a clone, a ZIP of one, or the folder of one workflow, of any branch. Throws CallerError `invalid_import` when there is no workflow in it.
 */
export function readSyncedRepository(files: ProjectFiles): ForeignProject {
  const paths = [...files.keys()].filter((path) => /^workflow\.ya?ml$/.test(nameOf(path))).sort();
  if (paths.length === 0)
    throw refused(
      'there is no workflow.yaml in it, expected a clone of a synced repository, a ZIP of one, or the folder of a workflow',
    );
  if (paths.length > workflowsMax)
    throw refused(
      `there are ${paths.length} workflows in it, expected at most ${workflowsMax}: import it folder by folder`,
    );
  const ledger = new KeyLedger();
  const root = commonFolder(paths.map((path) => folderOf(folderOf(path))));
  const workflows: ForeignWorkflow[] = [];
  const problems: FileProblem[] = [];
  const seen = new Map<string, string>();
  for (const path of paths) {
    try {
      const workflow = readWorkflow({ files, path, root, ledger });
      const first = seen.get(workflow.id);
      if (first !== undefined) throw new Error(`it has the id of ${first}, which was read instead`);
      seen.set(workflow.id, path);
      workflows.push(workflow);
    } catch (error) {
      problems.push({ path, message: toError(error).message });
    }
  }
  return { format: 'synced_repository', workflows, problems, keys: ledger.uses };
}

interface WorkflowFile {
  files: ProjectFiles;
  path: string;
  root: string;
  ledger: KeyLedger;
}

/** Throws an Error with one sentence. */
function readWorkflow({ files, path, root, ledger }: WorkflowFile): ForeignWorkflow {
  const value = readYaml(files.get(path) ?? '');
  if (!isRecord(value)) throw new Error('it has no keys, expected the definition of a workflow');
  const fields = new Fields(value, '', ledger);
  const findings: Finding[] = [];
  const schema = fields.take('schema', 'noted');
  if (schema !== schemaKnown)
    findings.push(checkIt(`its schema is not ${schemaKnown}, the one that the importer knows`));
  const folder = folderOf(path);
  const name = fields.take('name');
  const inactive = fields.take('inactive');
  if (inactive !== undefined && typeof inactive !== 'boolean')
    findings.push(
      checkIt(`inactive is ${describeValue(inactive)}, expected true or false: it counts as inactive`),
    );
  const workflow: ForeignWorkflow = {
    id: idOf(files, folder, { findings, ledger }),
    name: typeof name === 'string' && name !== '' ? name : nameOf(folder) || 'Untitled workflow',
    folder: folderOf(folder) === root ? '' : folderOf(folder).slice(root === '' ? 0 : root.length + 1),
    path: folder,
    active: inactive === undefined || inactive === false,
    settings: readSettingsOf(fields.take('settings'), ledger, findings),
    triggers: readTriggers(fields.take('triggers'), ledger, findings),
    steps: [],
    findings,
  };
  const steps = fields.take('steps');
  if (steps !== undefined && steps !== null && !Array.isArray(steps))
    findings.push(byHand(`steps is ${describeValue(steps)}, expected a list`));
  for (const step of Array.isArray(steps) ? steps : [])
    workflow.steps.push(readStep(step, { files, folder, ledger, findings }));
  for (const [key, given] of fields.rest()) findings.push(unknownKey(key, given));
  const importsFiles = workflow.steps.some(
    ({ content }) =>
      content.kind === 'code' && content.language === 'nodejs' && importedFile(content.text) !== undefined,
  );
  return importsFiles ? { ...workflow, files: filesIn(files, folder) } : workflow;
}

/** What code can import of a folder. */
function filesIn(files: ProjectFiles, folder: string): Record<string, string> {
  const start = folder === '' ? '' : `${folder}/`;
  return Object.fromEntries(
    [...files].flatMap(([path, text]) =>
      path.startsWith(start) && /\.(?:[mc]?[jt]s|json)$/.test(path) ? [[path.slice(start.length), text]] : [],
    ),
  );
}

/** The id of `.workflow.state`, which that of the folder's name repeats. */
function idOf(
  files: ProjectFiles,
  folder: string,
  { findings, ledger }: { findings: Finding[]; ledger: KeyLedger },
): string {
  const text = files.get(folder === '' ? '.workflow.state' : `${folder}/.workflow.state`);
  const ofFolder = /(?:^|-)(p_[A-Za-z0-9]+)$/.exec(nameOf(folder))?.[1];
  let ofState: unknown;
  if (text !== undefined) {
    try {
      const state = new Fields(readYaml(text), '.workflow.state: ', ledger);
      state.take('schema', 'noted');
      ofState = state.take('id');
      for (const [key, given] of state.rest()) findings.push(unknownKey(`${key} of .workflow.state`, given));
    } catch (error) {
      findings.push(checkIt(`.workflow.state cannot be read: ${toError(error).message}`));
    }
  }
  if (typeof ofState === 'string' && /^p_[A-Za-z0-9]+$/.test(ofState)) {
    if (ofFolder !== undefined && ofFolder !== ofState)
      findings.push(checkIt(`its folder says ${ofFolder} and .workflow.state ${ofState}: the latter counts`));
    return ofState;
  }
  if (ofFolder !== undefined) return ofFolder;
  findings.push(checkIt('its id is not in the export: a later import recognises it by its folder'));
  return `path:${folder}`;
}

function readSettingsOf(value: unknown, ledger: KeyLedger, findings: Finding[]): ForeignSettings {
  if (value !== undefined && value !== null && !isRecord(value))
    findings.push(checkIt(`settings is ${describeValue(value)}, expected a mapping: the defaults are used`));
  const fields = new Fields(value, 'settings.', ledger);
  const settings = readSettings(fields);
  for (const [key, given] of fields.rest()) findings.push(unknownKey(`settings.${key}`, given));
  return settings;
}

function readTriggers(value: unknown, ledger: KeyLedger, findings: Finding[]): ForeignTrigger[] {
  if (value !== undefined && value !== null && !Array.isArray(value))
    findings.push(byHand(`triggers is ${describeValue(value)}, expected a list`));
  return (Array.isArray(value) ? value : []).map((given) => {
    const fields = new Fields(given, 'triggers[].', ledger);
    const id = fields.take('id');
    for (const [key, other] of fields.rest()) findings.push(unknownKey(`triggers[].${key}`, other));
    const text = typeof id === 'string' ? id : '';
    return { id: text, kind: triggerKindOf(text) ?? 'unknown' };
  });
}

interface StepPlace {
  files: ProjectFiles;
  folder: string;
  ledger: KeyLedger;
  findings: Finding[];
}

function readStep(value: unknown, { files, folder, ledger, findings }: StepPlace): ForeignStep {
  if (!isRecord(value)) findings.push(byHand(`a step is ${describeValue(value)}, expected a mapping`));
  const fields = new Fields(value, 'steps[].', ledger);
  const namespace = plainText(fields.take('namespace')) ?? '';
  const takeText = (name: string, outcome?: KeyOutcome): string => {
    const given = fields.take(name, outcome);
    const text = plainText(given);
    if (text === undefined)
      findings.push(checkIt(`its ${name} is ${describeValue(given)}, expected a text`, namespace));
    return text ?? '';
  };
  const runtime = takeText('runtime', 'noted');
  const props = fields.take('props');
  if (props !== undefined && props !== null && !isRecord(props))
    findings.push(byHand(`its props are ${describeValue(props)}, expected a mapping`, namespace));
  countProps(props, ledger);
  const notes = [takeText('note'), takeText('notes')].filter((note) => note !== '');
  const disabled = fields.take('disabled');
  fields.take('_props_cursor', 'ignored');
  const step: ForeignStep = {
    namespace,
    runtime,
    content: contentOf(takeText('uses'), runtime, { files, folder }),
    props: isRecord(props) ? props : {},
    disabled: disabled !== undefined && disabled !== false && disabled !== null,
    note: notes.join('\n\n'),
  };
  for (const [key, given] of fields.rest()) findings.push(unknownKey(`steps[].${key}`, given, namespace));
  return step;
}

/** Their names are those of the user's components: they are counted together. */
function countProps(props: unknown, ledger: KeyLedger): void {
  for (const [name, value] of Object.entries(isRecord(props) ? props : {}))
    ledger.count(
      'steps[].props.*',
      value === null ? 'ignored' : name === '__configurableProps' ? 'noted' : 'converted',
    );
}

function contentOf(
  uses: string,
  runtime: string,
  { files, folder }: Pick<StepPlace, 'files' | 'folder'>,
): StepContent {
  if (uses.startsWith('./')) {
    const path = [folder, uses.slice(2)].filter((part) => part !== '').join('/');
    const text = files.get(path);
    if (text === undefined) return { kind: 'missing', uses };
    return { kind: 'code', language: languageOf(uses, runtime), path: uses.slice(2), text };
  }
  const [, scope = '', key = '', version = ''] =
    /^(?:@([^/@]+)\/)?([A-Za-z0-9_.-]+)(?:@(.+))?$/.exec(uses) ?? [];
  return key === '' ? { kind: 'missing', uses } : { kind: 'action', key, version, scope };
}

function unknownKey(key: string, value: unknown, step = ''): Finding {
  return checkIt(`the importer does not know ${key}: ${describeValue(value)}`, step);
}

/** A text or a plain value; undefined for lists and mappings, which are not texts. */
function plainText(value: unknown): string | undefined {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? undefined : String(value);
}

/** The folder that all of them are in. */
function commonFolder(folders: readonly string[]): string {
  let common = (folders[0] ?? '').split('/');
  for (const folder of folders) {
    const parts = folder.split('/');
    const differs = common.findIndex((part, at) => part !== parts[at]);
    if (differs !== -1) common = common.slice(0, differs);
  }
  return common.join('/');
}
