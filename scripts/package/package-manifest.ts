import { migrations } from '#storage/migrate.ts';

interface Manifest {
  name: string;
  version: string;
  description: string;
  license: string;
  engines: Record<string, string>;
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
}

/**
 * The package.json of the package: of the dependencies, those that are no part of its bundles, at the versions that the service is tested with.
 * `millrace upgrade` reads `millrace.migrations` from the registry before it installs a version.
 */
export function packageManifest(project: Manifest, packages: ReadonlySet<string>) {
  const dependencies = [...packages].sort().map((name) => {
    const version = project.dependencies[name];
    if (version === undefined) throw new Error(`package.json has no dependency ${name}`);
    return [name, version] as const;
  });
  const { name, version, description, license, engines, bin, optionalDependencies } = project;
  return {
    ...{ name, version, description, license, type: 'module', engines, bin },
    dependencies: Object.fromEntries(dependencies),
    optionalDependencies,
    millrace: { migrations: migrations.map((migration) => migration.name) },
  };
}
