import type { PackageFetcher } from '#components/package-fetcher.ts';
import { toError } from '#lib/errors.ts';
import type { Runner } from '#runner/runner.ts';
import type { RunnerTimer } from '#runner/runner-timer.ts';
import { type CheckedComponent, type ComponentCheckOptions, checkComponent } from './check-component.ts';
import { readCorpusInput } from './corpus-input.ts';
import type { PackageArgument } from './package-argument.ts';
import type { FileProblem } from './scan-package.ts';
import { SharedProcesses } from './shared-processes.ts';

/** The outcomes of all components of a package or a folder. */
export interface CheckedPackage {
  /** As it was named. */
  argument: string;
  name: string;
  version: string;
  components: CheckedComponent[];
  /** Files that were not read as components, with the reason. */
  leftOut: FileProblem[];
  /** To fetch and read it; to build and check all of it, as far as the package before was done. */
  readMs: number;
  checkMs: number;
  /** The reason why the package was not checked. */
  error?: string;
}

export interface CorpusOptions {
  /** Components that are checked at the same time. */
  concurrency: number;
  /** Restricts the run to matching keys; absent: all. */
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

type CorpusCheckOptions = Omit<ComponentCheckOptions, 'processes'> & {
  fetcher: Pick<PackageFetcher, 'download' | 'scan'>;
  runner: Pick<Runner, 'describe' | 'call' | 'forget'>;
  /** By which calls take too long. */
  timer?: RunnerTimer;
};

interface WantedPackage {
  argument: string;
  wanted: PackageArgument;
}

/**
 * Checks packages in the order given. While the last components of one are under way, the next one is read and its first
 * components begin: evaluating a package keeps one processor busy, building others.
 */
export async function* runCorpus(
  checkOptions: CorpusCheckOptions,
  packages: readonly WantedPackage[],
  options: CorpusOptions,
): AsyncGenerator<CheckedPackage> {
  const places = new Places(options.concurrency);
  const start = (wanted: WantedPackage | undefined) =>
    wanted === undefined ? undefined : checkPackage(checkOptions, wanted, { ...options, places });
  let current = start(packages[0]);
  let countedUntilMs = 0;
  for (let at = 1; current !== undefined; at += 1) {
    const next = start(packages[at]);
    const { result, startedMs, endedMs } = await current;
    result.checkMs = Math.max(0, endedMs - Math.max(startedMs, countedUntilMs));
    countedUntilMs = Math.max(countedUntilMs, endedMs);
    yield result;
    current = next;
  }
}

/** When its first component was begun, and its last one was done. Never rejects. */
async function checkPackage(
  checkOptions: CorpusCheckOptions,
  { argument, wanted }: WantedPackage,
  options: CorpusOptions & { places: Places },
): Promise<{ result: CheckedPackage; startedMs: number; endedMs: number }> {
  const { nowMs } = checkOptions;
  const name = 'folder' in wanted ? wanted.folder : wanted.name;
  const result: CheckedPackage = {
    ...{ argument, name, version: '', components: [], leftOut: [], readMs: 0, checkMs: 0 },
  };
  let startedMs = nowMs();
  try {
    const input = await readCorpusInput(checkOptions.fetcher, wanted);
    result.readMs = nowMs() - startedMs;
    Object.assign(result, { name: input.name, version: input.version, leftOut: input.problems });
    const chosen = input.components.filter(({ key }) => options.only?.test(key) ?? true);
    if (chosen.length === 0)
      result.error = input.components.length === 0 ? 'no components found' : 'no key matches';
    const processes = new SharedProcesses(checkOptions.runner, checkOptions.ownerId, checkOptions.timer);
    const done: CheckedComponent[] = [];
    startedMs = Number.POSITIVE_INFINITY;
    try {
      result.components = await Promise.all(
        chosen.map((component) =>
          options.places.use(async () => {
            startedMs = Math.min(startedMs, nowMs());
            const checked = await checkComponent({ ...checkOptions, processes }, input, component);
            done.push(checked);
            options.onProgress?.(progressOf(input.name, done, chosen.length, checked));
            return checked;
          }),
        ),
      );
    } finally {
      await processes.close();
    }
  } catch (error) {
    result.error = toError(error).message;
  }
  return { result, startedMs, endedMs: nowMs() };
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

/** Limits the work under way, in the order of requests. */
class Places {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((enter) => this.#waiting.push(enter));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
