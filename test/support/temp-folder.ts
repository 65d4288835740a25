import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TempFolder {
  /** Absolute, with links resolved. */
  readonly path: string;
  /** Removes it with everything in it. May be called twice. */
  remove(): Promise<void>;
  /** `await using folder = await createTempFolder()`. */
  [Symbol.asyncDispose](): Promise<void>;
}

export async function createTempFolder(name = 'test'): Promise<TempFolder> {
  const path = await realpath(await mkdtemp(join(tmpdir(), `millrace-${name}-`)));
  const remove = (): Promise<void> =>
    rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
  return { path, remove, [Symbol.asyncDispose]: remove };
}
