import { mkdir } from 'node:fs/promises';
import type { BuildBudget } from './build-budget.ts';
import type { FetchRequest, InstallerOutput, InstallRequest, PackageFile } from './builder/build-messages.ts';
import type { Installed } from './builder/install-packages.ts';
import { allowedHosts } from './builder/install-rules.ts';
import { BuilderChild, type BuilderProcessOptions, errorOf } from './builder-child.ts';

export interface FetchedPackage {
  name: string;
  version: string;
  /** Subresource integrity of the tarball, checked. */
  integrity: string;
  files: PackageFile[];
}

type InstallerEnd = Exclude<InstallerOutput, { type: 'files' }>;

/**
 * An installer: for installs of one owner, or for packages that are fetched, one after the other. Where it may connect to is
 * settled by its first request.
 */
export class InstallerProcess {
  readonly #child: BuilderChild<InstallerOutput>;
  readonly #logger: BuilderProcessOptions['logger'];

  /** `folders` is what it may read and write. */
  static async start(
    folders: readonly string[],
    cwd: string,
    tools: BuilderProcessOptions,
  ): Promise<InstallerProcess> {
    const grant = { read: [], write: folders, startsPrograms: false, cwd };
    const child = await BuilderChild.start<InstallerOutput>('installer', { ...tools, grant, connects: true });
    return new InstallerProcess(child, tools);
  }

  private constructor(child: BuilderChild<InstallerOutput>, { logger }: BuilderProcessOptions) {
    this.#child = child;
    this.#logger = logger;
  }

  /** One that fetches packages by way of npm's cache in the folder `cache`. */
  static async forFetching(cache: string, tools: BuilderProcessOptions): Promise<InstallerProcess> {
    await mkdir(cache, { recursive: true });
    return InstallerProcess.start([cache], cache, tools);
  }

  get isUsable(): boolean {
    return !this.#child.hasEnded;
  }

  async install(request: InstallRequest, budget: BuildBudget): Promise<Installed> {
    const outcome = await this.#ask(request, budget);
    if (outcome.type !== 'installed') throw new Error(`assertion failed: an install was ${outcome.type}`);
    return outcome;
  }

  /** After any failure the process is no longer to be used: what was refused may still be on its way to it. */
  async fetchPackage(request: FetchRequest, budget: BuildBudget): Promise<FetchedPackage> {
    const files: PackageFile[] = [];
    const outcome = await this.#ask(request, budget, (part) => {
      for (const file of part) files.push(file);
    });
    if (outcome.type !== 'fetched') throw new Error(`assertion failed: a package was ${outcome.type}`);
    const { name, version, integrity } = outcome;
    return { name, version, integrity, files };
  }

  lowerPriority(): void {
    this.#child.lowerPriority();
  }

  async stop(): Promise<void> {
    const stderr = await this.#child.stop();
    if (stderr !== '') this.#logger.warn({ stderr }, 'installer.stderr-received');
  }

  /** The message that ends the answer; those of files come before it. */
  async #ask(
    request: InstallRequest | FetchRequest,
    budget: BuildBudget,
    onFiles: (files: PackageFile[]) => void = () => {},
  ): Promise<Exclude<InstallerEnd, { type: 'failed' }>> {
    const { promise, resolve } = Promise.withResolvers<InstallerEnd>();
    this.#child.onMessage = (message) => {
      if (message.type === 'files') onFiles(message.files);
      else resolve(message);
    };
    this.#child.allowHosts(allowedHosts(request.npm));
    this.#child.send(request);
    const outcome = await this.#child.untilEnd(promise, budget);
    this.#child.onMessage = () => {};
    if (outcome.type === 'failed') throw errorOf(outcome.problem);
    return outcome;
  }
}

/** One install in a process of its own. */
export async function runInstaller(
  request: InstallRequest,
  { budget, ...tools }: BuilderProcessOptions & { budget: BuildBudget },
): Promise<Installed> {
  await mkdir(request.cache, { recursive: true });
  const installer = await InstallerProcess.start([request.folder, request.cache], request.folder, tools);
  try {
    return await installer.install(request, budget);
  } finally {
    await installer.stop();
  }
}
