import { noteOwner, noteSubject } from '#audit/audit-context.ts';
import { apiKeysOf, insertApiKey, markRevoked } from '#identity/api-key-store.ts';
import { createUser, createWorkspace } from '#identity/create-identity.ts';
import { brokenRule, identityRules } from '#identity/identity-rules.ts';
import { isRole } from '#identity/membership.ts';
import {
  findFirstAdmin,
  findUser,
  findUserByEmail,
  findUserByName,
  listUsers,
  type User,
} from '#identity/user-store.ts';
import {
  findWorkspace,
  findWorkspaceByOrgname,
  listWorkspaces,
  putMember,
} from '#identity/workspace-store.ts';
import { CallerError } from '#lib/errors.ts';
import { newSecret } from '#lib/ids.ts';
import type { Db } from '#storage/store.ts';
import { roles } from '#storage/tables/identity-tables.ts';
import { type AdminCommands, columnsOf, listedMax, type Options, UsageError } from './admin-command-line.ts';

const userValue = '<u_…, username or e-mail>';

/** Commands about users, workspaces, their members and API keys. */
export const identityCommands: AdminCommands = {
  'user create': {
    required: { username: '<name>', email: '<address>' },
    optional: {},
    summary: 'a user, with an API key that is shown once',
    api: 'POST /v1/users',
    run: async ({ store, clock }, options) => {
      const username = checked(options, 'username');
      const email = checked(options, 'email');
      const { user, secret } = await createUser(store, { username, email }, clock);
      noteSubject({ kind: 'users', id: user.id, isNew: true });
      return {
        data: { ...userData(user), api_key: secret },
        lines: [`User ${user.id} (${username}, ${email}) was created.`, ...keyLines(secret)],
      };
    },
  },
  'user list': {
    required: {},
    optional: {},
    summary: 'all users, oldest first',
    api: 'GET /v1/users/me for one user',
    run: async ({ store }) => {
      const users = await listUsers(store.read, listedMax);
      return {
        data: users.map(userData),
        lines: users.map((user) =>
          columnsOf(user.id, user.username, user.email, user.is_admin ? 'admin' : ''),
        ),
      };
    },
  },
  'workspace create': {
    required: { name: '<name>' },
    optional: { owner: userValue },
    summary: 'a workspace; its first admin is the owner, else the admin of this instance',
    api: 'POST /v1/workspaces',
    run: async ({ store, clock }, options) => {
      const name = checked(options, 'name');
      const user =
        options.owner === undefined
          ? must(await findFirstAdmin(store.read), 'this instance has no admin: say --owner')
          : await userNamed(store.read, options.owner, 'owner');
      const workspace = await createWorkspace(store, { name, user }, { clock });
      noteSubject({ kind: 'workspaces', id: workspace.id, isNew: true });
      const { id, orgname, email } = workspace;
      return {
        data: { id, orgname, name, email },
        lines: [`Workspace ${id} (${orgname}) was created. Its admin is ${user.id} (${user.username}).`],
      };
    },
  },
  'workspace list': {
    required: {},
    optional: {},
    summary: 'all workspaces, oldest first',
    api: 'GET /v1/users/me for those of one user',
    run: async ({ store }) => {
      const workspaces = await listWorkspaces(store.read, listedMax);
      return {
        data: workspaces.map(({ id, orgname, name, email, members }) => ({
          ...{ id, orgname, name, email },
          members: Number(members),
        })),
        lines: workspaces.map(({ id, orgname, name, members }) =>
          columnsOf(id, orgname, name, `${members} members`),
        ),
      };
    },
  },
  'member add': {
    required: { workspace: '<o_…|orgname>', user: userValue, role: `<${roles.join('|')}>` },
    optional: {},
    summary: 'a user to a workspace; for a member, changes the role',
    api: 'POST /v1/workspaces/{id}/members',
    run: async ({ store, clock }, { workspace: workspaceText = '', user: userText = '', role = '' }) => {
      if (!isRole(role)) throw new UsageError(`--role: expected one of ${roles.join(', ')}`);
      const workspace = must(
        (await findWorkspace(store.read, workspaceText)) ??
          (await findWorkspaceByOrgname(store.read, workspaceText)),
        `no workspace ${JSON.stringify(workspaceText)}`,
      );
      const user = await userNamed(store.read, userText, 'user');
      // For the admins of the workspace, as with every other change of its members.
      noteOwner(workspace.id);
      noteSubject({ kind: 'members', id: user.id, path: { id: workspace.id } });
      await store.transaction((tx) =>
        putMember(tx, store, { workspaceId: workspace.id, userId: user.id, role }, clock.now()),
      );
      return {
        data: { workspace_id: workspace.id, user_id: user.id, role },
        lines: [`${user.id} (${user.username}) is ${role} of ${workspace.id} (${workspace.name}).`],
      };
    },
  },
  'key create': {
    required: { user: userValue },
    optional: { name: '<name>' },
    summary: 'another API key for a user; shown once',
    api: 'POST /v1/users/me/api_keys',
    run: async ({ store, clock }, options) => {
      const name = options.name === undefined ? '' : checked(options, 'name', identityRules.keyName);
      const user = await userNamed(store.read, options.user ?? '', 'user');
      const secret = newSecret();
      const key = await store.transaction((tx) =>
        insertApiKey(tx, { userId: user.id, name, secret }, clock.now()),
      );
      noteSubject({ kind: 'api_keys', id: key.id, isNew: true });
      return {
        data: { id: key.id, user_id: user.id, name, api_key: secret },
        lines: [`Key ${key.id} of ${user.id} (${user.username}) was created.`, ...keyLines(secret)],
      };
    },
  },
  'key list': {
    required: { user: userValue },
    optional: {},
    summary: 'the API keys of a user that can be used, without the keys themselves',
    api: 'GET /v1/users/me/api_keys',
    run: async ({ store }, options) => {
      const user = await userNamed(store.read, options.user ?? '', 'user');
      const keys = await apiKeysOf(store.read, user.id).orderBy('created_at_ms').limit(listedMax).execute();
      return {
        data: keys.map(({ id, name, key_hint }) => ({ id, name, hint: key_hint })),
        lines: keys.map(({ id, name, key_hint }) => columnsOf(id, `…${key_hint}`, name)),
      };
    },
  },
  'key revoke': {
    required: { id: '<key_…>' },
    optional: {},
    summary: 'an API key, at once; also the last one of its user',
    api: 'DELETE /v1/users/me/api_keys/{id}',
    run: async ({ store, clock }, { id = '' }) => {
      noteSubject({ kind: 'api_keys', id });
      const wasThere = await store.transaction((tx) => markRevoked(tx, id, clock.now()));
      if (!wasThere)
        throw new CallerError('not_found', `no API key ${JSON.stringify(id)} that can be revoked`);
      return { data: { id, revoked: true }, lines: [`Key ${id} is revoked.`] };
    },
  },
};

function checked(
  options: Options,
  name: 'username' | 'email' | 'name',
  rule: Parameters<typeof brokenRule>[0] = identityRules[name],
): string {
  const text = options[name] ?? '';
  const wrong = brokenRule(rule, text);
  if (wrong !== undefined) throw new UsageError(`--${name}: ${wrong}`);
  return text;
}

/** By id, e-mail address or name. Throws CallerError `not_found`. */
async function userNamed(db: Db, text: string, option: string): Promise<User> {
  const user = text.includes('@')
    ? await findUserByEmail(db, text)
    : ((await findUser(db, text)) ?? (await findUserByName(db, text)));
  return must(user, `--${option}: no user ${JSON.stringify(text)}`);
}

function must<T>(value: T | undefined, otherwise: string): T {
  if (value === undefined) throw new CallerError('not_found', otherwise);
  return value;
}

function userData({ id, username, email, is_admin }: User) {
  return { id, username, email, is_admin: is_admin === 1 };
}

function keyLines(secret: string): string[] {
  return ['API key (shown once, here):', `  ${secret}`];
}
