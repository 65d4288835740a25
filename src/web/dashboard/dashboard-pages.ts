import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { buildPages, type PagesProject } from './build-pages.ts';
import { loadPageFiles, type PageFile } from './page-files.ts';

export type PagesState =
  | { state: 'ready'; files: ReadonlyMap<string, PageFile> }
  | { state: 'building' }
  | { state: 'failed'; message: string };

/**
 * The pages of the dashboard, built on their first request: a service without users of the dashboard does no such
 * work, and the API never waits for it or fails with it.
 */
export class DashboardPages {
  readonly #project: PagesProject;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  #state: PagesState | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor({ logger, ...project }: PagesProject & { logger: Logger }) {
    this.#project = project;
    this.#logger = logger;
  }

  /** How it is with them. The first call begins the work; after a failure the next call tries again. */
  look(): PagesState {
    const seen = this.#state;
    if (seen === undefined) {
      this.#state = { state: 'building' };
      this.#work = this.#make();
      return this.#state;
    }
    if (seen.state === 'failed') this.#state = undefined;
    return seen;
  }

  /** Resolves when what was begun is over, whatever came of it. */
  async settled(): Promise<void> {
    await this.#work;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#work;
  }

  async #make(): Promise<void> {
    const fromMs = performance.now();
    try {
      const { folder, built } = await buildPages(this.#project, this.#stopping.signal);
      this.#state = { state: 'ready', files: await loadPageFiles(folder) };
      if (built) this.#logger.info({ folder, ms: Math.round(performance.now() - fromMs) }, 'dashboard.built');
    } catch (thrown) {
      const { message } = toError(thrown);
      this.#state = { state: 'failed', message };
      if (!this.#stopping.signal.aborted) this.#logger.error({ error: message }, 'dashboard.not-built');
    }
  }
}
