import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { RegistryPackage, RegistryRepository } from '#sdk';
import type { Api } from './api.ts';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { CliError, usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, timeColumn } from './show.ts';

/** Rows of a list that commands look something up in. */
const listedMax = 10_000;
/** Between two looks at how far the service is. */
const pollMs = 1_000;

export function registryCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const registry = group(
    program,
    'registry',
    'npm packages and Git repositories that components come from; for the admin of the instance',
  );
  const git = [
    '--git <url>',
    'a Git repository: its https URL, or the path of a clone on the machine of the service',
  ] as const;
  const ref = ['--ref <ref>', 'a branch, a tag or a commit of it; default: the default branch'] as const;
  leaf(
    registry,
    'add [package]',
    'the components of an npm package, or all versions in the history of a Git repository, for all users',
    sessionOptions,
    add,
  )
    .option(...git)
    .option(...ref);
  addLimit(
    leaf(
      registry,
      'list',
      'packages and repositories, their versions and how many components they have',
      sessionOptions,
      list,
    ),
  );
  leaf(
    registry,
    'update [package]',
    'the newest version of a package, or the new commits of a repository, or of all',
    sessionOptions,
    update,
  )
    .option(...git)
    .option(...ref);
  leaf(
    registry,
    'remove [package]',
    'a package, or one version of it, or a repository; what uses its components runs on',
    sessionOptions,
    remove,
  )
    .option(...git)
    .option(...ref);
  for (const command of registry.commands) addLocal(command);
}

/** Such a command line never gets here: it is for another program (local-admin.ts). */
function addLocal(command: Command): void {
  command.option('--local', 'on the data folder, without the service; also for folders, and without a login');
}

interface WantedRepository {
  url: string;
  /** Undefined: not said. */
  ref: string | undefined;
}

/** The repository that a command line names, by `--git` or by its URL. */
function repositoryIn(session: Session, options: CommandOptions, text: string): WantedRepository | undefined {
  const git = textOption(options, 'git') ?? (/^(?:https:\/\/|repo_)/i.test(text) ? text : undefined);
  const ref = textOption(options, 'ref');
  if (git === undefined) {
    if (ref !== undefined) throw usageError('--ref is for a Git repository', 'Give its URL with --git.');
    return undefined;
  }
  if (text !== '' && text !== git)
    throw usageError(
      `${text} and --git ${git} are two things`,
      'Give a package, or --git with a repository.',
    );
  const isUrl = /^[a-z][a-z+.-]*:/i.test(git) || /^[^/\\.]+@/.test(git) || git.startsWith('repo_');
  const url = isUrl ? git.replace(/(?<=[^/])\/+$/, '') : resolve(session.folder, git);
  return { url, ref };
}

function needed(text: string): string {
  if (text === '')
    throw usageError('no package was given', 'Give an npm package, or --git with a repository.');
  return text;
}

async function add(session: Session, options: CommandOptions, text = ''): Promise<void> {
  const wanted = repositoryIn(session, options, text);
  if (wanted === undefined)
    return showPackage(session, await addPackage(session, ...nameAndVersion(needed(text))));
  const api = await session.api();
  const { url, ref } = wanted;
  const before = await api.list<RegistryRepository>('/v1/registry/repositories', listedMax);
  const added = await api.data<RegistryRepository>('POST', '/v1/registry/repositories', {
    body: { url, ...(ref === undefined ? {} : { ref }) },
  });
  const read = await untilRead(session, api, added);
  if (read.state !== 'failing') return showRepository(session, read);
  const isNew = before.every(({ id }) => id !== read.id);
  // What could never be read is of no use, and would fail with every update.
  if (isNew) await api.call('DELETE', pathOf`/v1/registry/repositories/${read.id}`);
  throw new CliError('failed', failureOf(read), {
    hint: isNew
      ? 'It was not added.'
      : `It stays in the registry as it was read last; millrace registry remove ${read.id} removes it.`,
  });
}

function failureOf({ error }: RegistryRepository): string {
  return error?.message ?? 'the repository could not be read';
}

/** Takes as long as npm and the reading of all components do. */
async function addPackage(
  session: Session,
  name: string,
  version: string | undefined,
): Promise<RegistryPackage> {
  session.terminal.status(`Reading the components of ${name} …`);
  const added = await (await session.api()).data<RegistryPackage>('POST', '/v1/registry/packages', {
    body: { name, version },
  });
  session.terminal.endStatus();
  return added;
}

