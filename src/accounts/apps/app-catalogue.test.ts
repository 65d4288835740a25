import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SettingsError } from '#config/read-settings.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { createTempFolder, type TempFolder } from '../../../test/support/temp-folder.ts';
import { AppCatalogue } from './app-catalogue.ts';
import { readAppFiles } from './app-files.ts';
import { appIdOf } from './app-id.ts';
import { createApp, deleteApp, replaceApp } from './manage-apps.ts';
import { parseApp } from './parse-app.ts';

const clock = { now: () => 1_700_000_000_000 };
const appNamed = (slug: string, name: string) => parseApp({ slug, name, auth_type: 'keys' });

describe('the catalogue', () => {
  let folder: TempFolder;
  const folders: string[] = [];

  before(async () => {
    folder = await createTempFolder('apps');
    for (const [part, slugs] of [
      ['ours', ['github', 'gitlab']],
      ['operator', ['gitlab', 'intranet']],
    ] as const) {
      folders.push(join(folder.path, part));
      await mkdir(join(folder.path, part));
      for (const slug of slugs) {
        const app = { slug, name: `${slug} of ${part}`, auth_type: 'keys' };
        await writeFile(join(folder.path, part, `${slug}.json`), JSON.stringify(app));
      }
    }
    await writeFile(join(folder.path, 'operator', 'README.md'), 'not an app');
  });
  after(() => folder.remove());

  forEachStore((here) => {
    const load = () => AppCatalogue.load({ store: here.store, folders, logger: silentLogger });

    test('has the apps of files, those of the operator in the place of ours', async () => {
      const catalogue = await load();
      assert.deepEqual(
        (await catalogue.list([])).map((entry) => entry.app.name),
        ['github of ours', 'gitlab of operator', 'intranet of operator'],
      );
      assert.equal((await catalogue.find(appIdOf('intranet'), []))?.slug, 'intranet');
      assert.equal(await catalogue.find('nothing', []), undefined);
    });

    test('shows custom apps to their owner only, and what they are now', async () => {
      const catalogue = await load();
      const tools = { catalogue, clock };
      const owner = { ownerId: 'o_1', userId: 'u_1' };
      await here.store.transaction((tx) => createApp(tx, tools, appNamed('acme', 'Acme'), owner));
      const other = await load();
      assert.equal((await other.find('acme', ['u_9', 'o_1']))?.name, 'Acme');
      assert.equal((await other.find(appIdOf('acme'), ['o_1']))?.name, 'Acme');
      assert.equal(await other.find('acme', ['o_2']), undefined);
      assert.equal((await other.list(['o_2'])).length, 3);

      const own = { ownerId: 'o_1', slug: 'acme' };
      await here.store.transaction((tx) => replaceApp(tx, tools, appNamed('acme', 'Acme 2'), own));
      assert.equal((await other.find('acme', ['o_1']))?.name, 'Acme 2');
      await here.store.transaction((tx) => deleteApp(tx, own));
      assert.equal(await other.find('acme', ['o_1']), undefined);
    });

    test('refuses a slug that is taken, by the service or by the owner', async () => {
      const catalogue = await load();
      const create = (slug: string, ownerId: string) =>
        here.store.transaction((tx) =>
          createApp(tx, { catalogue, clock }, appNamed(slug, 'X'), { ownerId, userId: 'u_1' }),
        );
      await assert.rejects(create('github', 'o_1'), { code: 'conflict' });
      await create('acme', 'o_1');
      await create('acme', 'o_2');
      await assert.rejects(create('acme', 'o_1'), { code: 'conflict' });
    });

    test('refuses a definition that is too large to be read with all the others for every list', async () => {
      const catalogue = await load();
      const described = (characters: number) =>
        parseApp({
          ...{ slug: 'large', name: 'Large', auth_type: 'keys' },
          custom_fields: Array.from({ length: 50 }, (_, index) => ({
            name: `field_${index}`,
            description: 'x'.repeat(characters),
          })),
        });
      const owner = { ownerId: 'o_1', userId: 'u_1' };
      const add = (app: ReturnType<typeof parseApp>) =>
        here.store.transaction((tx) => createApp(tx, { catalogue, clock }, app, owner));
      await assert.rejects(add(described(2_000)), { code: 'invalid_parameter' });
      await add(described(200));
      const own = { ownerId: 'o_1', slug: 'large' };
      const change = here.store.transaction((tx) => replaceApp(tx, { clock }, described(2_000), own));
      await assert.rejects(change, { code: 'invalid_parameter' });
    });

    test('takes the app of the first owner that has it, and an own one before that of a file', async () => {
      const before = await AppCatalogue.load({ store: here.store, folders: [], logger: silentLogger });
      for (const ownerId of ['o_1', 'u_1']) {
        await here.store.transaction((tx) =>
          createApp(tx, { catalogue: before, clock }, appNamed('gitlab', ownerId), {
            ownerId,
            userId: 'u_1',
          }),
        );
      }
      // A newer version of the service ships an app of the same slug.
      const catalogue = await load();
      assert.equal((await catalogue.find('gitlab', ['u_1', 'o_1']))?.name, 'u_1');
      assert.equal((await catalogue.find('gitlab', ['o_1', 'u_1']))?.name, 'o_1');
      assert.equal((await catalogue.find('gitlab', ['o_2']))?.name, 'gitlab of operator');
    });
  });

  test('names every broken file and the place in it', async () => {
    const broken = join(folder.path, 'broken');
    await mkdir(broken);
    const keys = { slug: 'a', name: 'A', auth_type: 'keys' };
    await writeFile(join(broken, 'a.json'), JSON.stringify({ ...keys, test_request: { url: 'x' } }));
    await writeFile(join(broken, 'b.json'), JSON.stringify(keys));
    await writeFile(join(broken, 'c.json'), '{"slug": ');
    await writeFile(join(broken, 'd.json'), JSON.stringify({ ...keys, slug: 'd' }));
    await assert.rejects(readAppFiles(broken), (error: unknown) => {
      assert.ok(error instanceof SettingsError);
      const lines = error.message.split('\n').slice(1);
      assert.equal(lines.length, 3, error.message);
      assert.match(lines[0] ?? '', /a\.json: test_request\.url: expected an https URL$/);
      assert.match(lines[1] ?? '', /b\.json: slug: expected b, as the file is named, found a$/);
      assert.match(lines[2] ?? '', /c\.json: not JSON: /);
      return true;
    });
    await assert.rejects(readAppFiles(join(folder.path, 'none')), SettingsError);
  });
});
