import { Worker } from 'node:worker_threads';
import { Deferred } from '#lib/deferred.ts';
import { toError } from '#lib/errors.ts';
import type { MailThreadAnswer } from './mail-thread.ts';
import type { ParsedMail } from './parse-mail.ts';

/** Mails parsed at once. What waits for its turn is bounded by the bytes of mails that are held (mail-buffer.ts). */
const threadsMax = 2;
/** Heap of a thread: a mail of millions of tiny parts ends its thread, not the service. */
const heapMbMax = 384;
/** The longest a mail is looked at; an honest one of 30 MB takes about a second. */
const parseMaxMs = 20_000;
/** A thread that had nothing to do for so long ends: it keeps the memory of the largest mail it saw. */
const idleMaxMs = 60_000;

/** The mail cannot be read within the bounds; sending it again would not help. */
export class UnreadableMailError extends Error {
  override name = 'UnreadableMailError';
}

interface Task {
  raw: ArrayBuffer;
  answer: Deferred<{ mail: ParsedMail; raw: ArrayBuffer }>;
}

/**
 * Parses mails in threads of their own: what a hostile mail costs is bounded in time and memory, and neither keeps
 * others waiting for the service.
 */
export class MailParser {
  readonly #threads = new Set<ParserThread>();
  readonly #waiting: Task[] = [];
  readonly #parseMaxMs: number;
  #closed = false;

  constructor(options: { parseMaxMs?: number } = {}) {
    this.#parseMaxMs = options.parseMaxMs ?? parseMaxMs;
  }

  /** `raw` is given away; it comes back with the answer. Throws `UnreadableMailError`. */
  parse(raw: ArrayBuffer): Promise<{ mail: ParsedMail; raw: ArrayBuffer }> {
    const answer = new Deferred<{ mail: ParsedMail; raw: ArrayBuffer }>();
    this.#waiting.push({ raw, answer });
    this.#next();
    return answer.promise;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { answer } of this.#waiting.splice(0)) answer.reject(new Error('the service stops'));
    await Promise.all([...this.#threads].map((thread) => thread.end()));
  }

  #next(): void {
    if (this.#waiting.length === 0 || this.#closed) return;
    let thread = [...this.#threads].find((candidate) => candidate.idle);
    if (thread === undefined && this.#threads.size < threadsMax) {
      const made: ParserThread = new ParserThread({
        parseMaxMs: this.#parseMaxMs,
        onIdle: () => this.#next(),
        onEnd: () => {
          this.#threads.delete(made);
          this.#next();
        },
      });
      this.#threads.add(made);
      thread = made;
    }
    const task = thread === undefined ? undefined : this.#waiting.shift();
    if (task !== undefined) thread?.run(task);
  }
}

class ParserThread {
  readonly #worker: Worker;
  readonly #parseMaxMs: number;
  readonly #onIdle: () => void;
  #task: Task | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(options: { parseMaxMs: number; onIdle: () => void; onEnd: () => void }) {
    this.#parseMaxMs = options.parseMaxMs;
    this.#onIdle = options.onIdle;
    this.#worker = new Worker(new URL('./mail-thread.ts', import.meta.url), {
      name: 'mail',
      resourceLimits: { maxOldGenerationSizeMb: heapMbMax },
    });
    this.#worker.on('message', (answer: MailThreadAnswer) => this.#settle(answer));
    this.#worker.on('error', (error) => this.#settle({ error: toError(error).message }));
    this.#worker.on('exit', () => {
      this.#ended = true;
      clearTimeout(this.#timer);
      this.#settle({ error: 'its thread ended' });
      options.onEnd();
    });
  }

  get idle(): boolean {
    return this.#task === undefined && !this.#ended;
  }

  run(task: Task): void {
    this.#task = task;
    this.#limit(this.#parseMaxMs, `not read after ${this.#parseMaxMs} ms`);
    this.#worker.postMessage(task.raw, [task.raw]);
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #settle(answer: MailThreadAnswer): void {
    const task = this.#task;
    if (task === undefined) return;
    this.#task = undefined;
    if ('error' in answer) task.answer.reject(new UnreadableMailError(answer.error));
    else task.answer.resolve(answer);
    if (this.#ended) return;
    this.#limit(idleMaxMs, '').unref();
    this.#onIdle();
  }

  #limit(ms: number, reason: string): NodeJS.Timeout {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      // No longer idle, whatever it still answers.
      this.#ended = true;
      this.#settle({ error: reason });
      void this.end();
    }, ms);
    return this.#timer;
  }
}