/** Waits for the update that is due. The service continues it when the command is interrupted. */
async function untilRead(session: Session, api: Api, begun: RegistryRepository): Promise<RegistryRepository> {
  let now = begun;
  while (now.state === 'waiting' || now.state === 'updating') {
    session.terminal.status(`${now.url}: ${progressText(now)} …`);
    await delay(pollMs, undefined, { signal: session.interrupted });
    now = await api.data<RegistryRepository>('GET', pathOf`/v1/registry/repositories/${now.id}`);
  }
  session.terminal.endStatus();
  return now;
}

const phaseWords: Record<string, string> = {
  connecting: 'connecting',
  downloading: 'downloading the history',
  unpacking: 'unpacking the history',
  comparing: 'comparing commits',
  reading: 'reading components',
  saving: 'saving versions',
};

function progressText({ state, progress }: RegistryRepository): string {
  if (progress === null) return state === 'waiting' ? 'waiting for its turn' : 'starting';
  const { phase, done, total } = progress;
  const words = phaseWords[phase] ?? phase;
  if (phase === 'downloading') return `${words}, ${(done / 1024 / 1024).toFixed(1)} MB so far`;
  return total === null ? words : `${words}, ${done} of ${total}`;
}

function showPackage(session: Session, added: RegistryPackage): void {
  if (session.isJson) {
    session.terminal.printJson(added);
    return;
  }
  const { name, version, keys, problems } = added;
  session.terminal.note(
    `${name}@${version}: ${counted(keys.length, 'component')}, ${counted(problems.length, 'file')} left out.`,
  );
  showList(
    session,
    keys,
    [column('KEY', 'key', { isWhole: true }), column('VERSION', 'version'), column('TYPE', 'type')],
    '',
  );
  showProblems(session, problems);
}

function showRepository(session: Session, repository: RegistryRepository): void {
  if (session.isJson) {
    session.terminal.printJson(repository);
    return;
  }
  const { components, versions, commits, problems } = repository;
  session.terminal.print(
    `${named(repository)}: ${counted(components, 'component')}, ${counted(versions, 'version')} in ${counted(commits, 'commit')}, ${counted(problems.length, 'file')} left out.`,
  );
  showProblems(session, problems);
}

