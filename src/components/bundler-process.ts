import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CallerError } from '#lib/errors.ts';
import { installationFolder } from '#lib/installation.ts';
import type { BuildBudget } from './build-budget.ts';
import type { BundleRequest, BundlerInput, BundlerOutput, OwnFile } from './builder/build-messages.ts';
import { BuilderChild, type BuilderProcessOptions, errorOf, problemOf } from './builder-child.ts';

export const providedFolder = join(installationFolder, 'src', 'components', 'provided');

/** Answers the bundler's questions for the component's own files; a `CallerError` reaches the caller as it is. */
export type AnswerLookup = (importer: string, specifier: string) => Promise<OwnFile | null>;

/** A bundler that stays for more builds; one at a time. */
export class BundlerProcess {
  readonly #child: BuilderChild<BundlerOutput>;

  /** `buildsFolder` holds the folders that builds take packages from. */
  static async start(buildsFolder: string, tools: BuilderProcessOptions): Promise<BundlerProcess> {
    await mkdir(buildsFolder, { recursive: true });
    const read = [buildsFolder, providedFolder];
    const grant = { read, write: [], startsPrograms: true, cwd: buildsFolder };
    return new BundlerProcess(await BuilderChild.start('bundler', { ...tools, grant }));
  }

  private constructor(child: BuilderChild<BundlerOutput>) {
    this.#child = child;
  }

  get isUsable(): boolean {
    return !this.#child.hasEnded;
  }

  /** After a failure that is not a `CallerError`, or when `budget` is over, the process is no longer to be used. */
  async bundle(
    request: BundleRequest,
    answer: AnswerLookup,
    budget: BuildBudget,
  ): Promise<Exclude<BundlerOutput, { type: 'lookup' | 'failed' }>> {
    const { promise, resolve, reject } = Promise.withResolvers<Exclude<BundlerOutput, { type: 'lookup' }>>();
    let refusal: CallerError | undefined;
    this.#child.onMessage = (message) => {
      if (message.type !== 'lookup') {
        resolve(message);
        return;
      }
      const { lookup, importer, specifier } = message;
      answer(importer, specifier).then(
        (file) => this.#send({ type: 'found', lookup, file }),
        (error: unknown) => {
          if (!(error instanceof CallerError)) {
            reject(error);
            return;
          }
          refusal ??= error;
          this.#send({ type: 'found', lookup, file: null, problem: problemOf(error) });
        },
      );
    };
    this.#send(request);
    const outcome = await this.#child.untilEnd(promise, budget);
    this.#child.onMessage = () => {};
    if (outcome.type !== 'failed') return outcome;
    if (refusal !== undefined && refusal.code === outcome.problem.code) {
      throw new CallerError(refusal.code, refusal.message, outcome.problem.details, { cause: refusal });
    }
    throw errorOf(outcome.problem);
  }

  lowerPriority(): void {
    this.#child.lowerPriority();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  #send(message: BundlerInput): void {
    this.#child.send(message);
  }
}
