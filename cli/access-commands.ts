import type { Command } from 'commander';
import { Option } from 'commander';
import type {
  ApiKey,
  CreateUserAnswer,
  DisabledUser,
  ServiceAccount,
  SignedInSession,
  UserSummary,
} from '#sdk';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  collect,
  type GetSessionOptions,
  group,
  integer,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { deletionCommands } from './deletion-commands.ts';
import { usageError } from './exit-codes.ts';
import { userIdOf } from './find-user.ts';
import { withOwnerNames } from './owner-names.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, timeColumn } from './show.ts';

/** Keys or sessions of one user: the service takes no more, or shows no more at once. */
const listedMax = 1000;
const secondsPerDay = 86_400;
const roles = ['viewer', 'member', 'admin'];

/** API keys and sessions of the user, service accounts of a workspace, and users of the instance. */
export function accessCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const keys = group(program, 'api-keys', 'your API keys, or those of a service account');
  const addKey = (signature: string, summary: string, run: Parameters<typeof leaf>[4]): Command =>
    leaf(keys, signature, summary, sessionOptions, run).option(
      '--service-account <id>',
      'those of this service account of the workspace',
    );
  addKey('list', 'keys that are not revoked, newest first', listKeys);
  addKey('create [name]', 'make a key and print it: it is shown once', createKey)
    .option('--scope <scope>', 'what it may be used for; may be given several times; default all', collect)
    .option('--expires-in <days>', 'days until it is refused; default never', integer(1, 36_500));
  addKey('revoke <key>', 'end a key at once, by its id', revokeKey);

  const sessions = group(program, 'sessions', 'where you are signed in to the dashboard');
  leaf(sessions, 'list', 'your sessions, newest first', sessionOptions, listSessions);
  leaf(sessions, 'revoke [session]', 'end a session, or all of them', sessionOptions, revokeSession).option(
    '--all',
    'all of them',
  );

  const accounts = group(program, 'service-accounts', 'users of a workspace for programs');
  const addAccount = (signature: string, summary: string, run: Parameters<typeof leaf>[4]): Command =>
    leaf(accounts, signature, summary, sessionOptions, run);
  const role = () => new Option('--role <role>', 'what it may do').choices(roles).default('member');
  addAccount('list', 'service accounts of the workspace, oldest first', listAccounts);
  addAccount('create <name>', 'make a service account', createAccount).addOption(role());
  addAccount('set-role <id>', 'give a service account another role', setRole).addOption(role());
  addAccount('delete <id>', 'remove a service account with its keys; what it made stays', deleteAccount);

  const users = group(
    program,
    'users',
    'all users, for the admin of the instance; `delete me` is for everyone',
  );
  addLimit(leaf(users, 'list [words]', 'users, newest first', sessionOptions, listUsers));
  leaf(
    users,
    'create <name>',
    'make a user and print the first API key: it is shown once',
    sessionOptions,
    createUser,
  ).requiredOption('--email <address>', 'e-mail address of the user');
  leaf(users, 'set-email <user> <address>', 'give a user another e-mail address', sessionOptions, setEmail);
  leaf(users, 'disable <user>', 'end keys, sessions and streams of a user', sessionOptions, disable)
    .option('--pause', "deactivate the user's personal sources and workflows too")
    .option('--reason <text>', 'why, for admins of the instance');
  leaf(users, 'enable <user>', 'let a disabled user in again', sessionOptions, enable);
  deletionCommands(program, users, sessionOptions);
}

function keysPath(session: Session, options: CommandOptions): string {
  const account = textOption(options, 'serviceAccount');
  return account === undefined
    ? '/v1/users/me/api_keys'
    : pathOf`/v1/workspaces/${workspaceOf(session)}/service_accounts/${account}/keys`;
}

function workspaceOf({ workspace }: Session): string {
  if (workspace !== undefined) return workspace;
  throw usageError('service accounts belong to a workspace', 'Give --workspace.');
}

async function listKeys(session: Session, options: CommandOptions): Promise<void> {
  showList<ApiKey>(
    session,
    await (await session.api()).list(keysPath(session, options), listedMax),
    [
      idColumn(),
      column('NAME', 'name'),
      column('ENDS IN', ({ hint }) => `…${hint}`),
      column('SCOPES', ({ scopes }) => scopes?.join(',') ?? 'all'),
      timeColumn('EXPIRES (UTC)', 'expires_at'),
      timeColumn('USED (UTC)', 'last_used_at'),
    ],
    'No keys. `millrace api-keys create` makes one.',
  );
}

async function createKey(session: Session, options: CommandOptions, name = ''): Promise<void> {
  const days = options.expiresIn;
  const made = await (await session.api()).data<ApiKey & { api_key: string }>(
    'POST',
    keysPath(session, options),
    {
      body: {
        name,
        ...(Array.isArray(options.scope) ? { scopes: options.scope } : {}),
        ...(typeof days === 'number'
          ? { expires_at: Math.floor(Date.now() / 1000) + days * secondsPerDay }
          : {}),
      },
    },
  );
  if (session.isJson) return session.terminal.printJson(made);
  session.terminal.note(`Made ${made.id}. The key is shown only once:`);
  session.terminal.print(made.api_key);
}

