import type { BuildBudget } from './build-budget.ts';
import type { ScanOutput, ScanRequest } from './builder/build-messages.ts';
import { BuilderChild, type BuilderProcessOptions } from './builder-child.ts';
import { builderFolder } from './builder-programs.ts';

/** A scanner without network or files, for packages that are read one after the other. */
export class ScannerProcess {
  readonly #child: BuilderChild<ScanOutput>;
  #isSpent = false;

  static async start(tools: BuilderProcessOptions): Promise<ScannerProcess> {
    const grant = { read: [], write: [], startsPrograms: true, cwd: builderFolder };
    return new ScannerProcess(await BuilderChild.start('scanner', { ...tools, grant }));
  }

  private constructor(child: BuilderChild<ScanOutput>) {
    this.#child = child;
  }

  get isUsable(): boolean {
    return !this.#child.hasEnded && !this.#isSpent;
  }

  /** Reads the heads of components. One request for each of `parts`. After a failure the process is no longer to be used. */
  async scan(parts: Iterable<ScanRequest['files']>, budget: BuildBudget): Promise<ScanOutput['readings']> {
    const readings: ScanOutput['readings'] = [];
    for (const files of parts) {
      const { promise, resolve } = Promise.withResolvers<ScanOutput>();
      this.#child.onMessage = resolve;
      this.#child.send({ files } satisfies ScanRequest);
      const answer = await this.#child.untilEnd(promise, budget);
      for (const reading of answer.readings) readings.push(reading);
      this.#isSpent ||= answer.isSpent;
    }
    return readings;
  }

  lowerPriority(): void {
    this.#child.lowerPriority();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }
}
