import { parseNpmArgument } from './npm-argument.ts';

/** An entry of `packages` in a package-lock.json, by its location; that of the project is ''. */
interface LockEntry {
  version?: string;
  [kind: string]: unknown;
}

const dependencyKinds = ['dependencies', 'optionalDependencies', 'peerDependencies'];

/**
 * Puts the locked version in place of every tag, such as `latest`, that a lockfile's packages depend on. npm takes a tag for
 * fulfilled only by a package whose address is in the lockfile, which ours leave out: it would install what has the tag now.
 */
export function pinTags(packages: Record<string, LockEntry>): void {
  for (const [location, entry] of Object.entries(packages)) {
    for (const kind of dependencyKinds) {
      const dependencies = entry[kind] as Record<string, string> | undefined;
      for (const [name, spec] of Object.entries(dependencies ?? {})) {
        const version = lockedVersion(packages, location, name);
        if (dependencies !== undefined && version !== undefined)
          dependencies[name] = pinned(name, spec, version);
      }
    }
  }
}

function pinned(name: string, spec: string, version: string): string {
  const argument = parseNpmArgument(name, spec);
  if (argument.type === 'tag') return version;
  const { subSpec } = argument;
  return subSpec?.type === 'tag' ? `npm:${subSpec.name}@${version}` : spec;
}

/** As Node looks for a package from there: beside, then further up. */
function lockedVersion(
  packages: Record<string, LockEntry>,
  location: string,
  name: string,
): string | undefined {
  for (let at = location; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules/') - 1))) {
    const found = packages[at === '' ? `node_modules/${name}` : `${at}/node_modules/${name}`];
    if (found !== undefined || at === '') return found?.version;
  }
}
