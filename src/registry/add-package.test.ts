import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { systemClock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import {
  addFolder,
  addPackage,
  type RegistryOptions,
  removePackages,
  updatePackages,
} from './add-package.ts';
import { ComponentCatalogue } from './component-catalogue.ts';
import { LocalRegistry } from './local-registry.ts';
import { allPackages } from './package-store.ts';

const action = (key: string, version = '0.0.1') =>
  `export default { key: "${key}", name: "Of ${key}", type: "action", version: "${version}", run() {} };`;

/** Packages as a registry would have them, without one. */
function fetcherOf(versions: Record<string, string>) {
  const reader = new PackageFetcher({ cacheFolder: '/nowhere', registry: '', logger: silentLogger });
  return {
    scan: reader.scan.bind(reader),
    close: () => reader.close(),
    download: async (name: string) => {
      const version = versions[name];
      if (version === undefined) throw new UnavailableError('registry_unreachable', 'it is not there');
      const files = [{ path: 'actions/a/a.mjs', text: action(`${name}-a`, version) }];
      return { name, version, integrity: `sha512-${version}`, files };
    },
  };
}

forEachStore((fixture) => {
  const partsOf = (store: Store, fetcher: RegistryOptions['fetcher']) => ({
    store,
    clock: systemClock,
    fetcher,
  });
  const kept = async () =>
    (await allPackages(fixture.store.read)).map(({ name, version }) => [name, version]);

  describe('the packages of the registry', () => {
    test('a folder that is added twice at the same time is there once, whole', async () => {
      await using folder = await createTempFolder('folder');
      const fetcher = fetcherOf({});
      const path = join(folder.path, 'actions/a');
      await mkdir(path, { recursive: true });
      await writeFile(join(path, 'a.mjs'), action('twice-a'));
      const stores = [fixture.store, fixture.dialect === 'postgres' ? await fixture.open() : fixture.store];
      const both = await Promise.all(stores.map((store) => addFolder(partsOf(store, fetcher), folder.path)));
      for (const one of both) assert.deepEqual(one.keys.length, 1, JSON.stringify(one));
      assert.equal(both[0]?.id, both[1]?.id);
      assert.equal((await kept()).length, 1);
      await fetcher.close();
    });

    test('a folder that is added with other content at the same time is there once: what was added last', async () => {
      await using folder = await createTempFolder('folder');
      const fetcher = fetcherOf({});
      const path = join(folder.path, 'actions/a');
      await mkdir(path, { recursive: true });
      const write = (version: string) => writeFile(join(path, 'a.mjs'), action('other-a', version));
      await write('0.0.1');
      const other = fixture.dialect === 'postgres' ? await fixture.open() : fixture.store;
      // Both have read the folder, and found that nothing of it is there, before either writes.
      const arrived: (() => void)[] = [];
      const meeting = {
        ...fetcher,
        scan: async (files: Parameters<typeof fetcher.scan>[0]) => {
          const readings = await fetcher.scan(files);
          await new Promise<void>((resolve) => {
            arrived.push(resolve);
            if (arrived.length === 2) for (const go of arrived) go();
          });
          return readings;
        },
      };
      const readDone = Promise.withResolvers<void>();
      const progress = () => readDone.resolve();
      const first = addFolder({ ...partsOf(fixture.store, meeting), progress }, folder.path);
      await readDone.promise;
      await write('0.0.2');
      await Promise.all([first, addFolder(partsOf(other, meeting), folder.path)]);
      assert.equal((await kept()).length, 1);
      await fetcher.close();
    });

    test('an update of all continues after a package that fails, and says which did', async () => {
      const versions: Record<string, string> = { alpha: '1.0.0', beta: '1.0.0', gamma: '1.0.0' };
      const fetcher = fetcherOf(versions);
      const parts = partsOf(fixture.store, fetcher);
      for (const name of Object.keys(versions)) await addPackage(parts, { name, userId: null });
      versions.gamma = '1.1.0';
      delete versions.alpha;
      const done: string[] = [];
      await assert.rejects(
        updatePackages(parts, undefined, ({ name, now }) => done.push(`${name}@${now.version}`)),
        { code: 'registry_unreachable', message: /^1 of 3 packages could not be updated: alpha: it is not/ },
      );
      assert.deepEqual(done, ['beta@1.0.0', 'gamma@1.1.0']);
      await fetcher.close();
    });

    test('a folder with names that are no text, and files that go away, is added without them', {
      skip: process.platform !== 'linux',
    }, async () => {
      await using folder = await createTempFolder('folder');
      const fetcher = fetcherOf({});
      await mkdir(join(folder.path, 'actions/a'), { recursive: true });
      await writeFile(join(folder.path, 'actions/a/a.mjs'), action('names-a'));
      await writeFile(
        Buffer.concat([Buffer.from(`${folder.path}/actions/`), Buffer.from([0xff, 0xfe])]),
        'x',
      );
      await writeFile(join(folder.path, 'actions/a/new\nline.mjs'), action('names-b'));
      const added = await addFolder(partsOf(fixture.store, fetcher), folder.path);
      assert.deepEqual(
        added.keys.map(({ key }) => key),
        ['names-a'],
      );
      await rm(folder.path, { recursive: true });
      await assert.rejects(
        updatePackages(partsOf(fixture.store, fetcher), folder.path, () => {}),
        {
          message: /^there is no folder /,
        },
      );
      await fetcher.close();
    });

    test('the catalogue has what there is, also when a package comes and goes while it is read', async () => {
      const fetcher = fetcherOf({ stays: '1.0.0', flits: '1.0.0' });
      const parts = partsOf(fixture.store, fetcher);
      await addPackage(parts, { name: 'stays', userId: null });
      let readings = 0;
      const { read } = fixture.store;
      // Comes after the catalogue asked which packages there are, and before it reads them.
      const passing = {
        get read() {
          readings += 1;
          if (readings !== 2) return read;
          const selectFrom = (table: 'registry_components') => {
            const query = read.selectFrom(table);
            return new Proxy(query, { get: (target, name) => late(target, name) });
          };
          return { selectFrom } as unknown as typeof read;
        },
      };
      const late = (target: object, name: string | symbol): unknown => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]) => {
          const call = () => Reflect.apply(value, target, given) as object;
          if (name !== 'execute') return new Proxy(call(), { get: (next, of) => late(next, of) });
          return addPackage(parts, { name: 'flits', userId: null }).then(call);
        };
      };
      const catalogue = new ComponentCatalogue({
        store: passing,
        local: new LocalRegistry('/nowhere'),
        fetcher,
      });
      const keys = async () => (await catalogue.find({})).map(({ entry }) => entry.key);
      assert.deepEqual(await keys(), ['flits-a', 'stays-a']);
      await removePackages({ store: fixture.store }, 'flits', undefined);
      assert.deepEqual(await keys(), ['stays-a']);
      await fetcher.close();
    });
  });
});
