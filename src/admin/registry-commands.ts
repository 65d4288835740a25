import { homedir } from 'node:os';
import { join } from 'node:path';
import { readNpmConfig } from '#components/npm-config.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { silentLogger } from '#lib/logger.ts';
import {
  addFolder,
  addPackage,
  type PackageView,
  type RegistryOptions,
  removePackages,
  updatePackages,
  viewPackages,
} from '#registry/add-package.ts';
import { readPackageArgument } from '#registry/package-argument.ts';
import { allPackages } from '#registry/package-store.ts';
import { type AdminCommands, type AdminContext, columnsOf, UsageError } from './admin-command-line.ts';

/** Problems that are printed; JSON has all that are kept. */
const problemsShown = 20;
const packageArgument = '<package[@version] or ./folder>';

/** Commands about the packages that components come from. */
export const registryCommands: AdminCommands = {
  'registry add': {
    argument: { name: packageArgument, isRequired: true },
    required: {},
    optional: {},
    summary:
      'the components of an npm package, or of a folder, for all users of this instance, by their keys',
    api: 'POST /v1/registry/packages, for packages of npm',
    run: (context, _options, argument = '') =>
      withRegistry(context, async (registry) => {
        const wanted = readPackageArgument(context.folder, argument);
        const added =
          'folder' in wanted
            ? await addFolder(registry, wanted.folder)
            : await addPackage(registry, { ...wanted, userId: null });
        return { data: added, lines: linesOf(added) };
      }),
  },
  'registry list': {
    required: {},
    optional: {},
    summary: 'packages, their versions and how many components they have',
    api: 'GET /v1/registry/packages',
    run: async ({ store }) => {
      const packages = await viewPackages(store, await allPackages(store.read));
      return {
        data: packages,
        lines: packages.map(({ name, version, keys, problems }) =>
          columnsOf(`${name}@${version}`, counted(keys.length, 'component'), problemsOf(problems.length)),
        ),
      };
    },
  },
  'registry update': {
    argument: { name: '<package or ./folder>', isRequired: false },
    required: {},
    optional: {},
    summary:
      'the newest version of one package or of all, beside the versions there are; folders are read again',
    api: 'POST /v1/registry/packages without a version',
    run: (context, _options, argument) =>
      withRegistry(context, async (registry) => {
        const wanted = argument === undefined ? undefined : readPackageArgument(context.folder, argument);
        if (wanted !== undefined && 'version' in wanted) {
          throw new UsageError(`registry update takes no version; registry add ${argument} adds one`);
        }
        const name = wanted === undefined ? undefined : 'folder' in wanted ? wanted.folder : wanted.name;
        const updated: PackageView[] = [];
        const lines: string[] = [];
        await updatePackages(registry, name, ({ name: of, before, now }) => {
          updated.push(now);
          const isNew = !before.includes(now.version);
          const line = `${of}: ${isNew ? `${before.join(', ')} → ${now.version}` : `${now.version} is the newest`}`;
          context.progress(line);
          lines.push(line, ...(isNew ? linesOf(now).slice(1) : []));
        });
        return { data: updated, lines };
      }),
  },
  'registry remove': {
    argument: { name: packageArgument, isRequired: true },
    required: {},
    optional: {},
    summary: 'a package, or one version of it; sources and workflows that use its components run on',
    api: 'DELETE /v1/registry/packages',
    run: async (context, _options, argument = '') => {
      const wanted = readPackageArgument(context.folder, argument);
      const [name, version] = 'folder' in wanted ? [wanted.folder, undefined] : [wanted.name, wanted.version];
      const removed = await removePackages(context, name, version);
      return {
        data: removed.map((row) => ({ id: row.id, name: row.name, version: row.version })),
        lines: removed.map((row) => `${row.name}@${row.version} was removed.`),
      };
    },
  },
};

async function withRegistry<T>(
  context: AdminContext,
  work: (registry: RegistryOptions) => Promise<T>,
): Promise<T> {
  const { store, clock, settings, environment, progress } = context;
  const fetcher = new PackageFetcher({
    cacheFolder: join(settings.data, 'components'),
    registry: settings.npmRegistry,
    npmConfig: await readNpmConfig(environment, homedir(), settings.extraCa),
    logger: silentLogger,
  });
  try {
    return await work({ store, clock, fetcher, progress });
  } finally {
    await fetcher.close();
  }
}

function linesOf({ name, version, apps, keys, problems }: PackageView): string[] {
  const shown = problems.slice(0, problemsShown).map(({ path, message }) => `  ${path}: ${message}`);
  const more = problems.length > problemsShown ? [`  and ${problems.length - problemsShown} more`] : [];
  return [
    `${name}@${version}: ${counted(keys.length, 'component')}${apps.length === 0 ? '' : `, ${counted(apps.length, 'app')}`}`,
    ...keys.map((one) => columnsOf(`  ${one.key}@${one.version}`, one.type)),
    ...(problems.length === 0 ? [] : [`${counted(problems.length, 'file')} left out:`, ...shown, ...more]),
  ];
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

function problemsOf(count: number): string {
  return count === 0 ? '' : `${counted(count, 'file')} left out`;
}
