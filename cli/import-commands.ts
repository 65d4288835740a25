import { writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Import, UndoneImport } from '#sdk';
import { type Api, pathOf } from './api.ts';
import {
  type CommandOptions,
  collect,
  type GetSessionOptions,
  group,
  leaf,
  textOption,
} from './command-kit.ts';
import { readEnvFile } from './env-file.ts';
import { CliError, usageError } from './exit-codes.ts';
import { readBundle, sendImport, withAccounts } from './import-bundle.ts';
import { importListCommands } from './import-list.ts';
import { askForAnswers, type NewVariable } from './import-questions.ts';
import { reportSections } from './import-report.ts';
import { pipedreamUrl } from './pipedream-api.ts';
import { readTextFile } from './prop-values.ts';
import { isBundle, type ProjectContent, readProject } from './read-project.ts';
import type { Session } from './session.ts';
import { showDone } from './show.ts';
import { noteKept, printSections, showImport } from './show-import.ts';
import { setInBatches } from './variable-commands.ts';

/** Between two looks at how far the service is. */
const pollMs = 500;

export function importCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const imports = group(program, 'import', 'projects of other services');
  leaf(
    imports,
    'pipedream [path]',
    'bring workflows, sources, webhooks and subscriptions here: of a synced repository (a clone, a ZIP of one, or the folder of one workflow), a project export (ZIP), a bundle of --save, or the API with --api-key-file',
    sessionOptions,
    importProject,
  )
    .option(
      '--api-key-file <file>',
      'file with your API key of Pipedream, - for standard input: what only its API has is read by this command',
    )
    .option('--api-url <url>', 'where that API is', pipedreamUrl)
    .option('--api-workspace <id>', 'a workspace (o_…) there that your user record does not list', collect)
    .option(
      '--save <file>',
      'write all that was read to this file, with the accounts that you choose, as a bundle to import later',
    )
    .option('--dry-run', 'only report what would be done')
    .option('--activate', 'activate workflows and sources that were active there and need nothing by hand')
    .option('--account <app=account>', 'an account here for an app, or for an account (apn_…) there', collect)
    .option('--env <file>', 'set variables that the workflows read from this .env file, as secrets')
    .option('--project <project>', 'put the workflows into this project of the workspace')
    .option('--markdown <file>', 'write the report to this file as well')
    .option(
      '--dump-skeleton <file>',
      'only write the structure of the export to this file, without its content',
    )
    .option('--undo <id>', 'remove what this import (imp_…) made and was not changed since')
    .option('-y, --yes', 'ask nothing');
  importListCommands(imports, sessionOptions);
}

async function importProject(session: Session, options: CommandOptions, path = ''): Promise<void> {
  const undo = textOption(options, 'undo');
  if (undo !== undefined) return undoImport(session, undo);
  const api = await session.api();
  const content = await contentOf(session, api, { options, path });
  const skeleton = textOption(options, 'dumpSkeleton');
  if (skeleton !== undefined) {
    const body = 'bytes' in content ? content.bytes : content;
    const outline = await api.data('POST', '/v1/imports/outline', { body });
    await writeFile(session.path(skeleton), `${JSON.stringify(outline, null, 2)}\n`);
    return showDone(session, `Wrote ${skeleton}. Look through it before you send it anywhere.`, outline);
  }
  const projectId = textOption(options, 'project');
  const accounts = accountsIn(options);
  const send = (more: { dry_run?: boolean; accounts: Record<string, string> }) =>
    sendImport(api, content, {
      ...{ ...session.owner, project_id: projectId, activate: options.activate === true, ...more },
    });
  const file = textOption(options, 'env');
  // A path that is wrong ends a dry run too.
  const given = file === undefined ? [] : await variablesIn(session, file);
  session.terminal.status('Reading …');
  const plan = await send({ dry_run: true, accounts });
  session.terminal.endStatus();
  const markdown = textOption(options, 'markdown');
  const save = () => saveBundle(session, api, { file: textOption(options, 'save'), content, accounts });
  if (options.dryRun === true) {
    await save();
    if (file !== undefined && !session.isJson)
      session.terminal.note(
        describeEnv(
          file,
          wantedOf(given, plan).map(({ name }) => name),
        ),
      );
    return showImport(session, plan, { isPlan: true, markdown });
  }
  let variables = wantedOf(given, plan);
  if (session.questions.canAsk && options.yes !== true && !session.isJson) {
    printSections(session, reportSections(plan, { isPlan: true }));
    const answers = await askForAnswers(session, api, { plan, known: variables.map(({ name }) => name) });
    Object.assign(accounts, answers.accounts);
    if (!(await session.questions.yes('Import them?', true))) return save();
    variables = [...variables, ...answers.variables];
  }
  await save();
  if (variables.length > 0) await setVariables(session, api, { variables, projectId });
  const done = await untilDone(session, api, await send({ accounts }));
  await showImport(session, done, { isPlan: false, markdown });
  if (!session.isJson)
    session.terminal.note(`Undo it with \`millrace import pipedream --undo ${done.id ?? ''}\`.`);
  if (done.state === 'failed')
    throw new CliError('failed', `the import failed: ${done.error ?? ''}`, {
      hint: 'What it had made stays. Import again, or undo it.',
    });
}

