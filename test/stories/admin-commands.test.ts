import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const adminFile = programFile('src/admin.ts');

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

interface Place {
  dataFolder: string;
  databaseUrl?: string;
}

/** `npm run millrace -- …` without npm. */
function admin(place: Place, ...args: string[]): Promise<Ended> {
  const env = {
    PATH: process.env.PATH,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    MILLRACE_DATA: place.dataFolder,
    ...(place.databaseUrl === undefined ? {} : { MILLRACE_DATABASE_URL: place.databaseUrl }),
  };
  return new Promise((resolve) => {
    execFile(process.execPath, [adminFile, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** What a command that has to succeed prints for machines. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function adminJson(place: Place, ...args: string[]): Promise<any> {
  const ended = await admin(place, ...args, '--json');
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(ended.stderr, '');
  return JSON.parse(ended.stdout);
}

describe('the command line', () => {
  test('help lists every command and exits with 0', async () => {
    await using folder = await createTempFolder('admin');
    for (const args of [['help'], ['--help']]) {
      const { code, stdout } = await admin({ dataFolder: join(folder.path, 'none') }, ...args);
      assert.equal(code, 0);
      for (const command of [
        ...['user create', 'user list', 'workspace create', 'workspace list', 'member add'],
        ...['key create', 'key list', 'key revoke', 'help'],
      ]) {
        assert.match(stdout, new RegExp(`^ {2}${command}\\b`, 'm'));
      }
    }
    const { stdout } = await admin({ dataFolder: join(folder.path, 'none') }, 'user', 'create', '-h');
    assert.match(stdout, /^ {2}user list$/m);
    assert.doesNotMatch(stdout, /^ {2}key list/m);
  });

  for (const [args, complaint] of [
    [[], /no command was given/],
    [['user'], /^user: found nothing, expected create or list$/m],
    [['user', 'destroy'], /^user: found "destroy", expected create or list$/m],
    [['toString'], /no command "toString"/],
    [['user', 'create', '--username', 'x'], /needs --email/],
    [['user', 'list', '--email', 'x@y.z'], /no option --email/],
    [['user', 'list', '--nonsense'], /--nonsense/],
    [['key', 'revoke', '--id='], /--id: must not be empty/],
  ] as const) {
    test(`is refused with 2 and help, before the store is touched: ${args.join(' ') || 'nothing'}`, async () => {
      await using folder = await createTempFolder('admin');
      const ended = await admin({ dataFolder: join(folder.path, 'data') }, ...args);
      assert.equal(ended.code, 2);
      assert.equal(ended.stdout, '');
      assert.match(ended.stderr, complaint);
      // Help for what the command line is about, and for nothing else.
      assert.match(ended.stderr, /^ {2}(?:user|key) list\b/m);
      if (args[0] === 'user') assert.doesNotMatch(ended.stderr, /backup|key revoke/);
      assert.ok(!existsSync(join(folder.path, 'lock.sqlite')));
    });
  }

  test('a data folder that is not there is not made', async () => {
    await using folder = await createTempFolder('admin');
    const dataFolder = join(folder.path, 'none');
    const ended = await admin({ dataFolder }, 'user', 'list');
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /there is no data folder/);
    assert.ok(!existsSync(dataFolder));
  });

  test('a store that never saw a start is refused, and its first start still makes the admin', async () => {
    await using folder = await createTempFolder('admin');
    const place = { dataFolder: join(folder.path, 'data') };
    await mkdir(place.dataFolder);
    const ended = await admin(place, 'user', 'create', '--username', 'early', '--email', 'e@example.com');
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /start the service once/);
    const service = await Millrace.start(place);
    try {
      assert.equal((await service.api('GET', '/v1/users/me')).body.data.username, 'admin');
    } finally {
      await service.stop();
    }
  });

  test('settings that make no sense are said, with 1', async () => {
    await using folder = await createTempFolder('admin');
    const ended = await admin(
      { dataFolder: join(folder.path, 'data'), databaseUrl: 'mysql://x' },
      'user',
      'list',
    );
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /MILLRACE_DATABASE_URL/);
    assert.doesNotMatch(ended.stderr, /\n +at /);
  });
});

for (const dialect of storesOfStory(import.meta.filename, process.env[turnVariable])) {
  const isEmbedded = dialect === 'sqlite';
  describe(isEmbedded ? 'on SQLite' : 'on PostgreSQL', { skip: !isEmbedded && postgresSkip() }, () => {
    let folder: TempFolder;
    let database: TestDatabase | undefined;
    let place: Place;
    let service: Millrace;
    /** Starts the service again where commands have stopped it. */
    const api: Millrace['api'] = async (...request) => {
      if (service.process.exitCode !== null) service = await Millrace.start(place);
      return service.api(...request);
    };

    before(async () => {
      folder = await createTempFolder('admin');
      database = isEmbedded ? undefined : await borrowTestDatabase();
      place = {
        dataFolder: join(folder.path, 'data'),
        ...(database === undefined ? {} : { databaseUrl: database.url }),
      };
      service = await Millrace.start(place);
    });
    after(async () => {
      await service.stop();
      await database?.drop();
      await folder.remove();
    });

    /** Runs commands as the dialect demands: beside the service, or while it is stopped. */
    async function administer<T>(work: () => Promise<T>): Promise<T> {
      if (isEmbedded) await service.stop();
      return work();
    }

    test('while the service runs, a command says to stop it or to use the API, and which operation of it', {
      skip: !isEmbedded && 'PostgreSQL takes both at once',
    }, async () => {
      const args = ['user', 'create', '--username', 'late', '--email', 'late@example.com'];
      const ended = await admin(place, ...args);
      assert.equal(ended.code, 1);
      assert.equal(ended.stdout, '');
      assert.match(
        ended.stderr,
        /the service is running on the data folder .*: stop it first, or use its API \(POST \/v1\/users\)/,
      );
      const machine = await admin(place, ...args, '--json');
      assert.equal(JSON.parse(machine.stderr).code, 'failed');
      assert.equal((await service.api('GET', '/healthz')).status, 200);
    });

    test('what cannot be done is said in one line, with 1, and nothing is changed; bad values with 2', async () => {
      await administer(async () => {
        const before = (await admin(place, 'user', 'list')).stdout;
        for (const [args, complaint] of [
          [
            ['user', 'create', '--username', 'admin', '--email', 'x@example.com'],
            /this username exists already/,
          ],
          [['workspace', 'create', '--name', 'x', '--owner', 'u_nobody'], /--owner: no user "u_nobody"/],
          [
            ['member', 'add', '--workspace', 'o_none', '--user', 'admin', '--role', 'member'],
            /no workspace "o_none"/,
          ],
          [['key', 'create', '--user', 'nobody@example.com'], /--user: no user/],
          [['key', 'revoke', '--id', 'key_none'], /no API key "key_none"/],
        ] as const) {
          const ended = await admin(place, ...args);
          assert.equal(ended.code, 1, ended.stderr);
          assert.match(ended.stderr, complaint);
          assert.equal(ended.stderr.trimEnd().split('\n').length, 1, ended.stderr);
        }
        for (const [args, complaint] of [
          [
            ['user', 'create', '--username', 'a b', '--email', 'x@example.com'],
            /--username: expected letters, digits, dots/,
          ],
          [
            ['user', 'create', '--username', 'ab', '--email', 'nothing'],
            /--email: expected an e-mail address, such as/,
          ],
          [['workspace', 'create', '--name', 'x'.repeat(201)], /--name: must have from 1 to 200 characters/],
          [
            ['member', 'add', '--workspace', 'o_x', '--user', 'admin', '--role', 'king'],
            /--role: expected one of/,
          ],
        ] as const) {
          const ended = await admin(place, ...args);
          assert.equal(ended.code, 2);
          assert.match(ended.stderr, complaint);
        }
        assert.equal((await admin(place, 'user', 'list')).stdout, before);
      });
    });

    test('users see the key once, and lists in columns', async () => {
      await administer(async () => {
        const args = ['user', 'create', '--username', 'carl', '--email', 'carl@example.com'];
        const { stdout } = await admin(place, ...args);
        assert.match(
          stdout,
          /^User u_\w+ \(carl, carl@example\.com\) was created\.\nAPI key.*\n {2}\w{32}\n$/,
        );
        assert.match(
          (await admin(place, 'user', 'list')).stdout,
          /^u_\w+ {2}admin {2}admin@localhost {2}admin$/m,
        );
      });
    });

    test('users, workspaces, members and keys made here are what the API knows', async () => {
      const made = await administer(async () => {
        const ann = await adminJson(
          place,
          'user',
          'create',
          '--username',
          'ann',
          '--email',
          'ann@example.com',
        );
        const bob = await adminJson(
          place,
          'user',
          'create',
          '--username',
          'bob',
          '--email',
          'bob@example.com',
        );
        const team = await adminJson(place, 'workspace', 'create', '--name', 'A Team', '--owner', 'ann');
        const main = await adminJson(place, 'workspace', 'create', '--name', 'Second');
        const args = ['member', 'add', '--workspace', team.orgname, '--user', 'bob@example.com'];
        assert.deepEqual(await adminJson(place, ...args, '--role', 'admin'), {
          workspace_id: team.id,
          user_id: bob.id,
          role: 'admin',
        });
        // The same again with another role changes the role.
        assert.equal((await adminJson(place, ...args, '--role', 'viewer')).role, 'viewer');
        const second = await adminJson(place, 'key', 'create', '--user', bob.id, '--name', 'laptop');
        return { ann, bob, team, main, second };
      });
      const { ann, bob, team, main, second } = made;
      assert.match(ann.id, /^u_/);
      assert.match(team.id, /^o_/);
      assert.match(second.id, /^key_/);
      assert.equal(ann.is_admin, false);
      assert.equal(team.orgname, 'a-team');

      const annNow = (await api('GET', '/v1/users/me', undefined, { key: ann.api_key })).body.data;
      assert.equal(annNow.username, 'ann');
      assert.deepEqual(
        annNow.orgs.map(({ id }: { id: string }) => id),
        [team.id],
      );
      const members = await api('GET', `/v1/workspaces/${team.id}/members`, undefined, {
        key: bob.api_key,
      });
      assert.deepEqual(
        members.body.data.map(({ user_id, role }: { user_id: string; role: string }) => [user_id, role]),
        [
          [ann.id, 'admin'],
          [bob.id, 'viewer'],
        ],
      );
      // The admins of the workspace see what the operator did there.
      const audit = await api('GET', `/v1/audit?org_id=${team.id}`, undefined, { key: ann.api_key });
      assert.deepEqual(
        // biome-ignore lint/suspicious/noExplicitAny: records have fields of every kind.
        audit.body.data.map(({ operation, actor, object_id, before, after }: any) => [
          ...[operation, actor.kind, object_id, before?.role, after.role ?? after.name],
        ]),
        [
          ['member add', 'operator', bob.id, 'admin', 'viewer'],
          ['member add', 'operator', bob.id, undefined, 'admin'],
          ['workspace create', 'operator', team.id, undefined, 'A Team'],
        ],
      );
      const keys = await api('GET', '/v1/audit', undefined, { key: bob.api_key });
      assert.deepEqual(
        keys.body.data.map(({ operation, object_id }: { operation: string; object_id: string }) => [
          operation,
          object_id,
        ]),
        [['key create', second.id]],
      );
      // Without --owner a workspace belongs to the first admin of the instance.
      assert.equal((await api('GET', `/v1/workspaces/${main.id}`)).status, 200);
      assert.equal(
        (await api('GET', '/v1/users/me', undefined, { key: second.api_key })).body.data.id,
        bob.id,
      );

      await administer(async () => {
        const users = await adminJson(place, 'user', 'list');
        assert.deepEqual(
          users.map(({ username, is_admin }: { username: string; is_admin: boolean }) => [
            username,
            is_admin,
          ]),
          [
            ['admin', true],
            ['carl', false],
            ['ann', false],
            ['bob', false],
          ],
        );
        const workspaces = await adminJson(place, 'workspace', 'list');
        assert.deepEqual(
          workspaces.map(({ name, members }: { name: string; members: number }) => [name, members]),
          [
            ['Main', 1],
            ['A Team', 2],
            ['Second', 1],
          ],
        );
        const keys = await adminJson(place, 'key', 'list', '--user', 'bob');
        assert.deepEqual(
          keys.map(({ name }: { name: string }) => name),
          ['first key', 'laptop'],
        );
        assert.doesNotMatch(JSON.stringify(keys), new RegExp(`${second.api_key}|${bob.api_key}`));
        assert.deepEqual(await adminJson(place, 'key', 'revoke', '--id', second.id), {
          id: second.id,
          revoked: true,
        });
        const again = await admin(place, 'key', 'revoke', '--id', second.id);
        assert.deepEqual([again.code, again.stdout], [1, '']);
      });
      assert.equal((await api('GET', '/v1/users/me', undefined, { key: second.api_key })).status, 401);
      for (const key of [bob.api_key, testApiKey])
        assert.equal((await api('GET', '/v1/users/me', undefined, { key })).status, 200);
    });
  });
}
