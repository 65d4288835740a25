import { loadNpm } from './load-npm.ts';

/** Throws for names and protocols that npm does not know. */
export const parseNpmArgument = (
  loadNpm('npm-package-arg') as { resolve(name: string, range: string): NpmArgument }
).resolve;

interface NpmArgument {
  type: string;
  /** The target of an alias. */
  subSpec?: { type: string; name: string };
}
