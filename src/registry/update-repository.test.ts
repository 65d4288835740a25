import assert from 'node:assert/strict';
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
import { type UpdateOptions, updateRepository } from './update-repository.ts';

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
        tools: { dispatcher, logger: silentLogger, folder: folder.path },
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
      });
    }
  });
});