/** What is imported, with what the API there says where a key is given. */
async function contentOf(
  session: Session,
  api: Api,
  { options, path }: { options: CommandOptions; path: string },
): Promise<ProjectContent> {
  const keyFile = textOption(options, 'apiKeyFile');
  const file = textOption(options, 'save');
  const given = path === '' ? undefined : await readProject(session, path);
  if (keyFile === undefined) {
    if (given === undefined)
      throw usageError(
        'there is no path',
        'Give a clone, a folder, a ZIP archive or a bundle, or --api-key-file.',
      );
    if (file !== undefined && !('bytes' in given && isBundle(given.bytes)))
      throw usageError('--save: expected --api-key-file with it, or the path of a bundle');
    return given;
  }
  const bundle = await readBundle(session, api, {
    ...{ keyFile, given, url: textOption(options, 'apiUrl') ?? pipedreamUrl },
    workspaces: (options.apiWorkspace as string[] | undefined) ?? [],
  });
  // What was read is there also when the questions are not answered.
  if (file !== undefined) await writeBundle(session, file, bundle);
  return { bytes: bundle };
}

async function writeBundle(session: Session, file: string, bundle: Buffer): Promise<void> {
  // Values of props may be secrets.
  await writeFile(session.path(file), bundle, { mode: 0o600 });
}

/** Writes the bundle with the accounts that were chosen. */
async function saveBundle(
  session: Session,
  api: Api,
  {
    file,
    content,
    accounts,
  }: { file: string | undefined; content: ProjectContent; accounts: Readonly<Record<string, string>> },
): Promise<void> {
  if (file === undefined || !('bytes' in content)) return;
  await writeBundle(session, file, await withAccounts(api, content.bytes, accounts));
  const count = Object.keys(accounts).length;
  const remembered =
    count === 0
      ? ''
      : ` It remembers ${count === 1 ? 'the account' : `the ${count} accounts`} that you chose.`;
  session.terminal.note(
    `Wrote ${file}. Secrets may stand in it: keep it where only you can read it.${remembered}`,
  );
}

/** What is asked again and again. */
type Progress = Pick<Import, 'state' | 'progress'>;

/** Waits for the import. The service continues it when the command is interrupted. */
async function untilDone(session: Session, api: Api, begun: Import): Promise<Import> {
  const path = pathOf`/v1/imports/${begun.id ?? ''}`;
  let now: Progress = begun;
  while (now.state === 'waiting' || now.state === 'running') {
    session.terminal.status(`${now.progress.done} of ${now.progress.total} imported …`);
    await delay(pollMs, undefined, { signal: session.interrupted });
    // The report is large, and wanted once.
    now = await api.data<Progress>('GET', path, { query: { include: 'state,progress' } });
  }
  session.terminal.endStatus();
  return now === begun ? begun : api.data<Import>('GET', path);
}

function accountsIn(options: CommandOptions): Record<string, string> {
  const given = (options.account ?? []) as string[];
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw usageError(`--account: found ${text}`, 'Give it as APP=apn_… .');
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

async function variablesIn(session: Session, file: string): Promise<NewVariable[]> {
  return readEnvFile(await readTextFile(session, file, '--env')).variables;
}

/** Only variables that the workflows read, and that have no value yet. */
function wantedOf(variables: readonly NewVariable[], plan: Import): NewVariable[] {
  const wanted = new Set(plan.report.variables.filter(({ set }) => !set).map(({ name }) => name));
  return variables.filter(({ name }) => wanted.has(name));
}

/** What an import would set of a .env file. The report of a dry run has these variables as not set. */
function describeEnv(file: string, names: readonly string[]): string {
  if (names.length === 0) return `${file} has no variable that is read and not set.`;
  return `${file} would set ${names.join(', ')}, as secrets.`;
}

async function setVariables(
  session: Session,
  api: Api,
  { variables, projectId }: { variables: readonly NewVariable[]; projectId: string | undefined },
): Promise<void> {
  await setInBatches(
    api,
    { ...session.owner, project_id: projectId },
    variables.map(({ name, value }) => ({ name, value, secret: true })),
  );
  const count = variables.length === 1 ? '1 variable' : `${variables.length} variables`;
  if (!session.isJson) session.terminal.note(`Set ${count} as secrets.`);
}

async function undoImport(session: Session, id: string): Promise<void> {
  const api = await session.api();
  const undone = await api.data<UndoneImport>('POST', pathOf`/v1/imports/${id}/undo`);
  const { removed, kept } = undone;
  if (!session.isJson) noteKept(session, kept);
  showDone(session, `Removed ${removed} of the things that import ${id} made, left ${kept.length}.`, undone);
}
