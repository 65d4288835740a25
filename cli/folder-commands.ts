import { type Command, Option } from 'commander';
import { type CommandOptions, type GetSessionOptions, leaf, textOption } from './command-kit.ts';
import { serviceUrl } from './connection.ts';
import { CliError, usageError } from './exit-codes.ts';
import { changeText, withoutSecrets } from './folder-changes.ts';
import { configFile, FolderConfig } from './folder-config.ts';
import { FolderFiles } from './folder-files.ts';
import { withFolderLock } from './folder-lock.ts';
import { FolderSync, labelOf, type Step, type SyncOptions } from './folder-sync.ts';
import { pushFolder } from './push-folder.ts';
import type { Session } from './session.ts';
import { showDone } from './show.ts';
import { visible, visibleLines } from './visible-text.ts';

const insecureText = 'send the API key without encryption to a host that is not in a private network';

/** `millrace export`, `pull`, `diff` and `push`: workflows as files, for Git. */
export function folderCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const project = () =>
    new Option('--project <project>', 'only the workflows of this project, and what they use');
  leaf(
    program,
    'export <folder>',
    'write workflows, sources and subscriptions as files into a new folder',
    sessionOptions,
    exportFolder,
  )
    .addOption(project())
    .option('--env <name>', 'what millrace.yaml calls this service', 'production')
    .option('--insecure', insecureText);
  const environment = (command: Command): Command =>
    command
      .option('--env <name>', 'an environment of millrace.yaml; default: the only one')
      .option('--insecure', insecureText);
  environment(
    leaf(
      program,
      'pull [folder]',
      'bring the files of a folder up to date with the service',
      sessionOptions,
      alone(pull),
    ),
  )
    .addOption(project())
    .option('--url <url>', 'of the service, for an environment that millrace.yaml does not have yet')
    .option('--force', 'overwrite what was changed in the folder');
  environment(
    leaf(
      program,
      'diff [folder]',
      'what a push would change; ends with 1 when that is anything',
      sessionOptions,
      diff,
    ),
  );
  environment(
    leaf(program, 'push [folder]', 'deploy what is different in a folder', sessionOptions, alone(push)),
  )
    .option('--prune', 'remove what was removed from the folder')
    .option('--force', 'overwrite what was changed on the service since the last pull');
}

type FolderCommand = (session: Session, options: CommandOptions, folder?: string) => Promise<void>;

/** A command that no other one changes its folder beside. */
function alone(command: FolderCommand): FolderCommand {
  return (session, options, folder = '') =>
    withFolderLock(session.path(folder || '.'), () => command(session, options, folder));
}

async function exportFolder(session: Session, options: CommandOptions, folder = ''): Promise<void> {
  const files = new FolderFiles(session.path(folder));
  if (!(await files.isEmpty()))
    throw usageError(
      `${folder} is not empty`,
      'Give a new folder, or use `millrace pull` for one that was exported.',
    );
  const { url } = await session.connection();
  const name = textOption(options, 'env') ?? 'production';
  const config = FolderConfig.create(files);
  config.add(name, { url, workspace: session.workspace, project: projectOf(session, options) });
  const sync = await readSync(session, options, { files, config, environment: name });
  const { written } = await sync.pull({ force: true });
  warn(session, sync);
  const { workflows, sources } = sync.content;
  showDone(
    session,
    `Wrote ${countOf(workflows.size, 'workflow')} and ${countOf(sources.size, 'source')} to ${visible(folder)}.`,
    { written, warnings: sync.content.warnings },
  );
}

