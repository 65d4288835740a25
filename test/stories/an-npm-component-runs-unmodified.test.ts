import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CertificateAuthority } from '../support/certificates.ts';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { downloadPackage } from '../support/npm-package.ts';
import { type FolderServer, serveFolder } from '../support/serve-folder.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const token = 'glpat-canary-0123456789';

async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Stands in for GitLab: keeps the hooks that are registered. */
async function startGitlab(authority: CertificateAuthority): Promise<HttpReceiver> {
  return HttpReceiver.start({
    tls: authority.issue(['localhost', '127.0.0.1']),
    answer: (request) => {
      if (request.headers.authorization !== `Bearer ${token}`) {
        return { status: 401, body: { message: '401 Unauthorized' } };
      }
      const operation = `${request.method} ${request.url}`;
      if (operation === 'POST /api/v4/projects/42/hooks') return { status: 201, body: { id: 77 } };
      if (operation === 'DELETE /api/v4/projects/42/hooks/77') return { status: 204 };
      return { status: 404, body: { message: '404 Not Found' } };
    },
  });
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`gitlab-new-issue of @pipedream/gitlab, on ${dialect}`, {
    skip: dialect === 'postgres' && postgresSkip(),
  }, () => {
    let folder: TempFolder;
    let database: TestDatabase | undefined;
    let gitlab: HttpReceiver;
    let files: FolderServer;
    let service: Millrace;

    before(async () => {
      folder = await createTempFolder('gitlab');
      await downloadPackage(folder.path, '@pipedream/gitlab', '0.5.6');
      const authority = new CertificateAuthority();
      await writeFile(join(folder.path, 'ca.pem'), authority.pem);
      gitlab = await startGitlab(authority);
      files = await serveFolder(join(folder.path, 'node_modules'));
      if (dialect === 'postgres') database = await createTestDatabase();
      service = await Millrace.start({
        dataFolder: join(folder.path, 'data'),
        ...(database === undefined ? {} : { databaseUrl: database.url }),
        environment: { MILLRACE_EXTRA_CA: join(folder.path, 'ca.pem') },
      });
    });

    after(async () => {
      await service?.stop();
      await gitlab?.close();
      await files?.close();
      await database?.drop();
      await folder?.remove();
    });

    test('is deployed by URL with an account, registers its hook, takes a call, and its event arrives', async () => {
      const account = await service.api('POST', '/v1/accounts', {
        app: 'gitlab',
        name: 'stand-in',
        credentials: { base_api_url: `localhost:${new URL(gitlab.url).port}`, oauth_access_token: token },
      });
      assert.equal(account.status, 200, JSON.stringify(account.body));

      const source = await service.createSource({
        component_url: `${files.url}/@pipedream/gitlab/sources/new-issue/new-issue.mjs`,
        configured_props: { gitlab: { authProvisionId: account.body.data.id }, projectId: 42 },
      });
      assert.equal(source.name_slug, 'new-issue-instant');
      const registered = gitlab.requests[0]?.json() as { url: string; token: string; issues_events: boolean };
      assert.equal(registered.url, source.configured_props.http.endpoint_url);
      assert.equal(registered.issues_events, true);

      const stream = await service.stream(source.id);
      const forged = await fetch(registered.url, {
        method: 'POST',
        headers: { 'x-gitlab-token': 'wrong' },
        body: '{}',
      });
      assert.equal(forged.status, 404, 'the component refuses a call without its token');
      const issue = {
        object_kind: 'issue',
        user: { name: 'Ada', username: 'ada' },
        changes: { updated_at: { previous: null } },
        object_attributes: { id: 9001, iid: 3, title: 'It works', created_at: '2026-11-20T10:00:00Z' },
      };
      const call = () =>
        fetch(registered.url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-gitlab-token': registered.token },
          body: JSON.stringify(issue),
        });
      assert.equal((await call()).status, 200);
      const live = await stream.message(1);
      assert.deepEqual(live.data.event, issue);
      assert.equal((await call()).status, 200, 'a redelivery is acknowledged');
      const other = { ...issue, object_attributes: { ...issue.object_attributes, id: 9002, iid: 4 } };
      await fetch(registered.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-gitlab-token': registered.token },
        body: JSON.stringify(other),
      });
      assert.equal(
        (await stream.message(2)).data.event.object_attributes.id,
        9002,
        'and dropped as a duplicate',
      );
      stream.close();

      const events = await service.events(source.id);
      assert.deepEqual(
        events.map((event) => event.metadata.summary),
        ['New issue by Ada (ada): #4 It works', 'New issue by Ada (ada): #3 It works'],
      );

      const removed = await service.api('DELETE', `/v1/sources/${source.id}`);
      assert.equal(removed.status, 204, JSON.stringify(removed.body));
      assert.equal(gitlab.requests.at(-1)?.url, '/api/v4/projects/42/hooks/77', 'its hook is taken back');
      assert.ok(!service.output.includes(token), 'the credential is in no log line');
      for (const file of await filesBelow(join(folder.path, 'data'))) {
        const content = await readFile(file).catch(() => Buffer.alloc(0));
        assert.equal(content.indexOf(token), -1, `the credential is not in clear in ${file}`);
      }
    });

    test('a wrong credential fails the creation with what GitLab said, and leaves nothing behind', async () => {
      const account = await service.api('POST', '/v1/accounts', {
        app: 'gitlab',
        credentials: {
          base_api_url: `localhost:${new URL(gitlab.url).port}`,
          oauth_access_token: 'expired-token-0123456789',
        },
      });
      const answer = await service.api('POST', '/v1/sources/', {
        component_url: `${files.url}/@pipedream/gitlab/sources/new-issue/new-issue.mjs`,
        configured_props: { gitlab: { authProvisionId: account.body.data.id }, projectId: 42 },
      });
      assert.equal(answer.status, 400);
      assert.equal(answer.body.code, 'hook_failed');
      assert.match(answer.body.error, /401 Unauthorized/);
      const list = await service.api('GET', '/v1/users/me/sources');
      assert.equal(list.body.page_info.total_count, 0);
    });
  });
}
