import type { Command } from 'commander';
import type { Component, ComponentSummary, ConfigurableProp, RegistryPackage } from '#sdk';
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
import { knowComponent, readReference } from './component-reference.ts';
import { CliError, usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, showOne, timeColumn } from './show.ts';

export function componentCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const components = group(program, 'components', 'what can be deployed as a source or run as an action');
  addLimit(
    leaf(
      components,
      'list [query]',
      'components of the registry by key, or the best matches',
      sessionOptions,
      list,
    ),
  )
    .option('--app <app>', 'only of this app')
    .option('--type <type>', 'only source or action');
  leaf(
    components,
    'describe <component>',
    'one component with its props, by key or id',
    sessionOptions,
    describe,
  ).option('--code', 'print its code');
  leaf(
    components,
    'create <component>',
    'save code from a file or URL, without deploying it',
    sessionOptions,
    create,
  );

  const registry = group(
    program,
    'registry',
    'npm packages that components come from; for the admin of the instance',
  );
  leaf(
    registry,
    'add <package>',
    'the components of an npm package, for everybody, by their keys',
    sessionOptions,
    add,
  );
  addLimit(
    leaf(
      registry,
      'list',
      'packages, their versions and how many components they have',
      sessionOptions,
      listPackages,
    ),
  );
  leaf(
    registry,
    'update [package]',
    'the newest version of a package, or of all, beside the versions there are',
    sessionOptions,
    update,
  );
  leaf(
    registry,
    'remove <package>',
    'a package, or one version of it; what uses its components runs on',
    sessionOptions,
    remove,
  );
  for (const command of registry.commands) addLocal(command);
}

/** Such a command line never gets here: it is for another program (local-admin.ts). */
function addLocal(command: Command): void {
  command.option('--local', 'on the data folder, without the service; also for folders, and without a login');
}

async function list(session: Session, options: CommandOptions, query = ''): Promise<void> {
  showList(
    session,
    await (await session.api()).list<ComponentSummary>('/v1/components', limitOf(options), {
      ...session.owner,
      q: query === '' ? undefined : query,
      app: textOption(options, 'app'),
      type: textOption(options, 'type'),
    }),
    [
      column('KEY', 'key', { isWhole: true }),
      column('TYPE', 'type'),
      column('VERSION', 'version'),
      column('NAME', 'name'),
      column('DESCRIPTION', 'description'),
    ],
    'No component fits. `millrace registry add PACKAGE` brings those of an npm package.',
  );
}

async function describe(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const component = await (await session.api()).data<Component>('GET', pathOf`/v1/components/${id}`);
  if (session.isJson) return session.terminal.printJson(component);
  const { code, configurable_props: props, ...fields } = component;
  if (options.code === true) return session.terminal.printBytes(Buffer.from(`${code}\n`));
  await showOne(session, fields);
  session.terminal.print('');
  showList<ConfigurableProp>(
    session,
    props,
    [
      column('PROP', 'name', { isWhole: true }),
      column('TYPE', ({ type, app }) => (type === 'app' ? `app ${app}` : type)),
      column('OPTIONAL', ({ optional }) => optional === true),
      column('DEFAULT', 'default'),
      column('DESCRIPTION', ({ description, label }) => description ?? label),
    ],
    'It has no props.',
  );
}

async function create(session: Session, _options: CommandOptions, text = ''): Promise<void> {
  const reference = readReference(session.folder, text);
  if (reference.kind === 'key')
    throw usageError(`${text} is a key: what has one is there already`, 'Give a file or a URL.');
  const api = await session.api();
  const { id } = await knowComponent(api, reference, session.owner);
  const component = await api.data('GET', pathOf`/v1/components/${id}`);
  if (session.isJson) return session.terminal.printJson(component);
  session.terminal.print(id);
}

async function add(session: Session, _options: CommandOptions, text = ''): Promise<void> {
  showPackage(session, await addPackage(session, ...nameAndVersion(text)));
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

function showPackage(session: Session, added: RegistryPackage): void {
  if (session.isJson) {
    session.terminal.printJson(added);
    return;
  }
  const { name, version, keys, problems } = added;
  session.terminal.note(`${name}@${version}: ${keys.length} components, ${problems.length} files left out.`);
  showList(
    session,
    keys,
    [column('KEY', 'key', { isWhole: true }), column('VERSION', 'version'), column('TYPE', 'type')],
    '',
  );
  for (const { path, message } of problems.slice(0, 20)) session.terminal.note(`  ${path}: ${message}`);
}

async function listPackages(session: Session, options: CommandOptions): Promise<void> {
  showList<RegistryPackage>(
    session,
    await (await session.api()).list('/v1/registry/packages', limitOf(options)),
    [
      column('PACKAGE', 'name', { isWhole: true }),
      column('VERSION', 'version'),
      column('KIND', 'kind'),
      column('COMPONENTS', ({ keys }) => keys.length),
      column('LEFT OUT', ({ problems }) => problems.length),
      timeColumn('ADDED (UTC)', 'created_at'),
      idColumn(),
    ],
    'No packages yet. `millrace registry add PACKAGE` adds one.',
  );
}

async function update(session: Session, _options: CommandOptions, text = ''): Promise<void> {
  const packages = await (await session.api()).list<RegistryPackage>('/v1/registry/packages', 10_000);
  const npm = new Set(packages.filter(({ kind }) => kind === 'npm').map(({ name }) => name));
  const names = text === '' ? [...npm] : [nameAndVersion(text)[0]];
  const updated: RegistryPackage[] = [];
  const failed: string[] = [];
  for (const [at, name] of names.entries()) {
    session.terminal.status(`${at + 1} of ${names.length}: ${name} …`);
    const before = packages.filter((one) => one.name === name).map(({ version }) => version);
    try {
      const now = await addPackage(session, name, undefined);
      updated.push(now);
      const { version } = now;
      session.terminal.note(
        `${name}: ${before.includes(version) ? `${version} is the newest` : `${before.join(', ')} → ${version}`}`,
      );
    } catch (error) {
      // One that fails holds up no other.
      if (!(error instanceof CliError) || error.reason !== 'failed') throw error;
      failed.push(name);
      session.terminal.problem(`${name}: ${error.message}`);
    }
  }
  if (session.isJson) session.terminal.printJson(updated);
  const folders = packages.filter(({ kind }) => kind === 'folder');
  if (text === '' && folders.length > 0)
    session.terminal.note('Folders are read again with --local, while the service is stopped.');
  if (failed.length > 0) throw new CliError('failed', `not updated: ${failed.join(', ')}`);
}

async function remove(session: Session, _options: CommandOptions, text = ''): Promise<void> {
  const [name, version] = nameAndVersion(text);
  await (await session.api()).call('DELETE', '/v1/registry/packages', { query: { name, version } });
  showDone(session, `Removed ${text}.`);
}

/** `@scope/name@version`. */
function nameAndVersion(text: string): [name: string, version: string | undefined] {
  const at = text.indexOf('@', 1);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
