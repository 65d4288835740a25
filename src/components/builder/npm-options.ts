import type { NpmRequest } from './build-messages.ts';
import { defaultRegistry } from './default-registry.ts';
import { parseNpmArgument } from './npm-argument.ts';
import { parsePackageSpecifier } from './package-specifier.ts';

/** npm rewrites tarball addresses of its public registry to the configured one before it fetches them. */
export const publicRegistry = new URL(defaultRegistry).host;

/** How npm's modules reach the registry: options in place of a configuration of their own. */
export function npmOptions(
  request: NpmRequest,
): Record<string, unknown> & { cache: string; preferOffline: boolean } {
  const { npm } = request;
  return {
    ...npm.credentials,
    // Arborist expects the cacache folder itself, while npm's own setting is the folder above.
    cache: request.cache,
    registry: npm.registry,
    replaceRegistryHost: 'npmjs',
    // Null: the default ones, which the extra ones have been added to (`trust-extra.ts`).
    ca: npm.ca.length > 0 ? [...npm.ca, ...(npm.extraCa ?? [])] : null,
    proxy: npm.proxy ?? null,
    httpsProxy: npm.httpsProxy ?? null,
    noProxy: npm.noProxy ?? null,
    strictSSL: true,
    // Resolving alone would otherwise fetch whatever URL a package's manifest names.
    allowGit: 'none',
    allowRemote: 'none',
    allowFile: 'none',
    allowDirectory: 'none',
    ignoreScripts: true,
    // Exact versions never change; everything else asks the registry, and takes the cache when it cannot.
    preferOffline: request.specifiers.every((specifier) => isExact(specifier)),
    fetchRetries: 1,
    fetchRetryMintimeout: 300,
    fetchRetryMaxtimeout: 1000,
    timeout: 20_000,
  };
}

function isExact(text: string): boolean {
  const specifier = parsePackageSpecifier(text);
  return (
    specifier?.range !== undefined && parseNpmArgument(specifier.name, specifier.range).type === 'version'
  );
}
