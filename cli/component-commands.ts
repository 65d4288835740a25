import type { Command } from 'commander';
import type { Component, ComponentSummary, ConfigurableProp } from '#sdk';
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
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, showList, showOne } from './show.ts';

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
