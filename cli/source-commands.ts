import type { Command } from 'commander';
import type { Component, Source, SourceTick } from '#sdk';
import { type Api, pathOf } from './api.ts';
import {
  addLimit,
  addProps,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { knowComponent, readReference } from './component-reference.ts';
import { usageError } from './exit-codes.ts';
import { readGivenProp } from './fill-props.ts';
import { healthList } from './list-command.ts';
import { endpointOf, givenProps, makeSource, runLimits } from './make-source.ts';
import { ownedPath } from './owned-path.ts';
import type { Session } from './session.ts';
import { column, healthColumn, idColumn, showDone, showList, showOne, timeColumn } from './show.ts';
import { showQueue } from './show-queue.ts';

export function sourceCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const deploying =
    'deploy a component as a source: a file, a key of the registry, or a URL; asks for its props';
  addRunLimits(addProps(leaf(program, 'deploy <component>', deploying, sessionOptions, create))).option(
    '--name <name>',
    'name of the source',
  );

  const sources = group(program, 'sources', 'event sources');
  healthList<Source>(sources, 'your sources, or those of a workspace, newest first', sessionOptions, {
    path: (session) => ownedPath(session, 'sources'),
    columns: [
      idColumn(),
      column('NAME', 'name'),
      healthColumn(),
      column('COMPONENT', 'component_id', { isWhole: true }),
      column('ENDPOINT', endpointOf),
      timeColumn('CREATED (UTC)', 'created_at'),
    ],
    empty:
      'No sources yet. `millrace components list` shows what can be deployed; `millrace deploy FILE|KEY|URL` does it.',
  });
  leaf(
    sources,
    'describe <source>',
    'one source',
    sessionOptions,
    async (session, _options, id = '') =>
      await showOne(session, await (await session.api()).data('GET', pathOf`/v1/sources/${id}`)),
  );
  addRunLimits(
    addProps(leaf(sources, 'create <component>', 'the same as deploy', sessionOptions, create)),
  ).option('--name <name>', 'name of the source');
  addRunLimits(
    leaf(
      sources,
      'update <source>',
      'change code, props, name, limits or activity; what is not given stays',
      sessionOptions,
      update,
    ),
  )
    .option('--code <component>', 'other code: a file, a key, or a URL')
    .option(
      '--prop <name=value>',
      'value of a prop; may be given several times',
      (text: string, before: string[] = []) => [...before, text],
    )
    .option('--props <file>', 'values of props as a JSON object in a file, - for standard input')
    .option('--name <name>', 'another name')
    .option('--active', 'activate it')
    .option('--inactive', 'deactivate it: its events stay, and runs under way or waiting continue');
  leaf(
    sources,
    'delete <source>',
    'remove a source, its events and its endpoint',
    sessionOptions,
    remove,
  ).option('--ignore-hook-errors', 'also when its deactivate hook fails');
  leaf(
    sources,
    'queue <source>',
    'what waits under flow control, by key, and why',
    sessionOptions,
    async (session, _options, id = '') => showQueue(session, pathOf`/v1/sources/${id}/queue`),
  );
  addLimit(
    leaf(
      sources,
      'ticks <source>',
      'the outcome of each planned run of a timer source',
      sessionOptions,
      ticks,
    ),
    20,
  );
}

function addRunLimits(command: Command): Command {
  return command
    .option('--concurrency <n>', 'maximum of its runs at the same time, 1 to 100; 1 keeps their order')
    .option(
      '--flow-control <json>',
      'when its runs may begin, as JSON or @FILE (@- for standard input); null: at once',
    );
}
/** Older sources of the same name that a deployment looks for. */
const olderMax = 100;

async function create(session: Session, options: CommandOptions, component = ''): Promise<void> {
  const api = await session.api();
  const { source, local } = await makeSource(session, api, component, options);
  if (session.isJson) return session.terminal.printJson(source);
  const endpoint = endpointOf(source);
  session.terminal.print(
    [String(source.id), String(source.name), ...(endpoint === undefined ? [] : [endpoint])].join('  '),
  );
  session.terminal.note(`Follow it: millrace events ${String(source.id)} -f`);
  if (local !== undefined) await tellOfOlder(session, api, { source, file: component });
}

