import { basename, dirname, join } from 'node:path';

/** How Millrace was installed, which decides how another version takes its place. */
export type InstallationKind =
  | { kind: 'clone' }
  /** In the cache of npx, which takes the version that it is asked for. */
  | { kind: 'npx' }
  | { kind: 'global'; prefix: string }
  /** A dependency of the project in `folder`. */
  | { kind: 'project'; folder: string };

/** `folder`: the one with the package.json of Millrace. */
export function installationKind(folder: string, isPackaged: boolean): InstallationKind {
  const modules = dirname(folder);
  if (!isPackaged || basename(modules) !== 'node_modules') return { kind: 'clone' };
  const above = dirname(modules);
  if (basename(dirname(above)) === '_npx') return { kind: 'npx' };
  if (basename(above) === 'lib') return { kind: 'global', prefix: dirname(above) };
  return { kind: 'project', folder: above };
}

/** Arguments of npm that put a version in the place of the installed one. */
export function installArguments(
  installation: Extract<InstallationKind, { kind: 'global' | 'project' }>,
  version: string,
): string[] {
  const place =
    installation.kind === 'global'
      ? ['--global', '--prefix', installation.prefix]
      : ['--save-exact', '--prefix', installation.folder];
  return ['install', ...place, `millrace@${version}`];
}

/** Where the launcher of the installed version is, whichever version that is. */
export function launcherOf(folder: string): string {
  return join(folder, 'bin', 'millrace');
}
