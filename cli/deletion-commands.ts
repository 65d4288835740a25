import type { Command } from 'commander';
import type { Deletion, OwnWorkspace, User, UserSummary, Workspace } from '#sdk';
import { type Api, pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
} from './command-kit.ts';
import { CliError, usageError } from './exit-codes.ts';
import { userIdOf } from './find-user.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, timeColumn } from './show.ts';

/** Workspaces, and the deletion of workspaces and users; `users` is the group of commands about users. */
export function deletionCommands(program: Command, users: Command, sessionOptions: GetSessionOptions): void {
  const workspaces = group(program, 'workspaces', 'the workspaces that you are in');
  leaf(workspaces, 'list', 'your workspaces, oldest first', sessionOptions, listWorkspaces);
  addYes(
    leaf(
      workspaces,
      'delete <workspace>',
      'delete a workspace and everything in it, for good',
      sessionOptions,
      deleteWorkspace,
    ),
  );
  addYes(
    leaf(
      users,
      'delete <user>',
      'delete a user and everything personal, for good; `me` deletes you',
      sessionOptions,
      deleteUser,
    ),
  );
  addLimit(
    leaf(
      program,
      'deletions [id]',
      'how far a deletion is; without an id all of them, for the admin of the instance',
      sessionOptions,
      showDeletions,
    ),
  );
}

function addYes(command: Command): Command {
  return command.option('-y, --yes', 'do not ask for the name');
}

async function listWorkspaces(session: Session): Promise<void> {
  showList(
    session,
    await (await session.api()).whole<OwnWorkspace>('/v1/workspaces'),
    [idColumn(), column('NAME', 'name'), column('ORGNAME', 'orgname')],
    'You are in no workspace.',
  );
}

async function deleteWorkspace(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  const path = pathOf`/v1/workspaces/${id}`;
  const { orgname } = await api.data<Workspace>('GET', path);
  await confirm(session, options, `the workspace ${orgname} and everything in it`, orgname);
  const deletion = await api.data<Deletion>('DELETE', path, { body: { orgname } });
  told(session, deletion, [deletion]);
}

async function deleteUser(session: Session, options: CommandOptions, named = ''): Promise<void> {
  const api = await session.api();
  const id = named === 'me' ? named : await userIdOf(api, named);
  const username = await usernameOf(api, id);
  const what = `${username}, what is theirs, and workspaces in which they are the only person`;
  await confirm(session, options, what, username);
  const deletion = await api.data<Deletion & { workspaces: Deletion[] }>('DELETE', pathOf`/v1/users/${id}`, {
    body: { username },
  });
  told(session, deletion, [deletion, ...deletion.workspaces]);
}

async function usernameOf(api: Api, id: string): Promise<string> {
  if (id === 'me') return (await api.data<User>('GET', '/v1/users/me')).username;
  const users = await api.list<UserSummary>('/v1/users', 100, { q: id });
  const user = users.find((one) => one.id === id);
  if (user === undefined) throw new CliError('notFound', `there is no user ${JSON.stringify(id)}`);
  return user.username;
}

/** Returns when the user has typed the name, or has said --yes. */
async function confirm(session: Session, { yes }: CommandOptions, what: string, name: string): Promise<void> {
  if (yes === true) return;
  if (!session.questions.canAsk)
    throw usageError(`this deletes ${what}, for good`, 'Give --yes, or type the name at a terminal.');
  session.terminal.note(`This deletes ${what}. It cannot be undone.`);
  await session.questions.text(`Type ${name} to delete it`, {
    check: (typed) => typed === name || `Expected ${name}. Ctrl-C leaves everything as it is.`,
  });
}

function told(session: Session, answer: Deletion, deletions: readonly Deletion[]): void {
  const names = deletions.map(({ name, id }) => `${name} (${id})`).join(', ');
  showDone(session, `Deleting ${names}. \`millrace deletions ${answer.id}\` says how far it is.`, answer);
}

async function showDeletions(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  const deletions =
    id === ''
      ? await api.list<Deletion>('/v1/deletions', limitOf(options))
      : [await api.data<Deletion>('GET', pathOf`/v1/deletions/${id}`)];
  showList(
    session,
    deletions,
    [
      idColumn(),
      column('STATE', 'state'),
      column('WHAT', 'kind'),
      column('NAME', ({ name, subject_id }) => name ?? subject_id),
      column('ROWS REMOVED', 'removed_rows'),
      timeColumn('BEGAN (UTC)', 'created_at'),
      timeColumn('ENDED (UTC)', 'ended_at'),
      column('PROBLEM', ({ problem }) => problem ?? ''),
    ],
    'Nothing was deleted.',
  );
}