/** A changed file that is deployed again is another source: the one that was deployed before keeps its code, whatever version both have. */
async function tellOfOlder(
  session: Session,
  api: Api,
  { source, file }: { source: Source; file: string },
): Promise<void> {
  // Where the caller gives no name, the service numbers it: orders, orders-2.
  const name = source.name.replace(/-\d+$/, '');
  const found = await api.list<Pick<Source, 'id' | 'name'>>(ownedPath(session, 'sources'), olderMax, {
    include: 'id,name',
    q: name,
  });
  const older = found.filter((one) => one.id !== source.id && one.name.replace(/-\d+$/, '') === name);
  const [newest] = older;
  if (newest === undefined) return;
  const others = older.length === 1 ? 'keeps its code' : `and ${older.length - 1} more keep their code`;
  session.terminal.note(
    `This is another source: ${newest.id} (${newest.name}) ${others}. To change one in place: ` +
      `millrace sources update ${newest.id} --code ${/^[\w./-]+$/.test(file) ? file : JSON.stringify(file)}`,
  );
}

async function update(session: Session, options: CommandOptions, id = ''): Promise<void> {
  if (options.active === true && options.inactive === true)
    throw usageError('--active and --inactive exclude each other');
  const api = await session.api();
  const before = await api.data<Source>('GET', pathOf`/v1/sources/${id}`);
  const given = await givenProps(session, options);
  const code = textOption(options, 'code');
  const other =
    code === undefined
      ? undefined
      : await knowComponent(api, readReference(session.folder, code), session.owner);
  const changes: Record<string, unknown> = { ...given.values };
  if (given.texts.size > 0) {
    const definitions =
      other?.props ??
      (await api.data<Component>('GET', pathOf`/v1/components/${before.component_id}`)).configurable_props;
    for (const [name, text] of given.texts) {
      // Props that appear with others are not among those of the component; the service knows them.
      const definition = definitions.find((one) => one.name === name) ?? { name, type: 'any' };
      changes[name] = await readGivenProp(session, api, definition, text);
    }
  }
  const body = {
    ...(other === undefined
      ? {}
      : other.id.startsWith('sc_')
        ? { component_id: other.id }
        : { key: other.id }),
    ...(Object.keys(changes).length === 0
      ? {}
      : { configured_props: { ...before.configured_props, ...changes } }),
    name: textOption(options, 'name'),
    ...(await runLimits(session, options)),
  };
  const isToggled = options.active === true || options.inactive === true;
  if (!isToggled && Object.values(body).every((value) => value === undefined)) {
    throw usageError(
      'nothing to change',
      'Give --name, --code, --prop, --props, --concurrency, --flow-control, --active or --inactive.',
    );
  }
  session.terminal.status('Changing the source …');
  const source = await api.data<Source>('PUT', pathOf`/v1/sources/${id}`, {
    // The service takes a missing `active` as true.
    body: { ...body, active: isToggled ? options.active === true : before.active },
  });
  session.terminal.endStatus();
  const left = source.active || session.isJson ? '' : await runsThatGoOn(api, id);
  showDone(session, `Changed ${id}; it is ${source.active ? 'active' : 'inactive'}.${left}`, source);
}

/** What an inactive source still does: requests that were acknowledged are not lost by it. */
async function runsThatGoOn(api: Api, id: string): Promise<string> {
  const { runs } = await api.data<Source>('GET', pathOf`/v1/sources/${id}`);
  const count = (runs?.under_way ?? 0) + (runs?.queued ?? 0);
  if (count === 0) return '';
  return ` Runs of it that are under way or wait continue (${count}); \`millrace sources delete ${id}\` ends them.`;
}

async function remove(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const query = { ignore_hook_errors: options.ignoreHookErrors === true ? true : undefined };
  await (await session.api()).call('DELETE', pathOf`/v1/sources/${id}`, { query });
  showDone(session, `Removed ${id}.`);
}

async function ticks(session: Session, options: CommandOptions, id = ''): Promise<void> {
  showList<SourceTick>(
    session,
    await (await session.api()).list(pathOf`/v1/sources/${id}/ticks`, limitOf(options)),
    [
      timeColumn('PLANNED (UTC)', 'planned_at'),
      column('PROP', 'prop'),
      column('OUTCOME', 'outcome'),
      column('RUN', ({ run }) => run?.state ?? 'none'),
      column('REASON', ({ reason, run }) => reason ?? run?.error),
      column('TICKS', 'ticks'),
    ],
    'No ticks yet: only sources with a timer have them.',
  );
}
