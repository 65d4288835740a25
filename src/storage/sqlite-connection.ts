import { Worker } from 'node:worker_threads';
import { must } from '#lib/assert.ts';
import { Deferred } from '#lib/deferred.ts';
import { toError } from '#lib/errors.ts';
import { programPath } from '#lib/installation.ts';
import type {
  SqliteReply,
  SqliteRequest,
  SqliteStatement,
  SqliteThreadData,
  StatementResult,
} from './sqlite-messages.ts';

/** An error SQLite gave, with its result code (primary code in the low 8 bits). */
export class SqliteError extends Error {
  override name = 'SqliteError';
  /** -1: not of SQLite; a commit went to files that had been removed or replaced. */
  readonly resultCode: number;

  constructor(message: string, resultCode: number) {
    super(message);
    this.resultCode = resultCode;
  }

  /** The file is not what a database has to be (SQLITE_CORRUPT, SQLITE_NOTADB). */
  get isDamage(): boolean {
    const primary = this.resultCode & 0xff;
    return this.resultCode > 0 && (primary === 11 || primary === 26);
  }
}

/** A fault as `quick_check` and `integrity_check` describe it, on one line. */
export function faultText(row: Record<string, unknown>): string {
  return String(Object.values(row)[0])
    .replace(/^\*\*\* in database main \*\*\*\n/, '')
    .replaceAll('\n', '; ');
}

/** What the thread threw when it opened the file; the result code travels as a property. */
function sqliteErrorOf(error: Error & { errcode?: number }): Error {
  return error.errcode === undefined ? error : new SqliteError(error.message, error.errcode);
}

/** The other end of `sqlite-thread.mjs`. Statements asked in one turn of the event loop travel in one message. */
export class SqliteConnection {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Deferred<StatementResult[]>>();
  #outgoing: SqliteRequest[] = [];
  #lastId = 0;
  #closed: Deferred<void> | undefined;
  #failure: Error | undefined;
  #damage: SqliteError | undefined;

  constructor(options: SqliteThreadData) {
    this.#worker = new Worker(programPath('src/storage/sqlite-thread.mjs'), {
      workerData: options,
      name: 'sqlite',
    });
    this.#worker.on('message', (message: SqliteReply[] | 'closed') => this.#receive(message));
    this.#worker.on('error', (error) => this.#fail(sqliteErrorOf(toError(error))));
    this.#worker.on('exit', () => this.#fail(new Error('the SQLite thread ended')));
  }

  /** The first statement that met damage in the file. */
  get damage(): SqliteError | undefined {
    return this.#damage;
  }

  async run(sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
    const [result] = await this.runTogether([{ sql, parameters }]);
    return must(result, 'the result of a statement');
  }

  /**
   * Executes statements one after another up to the first that fails; answers a result for each, or that failure.
   * One message there and one back, whatever their number: waking the thread costs more than a statement.
   */
  runTogether(statements: readonly SqliteStatement[]): Promise<StatementResult[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#lastId += 1;
    const answer = new Deferred<StatementResult[]>();
    this.#waiting.set(this.#lastId, answer);
    if (this.#outgoing.length === 0) queueMicrotask(() => this.#send());
    this.#outgoing.push({ id: this.#lastId, statements });
    return answer.promise;
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = new Deferred();
      if (this.#failure === undefined) this.#worker.postMessage('close');
      else this.#closed.resolve();
    }
    await this.#closed.promise;
    await this.#worker.terminate();
  }

  #send(): void {
    const requests = this.#outgoing;
    this.#outgoing = [];
    if (requests.length > 0) this.#worker.postMessage(requests);
  }

  #receive(message: SqliteReply[] | 'closed'): void {
    if (message === 'closed') {
      this.#closed?.resolve();
      return;
    }
    for (const reply of message) {
      const answer = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if ('error' in reply) {
        const error = new SqliteError(reply.error.message, reply.error.code);
        if (error.isDamage) this.#damage ??= error;
        answer?.reject(error);
      } else answer?.resolve(reply.results);
    }
  }

  #fail(error: Error): void {
    // The first reason is the one to report; the end of the thread is its consequence.
    this.#failure ??= error;
    for (const answer of this.#waiting.values()) answer.reject(error);
    this.#waiting.clear();
    this.#closed?.resolve();
  }
}