function showProblems(session: Session, problems: readonly { path: string; message: string }[]): void {
  for (const { path, message } of problems.slice(0, 20)) session.terminal.note(`  ${path}: ${message}`);
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function named({ url, ref }: { url: string; ref: string }): string {
  return ref === '' ? url : `${url} at ${ref}`;
}

/** Most messages begin with the URL already. */
function withName(repository: RegistryRepository, message: string): string {
  const { url, ref, id } = repository;
  return message.startsWith(url)
    ? `${id}${ref === '' ? '' : ` at ${ref}`}: ${message}`
    : `${named(repository)}: ${message}`;
}

interface ListedRow {
  kind: string;
  name: string;
  version: string;
  components: number;
  left_out: number;
  state: string;
  created_at: number;
  id: string;
}

async function list(session: Session, options: CommandOptions): Promise<void> {
  const api = await session.api();
  const packages = await api.list<RegistryPackage>('/v1/registry/packages', limitOf(options));
  const repositories = await api.list<RegistryRepository>('/v1/registry/repositories', limitOf(options));
  if (session.isJson) {
    session.terminal.printJson([...packages, ...repositories.map((one) => ({ kind: 'git', ...one }))]);
    return;
  }
  const rows: ListedRow[] = [
    ...packages.map(({ kind, name, version, keys, problems, created_at, id }) => ({
      ...{
        kind,
        name,
        version,
        components: keys.length,
        left_out: problems.length,
        state: 'ready',
        created_at,
        id,
      },
    })),
    ...repositories.map((one) => ({
      ...{
        kind: 'git',
        name: named(one),
        version: (one.commit ?? '').slice(0, 12),
        components: one.components,
      },
      ...{ left_out: one.problems.length, state: one.state, created_at: one.created_at, id: one.id },
    })),
  ];
  showList<ListedRow>(
    session,
    rows,
    [
      column('PACKAGE', 'name', { isWhole: true }),
      column('VERSION', 'version'),
      column('KIND', 'kind'),
      column('COMPONENTS', 'components'),
      column('LEFT OUT', 'left_out'),
      column('STATE', 'state'),
      timeColumn('ADDED (UTC)', 'created_at'),
      idColumn(),
    ],
    'No packages yet. `millrace registry add PACKAGE` adds one.',
  );
  for (const one of repositories.filter(({ state }) => state === 'failing'))
    session.terminal.problem(withName(one, failureOf(one)));
}

async function update(session: Session, options: CommandOptions, text = ''): Promise<void> {
  const api = await session.api();
  const wanted = repositoryIn(session, options, text);
  const updated: (RegistryPackage | RegistryRepository)[] = [];
  const failed: string[] = [];
  /** One that fails holds up no other. */
  const attempt = async (name: string, work: () => Promise<RegistryPackage | RegistryRepository>) => {
    try {
      updated.push(await work());
    } catch (error) {
      if (!(error instanceof CliError) || error.reason !== 'failed') throw error;
      failed.push(name);
      session.terminal.problem(error.message.startsWith(name) ? error.message : `${name}: ${error.message}`);
    }
  };
  const all = await api.list<RegistryPackage>('/v1/registry/packages', listedMax);
  const packages = wanted === undefined ? all : [];
  const npm = new Set(packages.filter(({ kind }) => kind === 'npm').map(({ name }) => name));
  if (wanted === undefined && text !== '' && all.every(({ name }) => name !== nameAndVersion(text)[0]))
    throw new CliError('notFound', `the registry has no package ${JSON.stringify(text)}`, {
      hint: '`millrace registry list` shows its packages; `millrace registry add PACKAGE` adds one.',
    });
  const names = wanted !== undefined ? [] : text === '' ? [...npm] : [nameAndVersion(text)[0]];
  for (const [at, name] of names.entries()) {
    session.terminal.status(`${at + 1} of ${names.length}: ${name} …`);
    const before = packages.filter((one) => one.name === name).map(({ version }) => version);
    await attempt(name, async () => {
      const now = await addPackage(session, name, undefined);
      const { version } = now;
      session.terminal.note(
        `${name}: ${before.includes(version) ? `${version} is the newest` : `${before.join(', ')} → ${version}`}`,
      );
      return now;
    });
  }
  const repositories =
    wanted !== undefined
      ? await findRepositories(api, wanted)
      : text === ''
        ? await api.list<RegistryRepository>('/v1/registry/repositories', listedMax)
        : [];
  for (const one of repositories) {
    await attempt(named(one), async () => {
      const begun = await api.data<RegistryRepository>(
        'POST',
        pathOf`/v1/registry/repositories/${one.id}/update`,
      );
      const now = await untilRead(session, api, begun);
      if (now.state === 'failing') throw new CliError('failed', withName(now, failureOf(now)));
      const isNew = now.commit !== one.commit;
      session.terminal.note(
        `${named(now)}: ${isNew ? `${counted(now.versions - one.versions, 'new version')}, ${counted(now.components, 'component')}` : 'no new commits'}`,
      );
      return now;
    });
  }
  if (session.isJson) session.terminal.printJson(updated);
  const folders = packages.filter(({ kind }) => kind === 'folder');
  if (text === '' && folders.length > 0)
    session.terminal.note('Folders are read again with --local, while the service is stopped.');
  if (failed.length > 0) throw new CliError('failed', `not updated: ${failed.join(', ')}`);
}

/** Those with this URL, and with this ref where one is given. */
async function findRepositories(api: Api, { url, ref }: WantedRepository): Promise<RegistryRepository[]> {
  const all = await api.list<RegistryRepository>('/v1/registry/repositories', listedMax);
  const found = all.filter(
    (one) => one.id === url || (one.url === url && (ref === undefined || one.ref === ref)),
  );
  if (found.length === 0) {
    const shown = named({ url, ref: ref ?? '' });
    throw new CliError('notFound', `the registry has no repository ${shown}`);
  }
  return found;
}

async function remove(session: Session, options: CommandOptions, text = ''): Promise<void> {
  const api = await session.api();
  const wanted = repositoryIn(session, options, text);
  if (wanted === undefined) {
    const [name, version] = nameAndVersion(needed(text));
    await api.call('DELETE', '/v1/registry/packages', { query: { name, version } });
    return showDone(session, `Removed ${text}.`);
  }
  const found = await findRepositories(api, wanted);
  if (found.length > 1)
    throw usageError(
      `there are ${found.length} repositories with this URL: ${found.map(({ id, ref }) => `${id} (${ref === '' ? 'the default branch' : ref})`).join(', ')}`,
      'Give the id of one instead of its URL.',
    );
  for (const one of found) {
    await api.call('DELETE', pathOf`/v1/registry/repositories/${one.id}`);
    showDone(session, `Removed ${named(one)}.`);
  }
}

/** `@scope/name@version`. */
function nameAndVersion(text: string): [name: string, version: string | undefined] {
  const at = text.indexOf('@', 1);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
