import { createHash } from 'node:crypto';
import type { Bundle } from '#runner/runner.ts';

/** A component, built: what is saved of it and what runs. */
export interface BuiltBundle {
  /** Source text of the entry. */
  code: string;
  /** Hex SHA-256 of `code`. */
  codeHash: string;
  bundle: Bundle;
  /** JSON text of a `PackageLock`: exact version and integrity of every package in the bundle. */
  lock: string;
  /** The component's own files, the entry first; `path` is a URL, a path below the root, or `component_code`. */
  files: { path: string; sha256: string }[];
  /** Hex SHA-256 over all own files, the lock and the version of this builder. */
  treeHash: string;
}

/** Text and packages together decide what runs. */
export function hashOfBundle({ code, packages }: Pick<Bundle, 'code' | 'packages'>): string {
  const hash = createHash('sha256').update(code);
  if (packages !== undefined) hash.update('\0').update(packages.lockfile);
  return hash.digest('hex');
}
