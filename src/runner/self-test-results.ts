import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { basename } from 'node:path';
import type { Confinement } from './confinement.ts';

/**
 * Which walls have been proved by the attacks, on which kernel and by which programs: a file in the data folder. Only what held is kept; what let
 * one through is tried again at each start.
 */
export class SelfTestResults {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  has(key: string): boolean {
    return this.#keys().includes(key);
  }

  /** A folder that cannot be written to costs the attacks at each start. */
  add(key: string): void {
    try {
      const keys = [key, ...this.#keys()].slice(0, keptMax);
      writeFileSync(this.#path, `${JSON.stringify(keys)}\n`, { mode: 0o600 });
    } catch {
      // As above.
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

/** Several levels and versions, as they come and go with upgrades. */
const keptMax = 8;

/** Changes with everything that the walls depend on. */
export function selfTestKey(confinement: Confinement, program: string): string {
  const { level, distinctUsers, setpriv, kernel } = confinement;
  const parts = [
    ...[level, distinctUsers, setpriv, kernel?.bwrapVersion, kernel?.prlimit],
    ...[release(), process.version, process.arch, process.getuid?.(), basename(program)],
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
