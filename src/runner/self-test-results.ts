import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { basename } from 'node:path';
import type { Confinement } from './sandbox-grant.ts';

/**
 * Stores which walls have stood the attacks, with kernel and program versions, in a file of the data folder. Walls that let an attack through
 * are not stored, so they are tried again at each start.
 */
export class SelfTestResults {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  has(key: string): boolean {
    return this.#keys().includes(key);
  }

  /** Stores a key. If the folder is not writable, the attacks run at each start. */
  add(key: string): void {
    try {
      const keys = [key, ...this.#keys()].slice(0, keptMax);
      writeFileSync(this.#path, `${JSON.stringify(keys)}\n`, { mode: 0o600 });
    } catch {
      // See above.
    }
  }

  #keys(): string[] {
    try {
      const keys: unknown = JSON.parse(readFileSync(this.#path, 'utf8'));
      return Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : [];
    } catch {
      return [];
    }
  }
}

/** Maximum stored results: enough for several levels and versions around upgrades. */
const keptMax = 8;

/** A key that changes with everything that the walls depend on. */
export function selfTestKey(confinement: Confinement, program: string): string {
  const { level, distinctUsers, setpriv, kernel } = confinement;
  const parts = [
    ...[level, distinctUsers, setpriv, kernel?.bwrapVersion, kernel?.prlimit],
    ...[release(), process.version, process.arch, process.getuid?.(), basename(program)],
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
