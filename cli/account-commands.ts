import type { Command } from 'commander';
import type { Account, App, AppSummary, ConnectAccountAnswer } from '#sdk';
import { isObject, pathOf } from './api.ts';
import { askForFields, connectAccount, findApp } from './ask-account.ts';
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
import { healthList } from './list-command.ts';
import { readJsonFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, healthColumn, idColumn, showDone, showList, showOne, timeColumn } from './show.ts';

export function accountCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const accounts = group(program, 'accounts', 'connected accounts');
  healthList<Account>(accounts, 'accounts that you may see', sessionOptions, {
    path: () => '/v1/accounts',
    query: (session, options) => ({ app: textOption(options, 'app'), ...session.owner }),
    columns: [
      idColumn(),
      column('NAME', 'name'),
      column('APP', ({ app }) => app.name_slug),
      healthColumn(),
      column('ERROR', 'error'),
      timeColumn('CREATED (UTC)', 'created_at'),
    ],
    empty:
      'No accounts yet. `millrace accounts create APP` connects one; `millrace apps list` shows the apps.',
  }).option('--app <app>', 'only of this app');
  leaf(accounts, 'describe <account>', 'one account', sessionOptions, async (session, options, id = '') => {
    const query = { include_credentials: options.includeCredentials === true ? 1 : undefined };
    await showOne(session, await (await session.api()).data('GET', pathOf`/v1/accounts/${id}`, { query }));
  }).option('--include-credentials', 'also its credentials, in clear; that is on record');
  leaf(
    accounts,
    'create <app>',
    'connect an account: asks for its fields, or gives a link for a browser',
    sessionOptions,
    create,
  )
    .option('--name <name>', 'name of the account')
    .option('--credentials <file>', 'fields as a JSON object in a file, - for standard input');
  leaf(
    accounts,
    'connect <app>',
    'only print a link that connects an account in a browser',
    sessionOptions,
    connect,
  ).option('--name <name>', 'name of the account');
  leaf(accounts, 'update <account>', 'rename it, or replace its credentials', sessionOptions, update)
    .option('--name <name>', 'another name')
    .option('--credentials <file>', 'fields as a JSON object in a file, - for standard input');
  leaf(accounts, 'test <account>', 'test it now', sessionOptions, test);
  leaf(
    accounts,
    'delete <account>',
    'remove an account',
    sessionOptions,
    async (session, options, id = '') => {
      const query = { force: options.force === true ? true : undefined };
      await (await session.api()).call('DELETE', pathOf`/v1/accounts/${id}`, { query });
      showDone(session, `Removed ${id}.`);
    },
  ).option('--force', 'also when sources or workflows use it');

  const apps = group(program, 'apps', 'what accounts can be connected to');
  addLimit(leaf(apps, 'list [query]', 'apps by name, or the best matches', sessionOptions, listApps));
  leaf(
    apps,
    'describe <app>',
    'one app: its fields, and how to connect it',
    sessionOptions,
    async (session, _options, id = '') =>
      showOne(session, await (await session.api()).data('GET', pathOf`/v1/apps/${id}`)),
  );
}

async function create(session: Session, options: CommandOptions, app = ''): Promise<void> {
  const api = await session.api();
  const name = textOption(options, 'name');
  const file = textOption(options, 'credentials');
  if (file === undefined && !session.questions.canAsk) {
    if ((await findApp(api, app)) === undefined)
      throw new CliError(
        'notFound',
        `the app ${app} is not in the catalogue, and there is no terminal to ask for its fields at`,
        {
          hint: '`millrace apps list WORDS` shows the apps. An account of another app works too: give the fields that the component reads from $auth with --credentials FILE (- for standard input), {} for none.',
        },
      );
    throw usageError(
      'there is no terminal to ask for the credentials at',
      'Give them with --credentials FILE (- for standard input); `millrace accounts connect` gives a link for a browser.',
    );
  }
  const account =
    file === undefined
      ? await connectAccount(session, api, app, name)
      : await api.data<Account>('POST', '/v1/accounts', {
          body: { ...session.owner, app, name, credentials: await readCredentials(session, file) },
        });
  if (session.isJson) return session.terminal.printJson(account);
  session.terminal.print(account.id);
  const { state, reason } = account.health;
  if (state === 'failing') session.terminal.problem(`It is failing: ${reason ?? 'its test failed'}`);
}

async function connect(session: Session, options: CommandOptions, app = ''): Promise<void> {
  const link = await (await session.api()).data<ConnectAccountAnswer>('POST', '/v1/accounts/connect', {
    body: { ...session.owner, app, name: textOption(options, 'name') },
  });
  if (session.isJson) return session.terminal.printJson(link);
  session.terminal.print(link.connect_url);
  session.terminal.note(`Open it in a browser before ${link.expires_at}.`);
}

async function update(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  const name = textOption(options, 'name');
  const file = textOption(options, 'credentials');
  let credentials: unknown = file === undefined ? undefined : await readCredentials(session, file);
  if (name === undefined && credentials === undefined) {
    if (!session.questions.canAsk) throw usageError('nothing to change', 'Give --name or --credentials.');
    const { app } = await api.data<Account>('GET', pathOf`/v1/accounts/${id}`);
    credentials = await askForFields(session, await api.data<App>('GET', pathOf`/v1/apps/${app.name_slug}`));
  }
  showDone(
    session,
    `Changed ${id}.`,
    await api.data('PUT', pathOf`/v1/accounts/${id}`, { body: { name, credentials } }),
  );
}

async function test(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  const account = await (await session.api()).data<Account>('POST', pathOf`/v1/accounts/${id}/test`, {
    body: {},
  });
  const { state, reason } = account.health;
  const why = account.checked_at === null ? 'its app has no test request' : (account.error ?? reason);
  showDone(session, state === 'healthy' ? `${id} is healthy.` : `${id} is ${state}: ${String(why)}`, account);
}

async function listApps(session: Session, options: CommandOptions, query = ''): Promise<void> {
  showList(
    session,
    await (await session.api()).list<AppSummary>('/v1/apps', limitOf(options), {
      q: query === '' ? undefined : query,
      ...session.owner,
    }),
    [
      column('APP', 'name_slug', { isWhole: true }),
      column('NAME', 'name'),
      column('CONNECTED BY', 'auth_type'),
      column('DESCRIPTION', 'description'),
    ],
    'No app fits.',
  );
}

async function readCredentials(session: Session, file: string): Promise<unknown> {
  const credentials = await readJsonFile(session, file, '--credentials');
  if (!isObject(credentials)) throw usageError(`--credentials ${file}: expected a JSON object`);
  return credentials;
}
