import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { GitRepository, GitServer, gitSkip } from '../support/git-repository.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const folderOf = 'components/demo/actions/greet';
/** Its app file and its helper say which commit they are of. */
const greet = (version: string) => `import demo from "../../demo.app.mjs";
import { mark } from "../common/mark.mjs";
import { other } from "../../../other/common/other.mjs";
export default { key: "demo-greet", name: "Greet", version: "${version}", type: "action", description: "Greets",
  props: { demo, who: { type: "string" } },
  run() { return [this.who, "${version}", this.demo.word(), mark, other].join(" "); } };`;
const app = (word: string) =>
  `export default { type: "app", app: "demo", methods: { word() { return "${word}"; } } };`;
const mark = (text: string) => `export const mark = "${text}";`;

for (const dialect of storesOfStory(import.meta.filename, process.env[turnVariable])) {
  const skip = gitSkip() || (dialect === 'postgres' && postgresSkip());
  describe(`components of a Git repository, on ${dialect}`, { skip }, () => {
    let folder: TempFolder;
    let database: TestDatabase | undefined;
    let repository: GitRepository;
    let git: GitServer;
    let service: Millrace;
    const commits: string[] = [];

    const start = async (environment: Record<string, string> = {}) => {
      service = await Millrace.start({
        dataFolder: join(folder.path, 'data'),
        ...(database === undefined ? {} : { databaseUrl: database.url }),
        environment: { MILLRACE_EXTRA_CA: join(folder.path, 'ca.pem'), ...environment },
      });
    };
    const read = async (id: string) =>
      (await service.api('GET', `/v1/registry/repositories/${id}`)).body.data;
    const settled = (id: string) =>
      waitFor(async () => {
        const one = await read(id);
        return (one.state === 'ready' || one.state === 'failing') && one;
      });
    const add = async (body: Record<string, unknown>) => {
      const { status, body: answer } = await service.api('POST', '/v1/registry/repositories', body);
      assert.equal(status, 200, JSON.stringify(answer));
      return settled(answer.data.id);
    };
    const run = async (id: string) => {
      const { body } = await service.api('POST', '/v1/actions/run', {
        id,
        configured_props: { demo: {}, who: 'Ada' },
      });
      return body.data?.ret ?? body.ret ?? body.error ?? body;
    };
    const millrace = (...args: string[]) =>
      new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
        const env = {
          ...{ PATH: process.env.PATH, HOME: folder.path, XDG_CONFIG_HOME: folder.path },
          ...{ MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey },
        };
        execFile(process.execPath, [programFile('cli/main.ts'), ...args], { env }, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
        );
      });

    before(async () => {
      folder = await createTempFolder('git-story');
      repository = await GitRepository.create();
      commits.push(
        await repository.commit({
          'components/demo/demo.app.mjs': app('first'),
          'components/demo/package.json': '{ "name": "@demo/demo", "dependencies": {} }',
          'components/demo/actions/common/mark.mjs': mark('one'),
          'components/other/common/other.mjs': 'export const other = "from another app";',
          [`${folderOf}/greet.mjs`]: greet('0.0.1'),
        }),
        await repository.commit({
          'components/demo/demo.app.mjs': app('second'),
          'components/demo/actions/common/mark.mjs': mark('two'),
          [`${folderOf}/greet.mjs`]: greet('0.0.2'),
          'components/demo/actions/broken/broken.mjs': 'export default { key: "demo-broken", ',
        }),
      );
      git = await GitServer.start({ 'components.git': repository.path });
      await writeFile(join(folder.path, 'ca.pem'), git.authority);
      if (dialect === 'postgres') database = await borrowTestDatabase();
      await start();
    });
    after(async () => {
      await service?.stop();
      await git?.[Symbol.asyncDispose]();
      await repository?.[Symbol.asyncDispose]();
      await database?.drop();
      await folder?.remove();
    });

    test('each version of the history runs as its commit had it, and is pinned to that commit', async () => {
      const added = await add({ url: git.urlOf('components.git') });
      assert.deepEqual(
        [added.state, added.commit, added.components, added.versions, added.commits],
        ['ready', commits[1], 1, 2, 2],
        JSON.stringify(added),
      );
      assert.deepEqual(
        added.problems.map(({ path }: { path: string }) => path),
        ['components/demo/actions/broken/broken.mjs'],
      );
      const { body: list } = await service.api('GET', '/v1/components?q=demo-greet');
      assert.deepEqual(list.data[0].repository, { url: git.urlOf('components.git'), commit: commits[1] });
      assert.deepEqual([list.data[0].version, list.data[0].package], ['0.0.2', null]);

      const { body: old } = await service.api('GET', '/v1/components/registry/demo-greet@0.0.1');
      assert.deepEqual(old.data.git, {
        url: git.urlOf('components.git'),
        commit: commits[0],
        path: `${folderOf}/greet.mjs`,
      });
      assert.equal(await run('demo-greet@0.0.1'), 'Ada 0.0.1 first one from another app');
      assert.equal(await run('demo-greet'), 'Ada 0.0.2 second two from another app');

      const made = await service.createWorkflow({
        steps: [{ namespace: 'greet', component: 'demo-greet@0.0.1', props: { demo: {}, who: 'Ada' } }],
      });
      assert.equal(made.steps[0].savedComponent.id, old.data.id);

      const unknown = await service.api('POST', '/v1/sources', { key: 'demo-greet@0.0.9' });
      assert.equal(unknown.status, 404);
      assert.match(unknown.body.error, /"demo-greet@0\.0\.9"; there is version "0\.0\.2", "0\.0\.1"/);
    });

    test('the command line adds, lists, updates and removes repositories', async () => {
      const clone = ['--git', repository.path, '--ref', 'main'];
      const added = await millrace('registry', 'add', ...clone);
      assert.deepEqual(
        [added.code, added.stdout.trim()],
        [0, `${repository.path} at main: 1 component, 2 versions in 2 commits, 1 file left out.`],
        added.stderr,
      );
      const updated = await millrace('registry', 'update', git.urlOf('components.git'));
      assert.match(updated.stderr, /no new commits/);
      const missing = await millrace('registry', 'add', '--git', git.urlOf('nowhere.git'));
      assert.deepEqual([missing.code, /answers 404/.test(missing.stderr)], [1, true], missing.stderr);
      assert.match(missing.stderr, /It was not added/);
      const list = await millrace('registry', 'list');
      assert.match(
        list.stdout,
        new RegExp(`${repository.path} at main +${commits[1]?.slice(0, 12)} +git +1 +1 +ready`),
      );
      assert.doesNotMatch(list.stdout + list.stderr, /nowhere/, 'what was never read is not kept');
      const twice = ['--git', repository.path];
      assert.equal((await millrace('registry', 'add', ...twice)).code, 0);
      const which = await millrace('registry', 'remove', ...twice);
      const [, id = ''] = /(repo_\w+) \(the default branch\)/.exec(which.stderr) ?? [];
      assert.match(which.stderr, /2 repositories with this URL: .*repo_\w+ \(main\)/);
      assert.equal((await millrace('registry', 'remove', id)).code, 0);
      assert.equal((await millrace('registry', 'remove', ...clone)).code, 0);
      const gone = await millrace('registry', 'remove', ...clone);
      assert.match(gone.stderr, /the registry has no repository/);
    });

    test('an update continues after a kill of the service in the middle of a download', async () => {
      const { body } = await service.api('GET', '/v1/registry/repositories');
      const { id } = body.data.find(({ url }: { url: string }) => url === git.urlOf('components.git'));
      await repository.commit({ [`${folderOf}/greet.mjs`]: greet('0.0.3') });
      const downloads = Promise.withResolvers<void>();
      let posts = 0;
      git.intercept = (path) => {
        posts += path.endsWith('/git-upload-pack') ? 1 : 0;
        if (posts === 2) downloads.resolve();
        // The pack never comes.
        return posts === 2;
      };
      const begun = await service.api('POST', `/v1/registry/repositories/${id}/update`);
      assert.equal(begun.body.data.state, 'waiting');
      await downloads.promise;
      assert.equal((await read(id)).state, 'updating');
      // A second request changes nothing: one update at a time.
      assert.equal(
        (await service.api('POST', `/v1/registry/repositories/${id}/update`)).body.data.state,
        'updating',
      );
      await service.kill();
      git.intercept = () => false;
      await start();
      const done = await settled(id);
      assert.deepEqual([done.state, done.versions], ['ready', 3], JSON.stringify(done));
      assert.equal(await run('demo-greet'), 'Ada 0.0.3 second two from another app');
    });

    test('what was built runs on when the server, the clone and the repository are gone', async () => {
      const { body } = await service.api('GET', '/v1/registry/repositories');
      const { id } = body.data.find(({ url }: { url: string }) => url === git.urlOf('components.git'));
      const before = git.requests.length;
      assert.equal((await service.api('DELETE', `/v1/registry/repositories/${id}`)).status, 204);
      assert.equal(await run('demo-greet@0.0.1'), 'Ada 0.0.1 first one from another app');
      assert.equal(git.requests.length, before);
      assert.equal((await service.api('GET', `/v1/registry/repositories/${id}`)).status, 404);
    });

    test('the command on the data folder reads repositories itself, while the service is stopped', async () => {
      await service.stop();
      const admin = (...args: string[]) =>
        new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
          const env = {
            ...{ ...process.env, INIT_CWD: folder.path, MILLRACE_DATA: join(folder.path, 'data') },
            ...{ MILLRACE_DATABASE_URL: database?.url ?? '', MILLRACE_EGRESS: 'public,local' },
            MILLRACE_EXTRA_CA: join(folder.path, 'ca.pem'),
          };
          execFile(
            process.execPath,
            [programFile('src/admin.ts'), ...args],
            { env },
            (error, stdout, stderr) =>
              resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
          );
        });
      const url = git.urlOf('components.git');
      const added = await admin('registry', 'add', '--git', url);
      assert.deepEqual(
        [added.code, added.stdout.split('\n')[0]],
        [0, `${url}: 1 component, 3 versions in 3 commits`],
        added.stderr,
      );
      const both = await admin('registry', 'add', '@demo/demo', '--git', url);
      assert.match(both.stderr, /not both/);
      await start();
      assert.equal(await run('demo-greet@0.0.2'), 'Ada 0.0.2 second two from another app');
    });
  });
}