async function revokeKey(session: Session, options: CommandOptions, id = ''): Promise<void> {
  await (await session.api()).call('DELETE', `${keysPath(session, options)}/${encodeURIComponent(id)}`);
  showDone(session, `Revoked ${id}.`);
}

async function listSessions(session: Session): Promise<void> {
  showList<SignedInSession>(
    session,
    await (await session.api()).list('/v1/users/me/sessions', listedMax),
    [
      idColumn(),
      column('BROWSER', 'user_agent'),
      column('ADDRESS', 'address'),
      timeColumn('SINCE (UTC)', 'created_at'),
      timeColumn('USED (UTC)', 'last_used_at'),
      timeColumn('EXPIRES (UTC)', 'expires_at'),
    ],
    'You are signed in nowhere.',
  );
}

async function revokeSession(session: Session, options: CommandOptions, id = ''): Promise<void> {
  if ((options.all === true) === (id !== ''))
    throw usageError('there is no session to end', 'Give the id of one, or --all.');
  const api = await session.api();
  if (id !== '') {
    await api.call('DELETE', pathOf`/v1/users/me/sessions/${id}`);
    return showDone(session, `Ended ${id}.`);
  }
  const { revoked } = await api.data<{ revoked: number }>('DELETE', '/v1/users/me/sessions');
  showDone(session, `Ended ${revoked} ${revoked === 1 ? 'session' : 'sessions'}.`, { revoked });
}

async function listAccounts(session: Session): Promise<void> {
  const path = pathOf`/v1/workspaces/${workspaceOf(session)}/service_accounts`;
  const accounts = await (await session.api()).whole<ServiceAccount>(path);
  showList<ServiceAccount>(
    session,
    session.isJson ? accounts : await withOwnerNames(session, accounts),
    [
      idColumn(),
      column('NAME', 'username'),
      column('ROLE', 'role'),
      column('MADE BY', 'created_by'),
      timeColumn('MADE (UTC)', 'created_at'),
    ],
    'No service accounts. `millrace service-accounts create NAME` makes one.',
  );
}

async function createAccount(session: Session, { role }: CommandOptions, name = ''): Promise<void> {
  const path = pathOf`/v1/workspaces/${workspaceOf(session)}/service_accounts`;
  const made = await (await session.api()).data<ServiceAccount>('POST', path, { body: { name, role } });
  if (session.isJson) return session.terminal.printJson(made);
  session.terminal.print(made.id);
}

async function setRole(session: Session, { role }: CommandOptions, id = ''): Promise<void> {
  const path = pathOf`/v1/workspaces/${workspaceOf(session)}/service_accounts/${id}`;
  const changed = await (await session.api()).data<ServiceAccount>('PUT', path, { body: { role } });
  showDone(session, `${changed.username} is ${changed.role}.`, changed);
}

async function deleteAccount(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  const path = pathOf`/v1/workspaces/${workspaceOf(session)}/service_accounts/${id}`;
  await (await session.api()).call('DELETE', path);
  showDone(session, `Removed ${id}. What it made stays.`);
}

async function listUsers(session: Session, options: CommandOptions, words = ''): Promise<void> {
  showList<UserSummary>(
    session,
    await (await session.api()).list('/v1/users', limitOf(options), { q: words }),
    [
      idColumn(),
      column('NAME', 'username'),
      column('E-MAIL', 'email'),
      column('KIND', ({ is_admin, kind }) => (is_admin ? 'admin' : kind)),
      timeColumn('DISABLED (UTC)', 'disabled_at'),
      timeColumn('MADE (UTC)', 'created_at'),
      column('REASON', ({ disabled_reason }) => disabled_reason ?? ''),
    ],
    'No such users.',
  );
}

async function createUser(session: Session, options: CommandOptions, username = ''): Promise<void> {
  const email = textOption(options, 'email');
  const made = await (await session.api()).data<CreateUserAnswer>('POST', '/v1/users', {
    body: { username, email },
  });
  if (session.isJson) return session.terminal.printJson(made);
  session.terminal.note(
    `Made ${made.username}, ${made.id}. The user signs in with this key, which is shown only once:`,
  );
  session.terminal.print(made.api_key);
}

async function setEmail(session: Session, _options: CommandOptions, named = '', email = ''): Promise<void> {
  const api = await session.api();
  const user = await api.data<UserSummary>('PUT', pathOf`/v1/users/${await userIdOf(api, named)}`, {
    body: { email },
  });
  showDone(session, `The e-mail address of ${user.username} is ${user.email}.`, user);
}

async function disable(session: Session, options: CommandOptions, named = ''): Promise<void> {
  const api = await session.api();
  const id = await userIdOf(api, named);
  const user = await api.data<DisabledUser>('POST', pathOf`/v1/users/${id}/disable`, {
    body: { pause: options.pause === true, reason: textOption(options, 'reason') },
  });
  const { sources, workflows } = user.still_running;
  const running = [...sources, ...workflows];
  const more = running.length === 0 ? '' : ` Still running: ${running.join(', ')}.`;
  showDone(session, `Disabled ${user.username}.${more}`, user);
}

async function enable(session: Session, _options: CommandOptions, named = ''): Promise<void> {
  const api = await session.api();
  const id = await userIdOf(api, named);
  const user = await api.data<UserSummary>('POST', pathOf`/v1/users/${id}/enable`);
  showDone(session, `Enabled ${user.username}.`, user);
}
