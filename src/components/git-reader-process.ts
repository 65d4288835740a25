import { CallerError } from '#lib/errors.ts';
import type { BuildBudget } from './build-budget.ts';
import type { PackageFile } from './builder/build-messages.ts';
import type { FileChange } from './builder/git-history.ts';
import type { FileEntry, GitAnswer, GitOutput, GitRequest } from './builder/git-messages.ts';
import { BuilderChild, type BuilderProcessOptions } from './builder-child.ts';
import { builderFolder } from './builder-programs.ts';

export interface GitReadings {
  onProgress?: (what: 'unpack' | 'history', done: number, total: number) => void;
  onChanges?: (changes: FileChange[]) => void;
  onEntries?: (entries: FileEntry[]) => void;
  onContents?: (files: PackageFile[]) => void;
}

/** A process that reads one Git repository: the files of `folders`, and nothing else. One request at a time. */
export class GitReaderProcess {
  readonly #child: BuilderChild<GitOutput>;

  static async start(folders: readonly string[], tools: BuilderProcessOptions): Promise<GitReaderProcess> {
    const grant = { read: folders, write: [], startsPrograms: false, cwd: builderFolder };
    return new GitReaderProcess(await BuilderChild.start('git-reader', { ...tools, grant }));
  }

  private constructor(child: BuilderChild<GitOutput>) {
    this.#child = child;
  }

  /** Throws CallerError `repository_refused` with what is wrong with the repository, and what `untilEnd` does. */
  async ask(request: GitRequest, budget: BuildBudget, readings: GitReadings = {}): Promise<GitAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<GitAnswer>();
    this.#child.onMessage = (message) => {
      if (message.type === 'progress') readings.onProgress?.(message.what, message.done, message.total);
      else if (message.type === 'changes') readings.onChanges?.(message.changes);
      else if (message.type === 'entries') readings.onEntries?.(message.entries);
      else if (message.type === 'contents') readings.onContents?.(message.files);
      else if (message.type === 'done') resolve(message.answer);
      else reject(new CallerError('repository_refused', message.message));
    };
    this.#child.send(request);
    return this.#child.untilEnd(promise, budget);
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }
}
