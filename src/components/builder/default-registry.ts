import { createRequire } from 'node:module';

/** Resolved from where arborist stands, since the fetcher is its dependency and not ours. */
const load = createRequire(createRequire(import.meta.url).resolve('@npmcli/arborist/package.json'));

/** The registry npm takes when nothing else is configured, in npm's own spelling. */
export const defaultRegistry = (load('npm-registry-fetch/lib/default-opts.js') as { registry: string })
  .registry;
