import type { PackageFetcher } from '#components/package-fetcher.ts';
import { toError } from '#lib/errors.ts';
import type { Runner } from '#runner/runner.ts';
import { type CheckedComponent, type CheckParts, checkComponent } from './check-component.ts';
import { readCorpusInput } from './corpus-input.ts';
import type { PackageArgument } from './package-argument.ts';
import type { FileProblem } from './scan-package.ts';
import { SharedProcesses } from './shared-processes.ts';

/** What became of all components of a package or a folder. */
export interface CheckedPackage {
  /** As it was named. */
  argument: string;
  name: string;
  version: string;
  components: CheckedComponent[];
  /** Files that were not read as components, with the reason. */
  leftOut: FileProblem[];
  /** To fetch and read it; to build and check all of it. */
  readMs: number;
  checkMs: number;
  /** Why there is nothing of it. */
  error?: string;
}

export interface CorpusOptions {
  /** Components that are checked at the same time. */
  concurrency: number;
  /** Of keys; absent: all. */
  only?: RegExp;
  onProgress?: (progress: CorpusProgress) => void;
}

export interface CorpusProgress {
  name: string;
  done: number;
  of: number;
  failed: number;
  /** The component that was done last. */
  key?: string;
}

/** Checks packages one after the other, in the order given, and their components side by side. */
export async function* runCorpus(
  parts: Omit<CheckParts, 'processes'> & {
    fetcher: Pick<PackageFetcher, 'download' | 'scan'>;
    runner: Pick<Runner, 'describe' | 'call' | 'forget'>;
  },
  packages: readonly { argument: string; wanted: PackageArgument }[],
  options: CorpusOptions,
): AsyncGenerator<CheckedPackage> {
  for (const { argument, wanted } of packages) {
    const startedMs = parts.nowMs();
    const name = 'folder' in wanted ? wanted.folder : wanted.name;
    const result: CheckedPackage = {
      ...{ argument, name, version: '', components: [], leftOut: [], readMs: 0, checkMs: 0 },
    };
    try {
      const input = await readCorpusInput(parts.fetcher, wanted);
      result.readMs = parts.nowMs() - startedMs;
      Object.assign(result, { name: input.name, version: input.version, leftOut: input.problems });
      const chosen = input.components.filter(({ key }) => options.only?.test(key) ?? true);
      if (chosen.length === 0)
        result.error = input.components.length === 0 ? 'no components found' : 'no key matches';
      const readyMs = parts.nowMs();
      const processes = new SharedProcesses(parts.runner, parts.ownerId);
      try {
        result.components = await sideBySide(chosen, options.concurrency, {
          work: (component) => checkComponent({ ...parts, processes }, input, component),
          onDone: (done, last) => options.onProgress?.(progressOf(input.name, done, chosen.length, last)),
        });
      } finally {
        await processes.close();
      }
      result.checkMs = parts.nowMs() - readyMs;
    } catch (error) {
      result.error = toError(error).message;
    }
    yield result;
  }
}

function progressOf(
  name: string,
  done: readonly CheckedComponent[],
  of: number,
  last: CheckedComponent,
): CorpusProgress {
  const failed = done.filter(({ failures }) => failures.length > 0).length;
  return { name, done: done.length, of, failed, key: last.key };
}

/** Results in the order of `items`. */
async function sideBySide<T, R>(
  items: readonly T[],
  concurrency: number,
  { work, onDone }: { work: (item: T) => Promise<R>; onDone: (done: readonly R[], last: R) => void },
): Promise<R[]> {
  const results: R[] = [];
  const done: R[] = [];
  const waiting = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of waiting) {
      const result = await work(item);
      results[index] = result;
      done.push(result);
      onDone(done, result);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return results;
}
