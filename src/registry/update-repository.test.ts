import assert from 'node:assert/strict';
import { mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { GitRepository, GitServer, gitSkip } from '../../test/support/git-repository.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { insertWanted } from './manage-repositories.ts';
import { findRepository, findRepositoryVersions, listHeadVersions } from './repository-store.ts';
import { markFailing, type UpdateOptions, updateRepository } from './update-repository.ts';

const action = (key: string, version: string, more = '') =>
  `export default { key: "${key}", name: "Name of ${key}", type: "action", version: "${version}", ${more} run() {} };\n`;
const app = (slug: string) => `export default { type: "app", app: "${slug}" };\n`;
const never = new AbortController().signal;
const fetcher = new PackageFetcher({ cacheFolder: '/nowhere', registry: '', logger: silentLogger });
after(() => fetcher.close());

forEachStore((fixture) => {
  describe(`the index of a Git repository, on ${fixture.dialect}`, { skip: gitSkip() }, () => {
    async function setUp(repositories: Record<string, string>) {
      const server = await GitServer.start(repositories);
      const folder = await createTempFolder('packs');
      const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
      const dispatcher = createGuardedDispatcher({ policy, extraCa: server.authority });
      const options: UpdateOptions = {
        ...{ store: fixture.store, clock: systemClock, logger: silentLogger, fetcher },
        repository: { dispatcher, logger: silentLogger, folder: folder.path },
      };
      const add = async (url: string, ref = '') =>
        (await insertWanted(options, { url, ref, userId: null })).id;
      const update = async (id: string) => {
        await updateRepository(options, id, never);
        const row = await findRepository(fixture.store.read, id);
        assert.ok(row);
        return row;
      };
      const versionsOf = async (key: string) =>
        Object.fromEntries(
          (await findRepositoryVersions(fixture.store.read, key)).map((one) => [
            one.version,
            [one.commit_id, one.path, Number(one.is_head)] as const,
          ]),
        );
      const close = async () => {
        await dispatcher.destroy();
        await server[Symbol.asyncDispose]();
        await folder[Symbol.asyncDispose]();
      };
      return { server, options, add, update, versionsOf, [Symbol.asyncDispose]: close };
    }

    for (const way of ['a server that leaves out files', 'a server that cannot', 'a clone'] as const) {
      test(`has each version with the first commit that has it, by ${way}`, async () => {
        await using repository = await GitRepository.create();
        if (way === 'a server that cannot') await repository.git('config', 'uploadpack.allowFilter', 'false');
        await using it = await setUp({ 'components.git': repository.path });
        const file = 'components/demo/actions/send/send.mjs';
        const first = await repository.commit({
          'components/demo/demo.app.mjs': app('demo_app'),
          [file]: action('demo-send', '0.0.1'),
          'components/demo/actions/common/base.mjs': action('demo-base', '0.0.1'),
        });
        await repository.commit({ [file]: action('demo-send', '0.0.1', 'description: "Sends",') });
        const second = await repository.commit({ [file]: action('demo-send', '0.1.0') });
        const moved = 'components/demo/actions/send-it/send-it.mjs';
        const third = await repository.commit({ [file]: null, [moved]: action('demo-send', '0.2.0') });
        await repository.commit({ 'README.md': 'Nothing of components' });

        const url = way === 'a clone' ? repository.path : it.server.urlOf('components.git');
        const id = await it.add(url);
        const row = await it.update(id);
        assert.deepEqual(
          [row.state, row.error, Number(row.components), Number(row.versions)],
          ['ready', null, 1, 3],
        );
        assert.equal(Number(row.commits), 5);
        assert.deepEqual(await it.versionsOf('demo-send'), {
          '0.0.1': [first, file, 0],
          '0.1.0': [second, file, 0],
          '0.2.0': [third, moved, 1],
        });
        assert.deepEqual(await it.versionsOf('demo-base'), {});
        const [head] = await listHeadVersions(fixture.store.read);
        assert.deepEqual([head?.app, head?.kind], ['demo_app', 'actions']);

        // Only what is new is fetched, and what was pinned stays.
        const fourth = await repository.commit({ [moved]: action('demo-send', '0.3.0') });
        it.server.requests.length = 0;
        const later = await it.update(id);
        assert.deepEqual([later.state, Number(later.versions), Number(later.commits)], ['ready', 4, 6]);
        assert.deepEqual(await it.versionsOf('demo-send'), {
          '0.0.1': [first, file, 0],
          '0.1.0': [second, file, 0],
          '0.2.0': [third, moved, 0],
          '0.3.0': [fourth, moved, 1],
        });
        const asked = it.server.requests.map(({ body }) => body).join('');
        if (way !== 'a clone') assert.match(asked, new RegExp(`have ${row.commit_id}`));
        assert.equal(asked.includes('filter blob:none'), way === 'a server that leaves out files');
      });
    }

    test('what a merge brought counts from the merge, and what only its branch had is found too', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      const file = 'actions/send/send.mjs';
      await repository.commit({ [file]: action('demo-send', '0.0.1') });
      await repository.git('checkout', '-q', '-b', 'side');
      const onSide = await repository.commit({ [file]: action('demo-send', '0.0.2') });
      await repository.commit({ [file]: action('demo-send', '0.0.3') });
      await repository.git('checkout', '-q', 'main');
      await repository.commit({ 'README.md': 'Something else' });
      await repository.git('merge', '-q', '--no-ff', '-m', 'merge', 'side');
      const merge = await repository.git('rev-parse', 'HEAD');
      await it.update(await it.add(it.server.urlOf('components.git')));
      const versions = await it.versionsOf('demo-send');
      assert.deepEqual([versions['0.0.2']?.[0], versions['0.0.3']?.[0]], [onSide, merge]);
    });

    test('a rewritten ref takes what it no longer has, and the rest stays', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      const file = 'actions/send/send.mjs';
      const first = await repository.commit({ [file]: action('demo-send', '0.0.1') });
      await repository.commit({ [file]: action('demo-send', '0.0.2') });
      const id = await it.add(it.server.urlOf('components.git'));
      await it.update(id);
      await repository.git('reset', '-q', '--hard', first);
      const other = await repository.commit({ [file]: action('demo-send', '0.0.3') });
      const row = await it.update(id);
      assert.deepEqual([row.state, Number(row.commits)], ['ready', 2]);
      assert.deepEqual(await it.versionsOf('demo-send'), {
        '0.0.1': [first, file, 0],
        '0.0.3': [other, file, 1],
      });
      const rows = fixture.store.read.selectFrom('registry_versions').select('version');
      const stored = await rows.where('repository_id', '=', id).execute();
      assert.equal(stored.length, 2, 'nothing of the index before is left');
    });

    test('a branch, a tag and a commit are refs; an unknown one is reported, and the index stays', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      const first = await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.1') });
      await repository.git('tag', '-a', '-m', 'release', 'v1');
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.2') });
      const url = it.server.urlOf('components.git');
      for (const ref of ['v1', first]) {
        const row = await it.update(await it.add(url, ref));
        assert.deepEqual([row.error, row.commit_id, Number(row.versions)], [null, first, 1], ref);
      }
      const id = await it.add(url, 'main');
      assert.equal(Number((await it.update(id)).versions), 2);
      await repository.git('branch', '-m', 'main', 'trunk');
      const gone = await it.update(id);
      assert.deepEqual(
        [gone.state, gone.error_code, Number(gone.versions)],
        ['failing', 'repository_refused', 2],
      );
      assert.match(gone.error ?? '', /no branch, tag or commit "main"/);
      assert.ok((await it.versionsOf('demo-a'))['0.0.2']);
    });

    test('links, other repositories, hooks, paths out of the tree and large files are not read', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      const good = await repository.commit({
        'actions/good/good.mjs': action('demo-good', '0.0.1'),
        'actions/link/link.mjs': '-> ../good/good.mjs',
        'actions/passwd/passwd.mjs': '-> /etc/passwd',
        'actions/large/large.mjs': `${action('demo-large', '0.0.1')}//${'x'.repeat(3 * 1024 * 1024)}`,
        'actions/broken/broken.mjs': 'export default { key: "demo-broken", ',
        'actions/binary/binary.mjs': Buffer.from([0, 1, 2, 255]),
        'actions/two/two.mjs': action('demo-good', '0.0.9'),
        'actions/none/none.mjs': 'export default { key: "demo-none", type: "action", run() {} };',
        '.git/hooks/post-checkout': '#!/bin/sh\ntouch /tmp/must-not-be',
      });
      const blob = await repository.git('rev-parse', `${good}:actions/good/good.mjs`);
      const actions = await repository.git('rev-parse', `${good}:actions`);
      const hidden = await repository.tree([['100644', 'hidden.mjs', blob]]);
      const up = await repository.tree([['40000', 'actions', actions]]);
      const bad = await repository.tree([
        ['40000', '..', up],
        ['40000', '.git', up],
        ['100644', 'a/b.mjs', blob],
        ['40000', 'actions', actions],
        ['160000', 'module', good],
        ['40000', 'node_modules', up],
        ['40000', 'sources', hidden],
      ]);
      const commit = await repository.git('commit-tree', '-m', 'hostile', '-p', good, bad);
      await repository.git('update-ref', 'refs/heads/main', commit);
      for (const url of [it.server.urlOf('components.git'), repository.path]) {
        const row = await it.update(await it.add(url));
        assert.equal(row.state, 'ready', row.error ?? '');
        const paths = (await findRepositoryVersions(fixture.store.read, 'demo-good')).map(({ path }) => path);
        assert.deepEqual([...new Set(paths)].sort(), ['actions/good/good.mjs', 'actions/two/two.mjs']);
        assert.deepEqual(await it.versionsOf('demo-large'), {});
        const problems = (JSON.parse(row.problems) as { path: string; message: string }[]).map(
          ({ path }) => path,
        );
        assert.deepEqual(problems.sort(), [
          'actions/broken/broken.mjs',
          'actions/none/none.mjs',
          'actions/two/two.mjs',
          'sources/hidden.mjs',
        ]);
      }
    });

    test('a tree that names itself again and again ends with a reason', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.1') });
      let tree = await repository.git('rev-parse', 'HEAD:actions/a');
      for (let level = 0; level < 12; level += 1)
        tree = await repository.tree(
          [0, 1, 2, 3, 4, 5, 6, 7].map((name) => ['40000', `${name}`, tree] as const),
        );
      const commit = await repository.git('commit-tree', '-m', 'bomb', '-p', 'HEAD', tree);
      await repository.git('update-ref', 'refs/heads/main', commit);
      const row = await it.update(await it.add(it.server.urlOf('components.git')));
      assert.deepEqual([row.state, row.error_code], ['failing', 'repository_refused']);
      assert.match(row.error ?? '', /takes more than 2000000 entries of folders/);
    });

    test('what a server sends is checked: damaged packs, other objects, errors, pages, and too much of it', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.1') });
      const id = await it.add(it.server.urlOf('components.git'));
      const frame = (bytes: Buffer | string) =>
        Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), Buffer.from(bytes)]);
      const packOf = (pack: Buffer) =>
        Buffer.concat([
          frame('packfile\n'),
          frame(Buffer.concat([Buffer.from([1]), pack])),
          Buffer.from('0000'),
        ]);
      const header = (count: number) => {
        const bytes = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1');
        bytes.writeUInt32BE(count, 8);
        return bytes;
      };
      const empty = packOf(Buffer.concat([header(0), Buffer.alloc(20)]));
      // A delta against an offset before the pack, and an object that claims to be 2 GB.
      const behind = packOf(Buffer.concat([header(1), Buffer.from([0x61, 0x7f]), Buffer.alloc(40)]));
      const claims = packOf(
        Buffer.concat([header(1), Buffer.from([0xbf, 0xff, 0xff, 0xff, 0x7f]), Buffer.alloc(40)]),
      );
      const answers: [answer: string | Buffer, status: number, reason: RegExp, code?: string][] = [
        [empty, 200, /has no commit/],
        [packOf(header(4_000_000_000)), 200, /damaged/],
        [behind, 200, /damaged/],
        [claims, 200, /larger than 128 MB/],
        [packOf(Buffer.from('no pack at all, but long enough')), 200, /damaged/],
        [
          frame('ERR access denied\x1b[31m\n'),
          200,
          /the server ended the request with "access denied \[31m": check the URL and the ref; .* clone it/,
        ],
        ['<!doctype html>', 200, /does not speak the protocol of Git: give the URL that git clone takes/],
        ['00', 200, /ended early/],
        ['', 200, /sent nothing: try again, or clone it/],
        ['', 302, /answers 302: give the URL/],
        ['', 404, /answers 404: no public repository has this URL\. Check it; .* clone it on the machine/],
        ['', 503, /answers 503: try again later/, 'repository_unreachable'],
      ];
      for (const [answer, status, reason, code = 'repository_refused'] of answers) {
        let posts = 0;
        it.server.intercept = (path, respond) => {
          if (!path.endsWith('/git-upload-pack')) return false;
          posts += 1;
          if (posts === 1) return false;
          respond(status, answer);
          return true;
        };
        const row = await it.update(id);
        assert.match(row.error ?? '', reason);
        assert.deepEqual([row.state, row.error_code], ['failing', code], String(reason));
      }
      it.server.intercept = (path, respond) => {
        if (!path.includes('/info/refs')) return false;
        respond(200, '001e# service=git-upload-pack\n0000000eversion 1\n0000');
        return true;
      };
      assert.match((await it.update(id)).error ?? '', /does not speak version 2/);
      it.server.intercept = (path, respond) => {
        if (path.includes('/info/refs')) respond(302, '', { location: '/page' });
        else if (path === '/page') respond(200, '000eversion 2\n0000');
        return true;
      };
      assert.match((await it.update(id)).error ?? '', /redirects to something else/);
      await markFailing(it.options, id, { reason: 'it says \0 a lot', code: 'repository_refused' });
      assert.equal((await findRepository(fixture.store.read, id))?.error, 'it says  a lot');
      it.server.intercept = () => false;
      it.options.repository.limits = { historyBytesMax: 100 };
      assert.match((await it.update(id)).error ?? '', /larger than 100 bytes: clone it on the machine/);
      it.options.repository.limits = {};
      assert.equal((await it.update(id)).state, 'ready');
    });

    test('connections follow the rules of egress', async () => {
      await using it = await setUp({});
      const dispatcher = createGuardedDispatcher({
        policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
      });
      it.options.repository.dispatcher = dispatcher;
      const row = await it.update(await it.add(it.server.urlOf('components.git')));
      assert.deepEqual([row.state, row.error_code], ['failing', 'repository_unreachable']);
      assert.equal(it.server.requests.length, 0);
      await dispatcher.destroy();
    });

    test('an update that is stopped in the middle leaves no pack behind, and is made again', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({ 'components.git': repository.path });
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.1') });
      const id = await it.add(it.server.urlOf('components.git'));
      const stop = new AbortController();
      let posts = 0;
      it.server.intercept = (path) => {
        posts += path.endsWith('/git-upload-pack') ? 1 : 0;
        // The pack never comes.
        if (posts === 2) stop.abort(new Error('the service is stopping'));
        return posts === 2;
      };
      await assert.rejects(updateRepository(it.options, id, stop.signal), /the service is stopping/);
      assert.equal((await findRepository(fixture.store.read, id))?.state, 'updating');
      it.server.intercept = () => false;
      assert.equal((await it.update(id)).state, 'ready');
      const left = await readdir(it.options.repository.folder, { recursive: true });
      assert.deepEqual(
        left.filter((name) => name.endsWith('pack') || name.endsWith('part')),
        [`${id}/1.pack`],
      );

      // What is kept may be deleted: the history is fetched as a whole again.
      await rm(it.options.repository.folder, { recursive: true });
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.2') });
      it.server.requests.length = 0;
      assert.equal(Number((await it.update(id)).versions), 2);
      assert.doesNotMatch(it.server.requests.map(({ body }) => body).join(''), /have /);
      // Nor does it matter when it is damaged, and without new commits nothing is fetched.
      await writeFile(join(it.options.repository.folder, id, '1.pack'), 'no pack');
      it.server.requests.length = 0;
      assert.equal((await it.update(id)).state, 'ready');
      assert.equal(it.server.requests.length, 2);
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.3') });
      assert.equal(Number((await it.update(id)).versions), 3);
    });

    test('clones that lead elsewhere are refused, and a shallow one has what it has', async () => {
      await using repository = await GitRepository.create();
      await using it = await setUp({});
      await using folder = await createTempFolder('clones');
      await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.1') });
      const second = await repository.commit({ 'actions/a/a.mjs': action('demo-a', '0.0.2') });
      const at = (name: string) => join(folder.path, name);
      await repository.git('clone', '-q', '--shared', repository.path, at('shared'));
      await repository.git('worktree', 'add', '-q', '-b', 'tree', at('worktree'));
      await symlink(repository.path, at('link'));
      await mkdir(at('stolen'));
      await symlink(join(repository.path, '.git'), join(at('stolen'), '.git'));
      await mkdir(at('nothing'));
      for (const name of ['outside', 'sha256', 'reftable'])
        await repository.git('clone', '-q', repository.path, at(name));
      await rename(join(at('outside'), '.git/objects'), at('objects'));
      await symlink(at('objects'), join(at('outside'), '.git/objects'));
      const set = (name: string, ...setting: string[]) =>
        repository.git('config', '--file', join(at(name), '.git/config'), ...setting);
      await set('sha256', 'extensions.objectformat', 'sha256');
      await set('reftable', 'extensions.refstorage', 'reftable');
      for (const [name, reason] of [
        ['outside', /has no commit/],
        ['sha256', /uses SHA-256 object names/],
        ['reftable', /keeps its refs as reftable/],
        ['shared', /borrows objects/],
        ['worktree', /is a worktree/],
        ['stolen', /link in the place of its folder/],
        ['nothing', /is no clone/],
        ['missing', /is not there/],
      ] as const)
        assert.match((await it.update(await it.add(at(name)))).error ?? '', reason);
      await repository.git('clone', '-q', '--depth', '1', `file://${repository.path}`, at('shallow'));
      await it.update(await it.add(at('shallow')));
      assert.deepEqual(await it.versionsOf('demo-a'), { '0.0.2': [second, 'actions/a/a.mjs', 1] });
    });
  });
});
