import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { npmThroughProxy, readNpmConfig } from '#components/npm-config.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { EgressProxy } from '#egress/egress-proxy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { CallerError } from '#lib/errors.ts';
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
import {
  insertWanted,
  noRepository,
  type RepositoryView,
  removeRepository,
  viewRepository,
} from '#registry/manage-repositories.ts';
import { forgetRepository } from '#registry/open-repository.ts';
import { readPackageArgument } from '#registry/package-argument.ts';
import { allPackages } from '#registry/package-store.ts';
import { allRepositories, findRepositories } from '#registry/repository-store.ts';
import { readRepositoryUrl } from '#registry/repository-url.ts';
import {
  type RepositoryProgress,
  type UpdateOptions,
  updateRepository,
} from '#registry/update-repository.ts';
import type { RegistryRepositoryTable } from '#storage/tables/registry-tables.ts';
import {
  type AdminCommands,
  type AdminContext,
  columnsOf,
  type Options,
  UsageError,
} from './admin-command-line.ts';

/** Problems that are printed; JSON has all that are kept. */
const problemsShown = 20;
const packageArgument = '<package[@version] or ./folder>';
const gitOptions = { git: '<url or path>', ref: '<ref>' };

/** Commands about the packages that components come from. */
export const registryCommands: AdminCommands = {
  'registry add': {
    argument: { name: packageArgument, isRequired: true, unless: 'git' },
    required: {},
    optional: gitOptions,
    summary:
      'the components of an npm package, of a folder, or in the history of a Git repository, for all users of this instance, by their keys',
    api: 'POST /v1/registry/packages, for packages of npm, and POST /v1/registry/repositories',
    run: (context, options, argument = '') =>
      withRegistry(context, async (registry) => {
        const git = gitIn(context, options, argument);
        if (git !== undefined) {
          const row = await insertWanted(registry, { ...git, userId: null });
          const read = await readRepository(registry, context, row.id);
          return { data: read, lines: repositoryLines(read) };
        }
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
      const repositories = (await allRepositories(store.read)).map(viewRepository);
      return {
        data: [...packages, ...repositories.map((one) => ({ kind: 'git', ...one }))],
        lines: [
          ...packages.map(({ name, version, keys, problems }) =>
            columnsOf(`${name}@${version}`, counted(keys.length, 'component'), problemsOf(problems.length)),
          ),
          ...repositories.map((one) =>
            columnsOf(
              named(one),
              counted(one.components, 'component'),
              counted(one.versions, 'version'),
              one.error === null ? one.state : `${one.state}: ${one.error.message}`,
            ),
          ),
        ],
      };
    },
  },
  'registry update': {
    argument: { name: '<package or ./folder>', isRequired: false },
    required: {},
    optional: gitOptions,
    summary:
      'the newest version of one package or of all, beside the versions there are; folders are read again, and new commits of repositories',
    api: 'POST /v1/registry/packages without a version, and POST /v1/registry/repositories/{id}/update',
    run: (context, options, argument) =>
      withRegistry(context, async (registry) => {
        const git = gitIn(context, options, argument ?? '');
        const repositories =
          git !== undefined
            ? await findRepository(context, git)
            : argument === undefined
              ? await allRepositories(context.store.read)
              : [];
        const read: RepositoryView[] = [];
        for (const { id } of repositories) read.push(await readRepository(registry, context, id));
        if (git !== undefined) return { data: read, lines: read.flatMap(repositoryLines) };
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
        return { data: [...updated, ...read], lines: [...lines, ...read.flatMap(repositoryLines)] };
      }),
  },
  'registry remove': {
    argument: { name: packageArgument, isRequired: true, unless: 'git' },
    required: {},
    optional: gitOptions,
    summary:
      'a package, or one version of it, or a Git repository; sources and workflows that use its components run on',
    api: 'DELETE /v1/registry/packages, and DELETE /v1/registry/repositories/{id}',
    run: async (context, options, argument = '') => {
      const git = gitIn(context, options, argument);
      if (git !== undefined) {
        const [row, ...others] = await findRepository(context, git);
        if (row === undefined || others.length > 0)
          throw new UsageError('there are several repositories with this URL: say which with --ref');
        const gone = await removeRepository(context, row.id);
        await forgetRepository({ folder: repositoriesFolder(context) }, row.id);
        return { data: viewRepository(gone), lines: [`${named(gone)} was removed.`] };
      }
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

/** The repository that `--git` names; `--ref` undefined: not said. */
function gitIn(
  context: AdminContext,
  { git, ref }: Options,
  argument: string,
): { url: string; ref?: string } | undefined {
  if (git === undefined) {
    if (ref !== undefined) throw new UsageError('--ref is for a Git repository: give its URL with --git');
    return undefined;
  }
  if (argument !== '') throw new UsageError('give a package, or --git with a repository, not both');
  const isUrl = /^[a-z][a-z+.-]*:/i.test(git) || /^[^/\\.]+@/.test(git);
  const url = readRepositoryUrl(isUrl ? git : resolve(context.folder, git));
  return { url, ...(ref === undefined ? {} : { ref }) };
}

async function findRepository(
  { store }: AdminContext,
  { url, ref }: { url: string; ref?: string },
): Promise<RegistryRepositoryTable[]> {
  const found = await findRepositories(store.read, url, ref);
  if (found.length === 0)
    throw new CallerError('not_found', `the registry has no repository ${named({ url, ref: ref ?? '' })}`);
  return found;
}

/** Reads the repository here and now. Throws CallerError with why it cannot be read. */
async function readRepository(
  registry: UpdateOptions,
  { store, status }: AdminContext,
  id: string,
): Promise<RepositoryView> {
  const onProgress = ({ phase, done, total }: RepositoryProgress) =>
    status(total === null ? `${phase} ${done}` : `${phase} ${done} of ${total}`);
  await updateRepository({ ...registry, onProgress }, id, AbortSignal.any([]));
  const row = (await allRepositories(store.read)).find((one) => one.id === id);
  if (row === undefined) throw noRepository(id);
  const view = viewRepository(row);
  if (view.error !== null) throw new CallerError(view.error.code, view.error.message);
  return view;
}

function repositoryLines({ problems, ...one }: RepositoryView): string[] {
  return [
    `${named(one)}: ${counted(one.components, 'component')}, ${counted(one.versions, 'version')} in ${counted(one.commits, 'commit')}`,
    ...problems.slice(0, problemsShown).map(({ path, message }) => `  ${path}: ${message}`),
  ];
}

function named({ url, ref }: { url: string; ref: string }): string {
  return ref === '' ? url : `${url} at ${ref}`;
}

function repositoriesFolder({ settings }: AdminContext): string {
  return join(settings.data, 'components', 'repositories');
}

async function withRegistry<T>(
  context: AdminContext,
  work: (registry: RegistryOptions & UpdateOptions) => Promise<T>,
): Promise<T> {
  const { store, clock, settings, environment, progress } = context;
  const { egressProxy: proxyUrl } = settings;
  const dispatcher = createGuardedDispatcher({
    policy: new AddressPolicy({
      ...{ allow: settings.egress, connectTo: settings.connectTo, deny: () => [] },
      ...(proxyUrl === ''
        ? {}
        : { proxy: new EgressProxy({ url: proxyUrl, except: settings.egressProxyExcept }) }),
    }),
    ...(settings.extraCa === '' ? {} : { extraCa: await readFile(settings.extraCa, 'utf8') }),
  });
  const repository = { dispatcher, logger: silentLogger, folder: repositoriesFolder(context) };
  const fetcher = new PackageFetcher({
    cacheFolder: join(settings.data, 'components'),
    registry: settings.npmRegistry,
    npmConfig: npmThroughProxy(await readNpmConfig(environment, homedir(), settings.extraCa), settings),
    logger: silentLogger,
  });
  try {
    return await work({ store, clock, fetcher, progress, repository, logger: silentLogger });
  } finally {
    await fetcher.close();
    await dispatcher.destroy();
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