async function pull(session: Session, options: CommandOptions, folder = ''): Promise<void> {
  const files = new FolderFiles(session.path(folder || '.'));
  const found = await FolderConfig.read(files);
  const config = found ?? FolderConfig.create(files);
  const wanted = textOption(options, 'env') ?? (found === undefined ? 'production' : undefined);
  if (wanted !== undefined && !config.environments.includes(wanted)) {
    const url = textOption(options, 'url') ?? (await session.connection()).url;
    config.add(wanted, {
      url: serviceUrl(url),
      workspace: session.workspace,
      project: projectOf(session, options),
    });
  }
  const sync = await readSync(session, options, {
    files,
    config,
    environment: config.choose(wanted),
    isCodeRestored: options.force === true,
  });
  const { written, removed, kept, conflicts } = await sync.pull({ force: options.force === true });
  if (conflicts.length > 0) {
    throw new CliError(
      'failed',
      conflicts.map((one) => `${one}: it was changed in the folder and on the service`).join('\n'),
      {
        details: { conflicts },
        hint: 'Nothing was changed. `millrace diff` shows the differences; --force overwrites the folder.',
      },
    );
  }
  warn(session, sync);
  for (const one of kept) session.terminal.note(`${visible(one)}: changed in the folder, not pushed yet`);
  const lines = [...written.map((one) => `wrote ${one}`), ...removed.map((one) => `removed ${one}`)];
  if (!session.isJson) for (const line of lines) session.terminal.print(visible(line));
  showDone(
    session,
    lines.length === 0 ? 'The folder is up to date.' : `${countOf(lines.length, 'change')}.`,
    { written, removed, kept, warnings: sync.content.warnings },
  );
}

async function diff(session: Session, options: CommandOptions, folder = ''): Promise<void> {
  const sync = await openFolder(session, options, folder);
  const plan = sync.plan();
  if (session.isJson)
    session.terminal.printJson(plan.map((step) => ({ ...step, changes: step.changes.map(withoutSecrets) })));
  else for (const step of plan) session.terminal.print(stepText(step));
  const count = plan.filter(({ action }) => action !== 'none').length;
  if (count > 0)
    throw new CliError(
      'failed',
      `${countOf(count, 'difference')} between the folder and ${sync.options.environment}`,
    );
  if (!session.isJson) session.terminal.note('There are no differences.');
}

async function push(session: Session, options: CommandOptions, folder = ''): Promise<void> {
  const sync = await openFolder(session, options, folder);
  const done: string[] = [];
  await pushFolder(sync, {
    force: options.force === true,
    prune: options.prune === true,
    onDone: (text) => {
      done.push(text.trim());
      if (!session.isJson) session.terminal.print(visible(text));
    },
    onWarning: (text) => session.terminal.note(visible(text)),
  });
  if (options.prune !== true) {
    for (const { kind, name, action } of sync.plan())
      if (action === 'remove')
        session.terminal.note(
          `${visible(labelOf(kind, name))}: removed from the folder; --prune removes it from the service`,
        );
  }
  showDone(session, done.length === 0 ? 'There is nothing to push.' : 'Pushed.', { done });
}

async function openFolder(session: Session, options: CommandOptions, folder: string): Promise<FolderSync> {
  const files = new FolderFiles(session.path(folder || '.'));
  const config = await FolderConfig.read(files);
  if (config === undefined)
    throw usageError(
      `there is no ${configFile} in ${files.root}`,
      '`millrace export` or `millrace pull` makes one.',
    );
  return readSync(session, options, {
    files,
    config,
    environment: config.choose(textOption(options, 'env')),
  });
}

async function readSync(
  session: Session,
  options: CommandOptions,
  folder: Omit<SyncOptions, 'session' | 'api'>,
): Promise<FolderSync> {
  session.terminal.status('Reading …');
  const connected = await folder.config.connect(session, folder.environment, {
    isInsecureAllowed: options.insecure === true,
  });
  const sync = await FolderSync.read({ ...connected, ...folder });
  session.terminal.endStatus();
  return sync;
}

function projectOf(session: Session, options: CommandOptions): string | undefined {
  const project = textOption(options, 'project');
  if (project !== undefined && session.workspace === undefined)
    throw usageError('a project is one of a workspace', 'Give --workspace too.');
  return project;
}

function warn(session: Session, { content }: FolderSync): void {
  for (const warning of content.warnings) session.terminal.note(visible(warning));
}

function stepText({ kind, name, action, changes, conflict }: Step): string {
  const title = {
    create: 'create',
    update: 'change',
    remove: 'remove (with --prune)',
    none: 'not in the folder, stays',
  }[action];
  const lines = action === 'update' || action === 'create' ? changes.map(changeText) : [];
  return visibleLines(
    [
      `${labelOf(kind, name)}: ${title}${conflict === undefined ? '' : ` (conflict: ${conflict})`}`,
      ...lines.map((line) => line.replace(/^/gm, '  ')),
    ].join('\n'),
  );
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
