import { loadNpm } from './load-npm.ts';

/** The registry npm takes when nothing else is configured, in npm's own spelling. */
export const defaultRegistry = (loadNpm('npm-registry-fetch/lib/default-opts.js') as { registry: string })
  .registry;
