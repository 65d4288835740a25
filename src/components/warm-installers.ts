import { mkdir } from 'node:fs/promises';
import type { BuildBudget } from './build-budget.ts';
import type { InstallRequest } from './builder/build-messages.ts';
import type { Installed } from './builder/install-packages.ts';
import type { BuilderProcessOptions } from './builder-child.ts';
import { InstallerProcess } from './installer-process.ts';

/** An installer waits this long for the next install of its owner. */
const idleMs = 10_000;
/** Installers of all owners that wait; each has npm's code in memory. */
const idleMax = 2;
/** An installer is replaced after this many installs, whatever it keeps in memory by then. */
const installsPerProcess = 50;

interface Warm {
  place: string;
  installer: InstallerProcess;
  installs: number;
  idleTimer?: NodeJS.Timeout;
}

/**
 * Installers that stay for further installs in the same place: to load npm's code takes longer than most installs. An
 * installer can reach its place and npm's cache, so each owner has a place, and no owner an installer of another one.
 */
export class WarmInstallers {
  readonly #options: BuilderProcessOptions;
  /** The one that was used last comes last. */
  readonly #idle: Warm[] = [];
  readonly #stops = new Set<Promise<void>>();

  constructor(options: BuilderProcessOptions) {
    this.#options = options;
  }

  /** Runs one install; `request.folder` is in the folder `place`. After a failure the installer is ended. */
  async install(place: string, request: InstallRequest, budget: BuildBudget): Promise<Installed> {
    budget.signal.throwIfAborted();
    const warm = this.#take(place) ?? (await this.#start(place, request.cache));
    let isReusable = false;
    try {
      const installed = await warm.installer.install(request, budget);
      isReusable = true;
      return installed;
    } finally {
      warm.installs += 1;
      if (isReusable && warm.installer.isUsable && warm.installs < installsPerProcess) this.#keep(warm);
      else await warm.installer.stop();
    }
  }

  /** Ends the installers that wait; call it when all installs have ended. */
  async close(): Promise<void> {
    for (const warm of this.#idle.splice(0)) this.#stop(warm);
    await Promise.all(this.#stops);
  }

  #take(place: string): Warm | undefined {
    const index = this.#idle.findLastIndex((warm) => warm.place === place && warm.installer.isUsable);
    if (index === -1) return undefined;
    const [warm] = this.#idle.splice(index, 1);
    clearTimeout(warm?.idleTimer);
    return warm;
  }

  async #start(place: string, cache: string): Promise<Warm> {
    await mkdir(cache, { recursive: true });
    return {
      place,
      installer: await InstallerProcess.start([place, cache], place, this.#options),
      installs: 0,
    };
  }

  #keep(warm: Warm): void {
    warm.idleTimer = setTimeout(() => {
      this.#idle.splice(this.#idle.indexOf(warm), 1);
      this.#stop(warm);
    }, idleMs).unref();
    this.#idle.push(warm);
    if (this.#idle.length <= idleMax) return;
    const oldest = this.#idle.shift();
    if (oldest !== undefined) this.#stop(oldest);
  }

  #stop({ installer, idleTimer }: Warm): void {
    clearTimeout(idleTimer);
    const stop = installer.stop().finally(() => this.#stops.delete(stop));
    this.#stops.add(stop);
  }
}
