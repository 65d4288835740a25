import { Worker } from 'node:worker_threads';
import { Deferred } from '#lib/deferred.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import { programPath } from '#lib/installation.ts';
import type { MailThreadAnswer } from './mail-thread.ts';
import type { ParsedMail } from './parse-mail.ts';

/** Mails parsed at once. What waits for its turn is bounded by the bytes of mails that are held (mail-buffer.ts). */
const threadsMax = 2;
/** Mails larger than this are parsed one at a time: a hostile one takes many times its size. */
const smallBytes = 2 * 1024 * 1024;
/** Heap of a thread: a mail of millions of tiny parts ends its thread, not the service. */
const heapMbMax = 384;
/** The longest a mail is looked at; an honest one of 30 MB takes about a second. */
const parseMaxMs = 20_000;
/** A thread that was idle for this long ends. */
const idleMaxMs = 60_000;

/** The mail cannot be read within the bounds; sending it again would not help. */
export class UnreadableMailError extends Error {
  override name = 'UnreadableMailError';
}

/** What one mail may cost; the defaults are those of the service. */
interface ThreadBounds {
  parseMaxMs: number;
  heapMbMax: number;
}

interface Task {
  parts: readonly ArrayBuffer[];
  bytes: number;
  answer: Deferred<{ mail: ParsedMail; raw: ArrayBuffer }>;
}

/**
 * Parses mails in threads of their own: what a hostile mail costs is bounded in time and memory, and neither keeps
 * others waiting for the service.
 */
export class MailParser {
  readonly #threads = new Set<ParserThread>();
  readonly #waiting: Task[] = [];
  readonly #bounds: ThreadBounds;
  #closed = false;

  constructor(bounds: Partial<ThreadBounds> = {}) {
    this.#bounds = { parseMaxMs, heapMbMax, ...bounds };
  }

  /**
   * `parts` of a mail are given away; the answer has the whole mail. Throws `UnreadableMailError`, and UnavailableError when the parser
   * stops.
   */
  parse(parts: readonly ArrayBuffer[]): Promise<{ mail: ParsedMail; raw: ArrayBuffer }> {
    if (this.#closed) return Promise.reject(new UnavailableError('overloaded', 'the service stops'));
    const answer = new Deferred<{ mail: ParsedMail; raw: ArrayBuffer }>();
    const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0);
    this.#waiting.push({ parts, bytes, answer });
    this.#next();
    return answer.promise;
  }

  /** What is not read yet is given up, which says nothing about those mails. */
  async close(): Promise<void> {
    this.#closed = true;
    const reason = new UnavailableError('overloaded', 'the service stops');
    for (const { answer } of this.#waiting.splice(0)) answer.reject(reason);
    await Promise.all([...this.#threads].map((thread) => thread.end(reason)));
  }

  #next(): void {
    if (this.#closed) return;
    const hasLarge = [...this.#threads].some((candidate) => candidate.hasLarge);
    const index = this.#waiting.findIndex(({ bytes }) => !hasLarge || bytes <= smallBytes);
    if (index === -1) return;
    let thread = [...this.#threads].find((candidate) => candidate.idle);
    if (thread === undefined && this.#threads.size < threadsMax) {
      const made: ParserThread = new ParserThread({
        bounds: this.#bounds,
        onIdle: () => this.#next(),
        onEnd: () => {
          this.#threads.delete(made);
          this.#next();
        },
      });
      this.#threads.add(made);
      thread = made;
    }
    if (thread === undefined) return;
    for (const task of this.#waiting.splice(index, 1)) thread.run(task);
  }
}

class ParserThread {
  readonly #worker: Worker;
  readonly #parseMaxMs: number;
  readonly #onIdle: () => void;
  #task: Task | undefined;
  #hasLarge = false;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(options: { bounds: ThreadBounds; onIdle: () => void; onEnd: () => void }) {
    this.#parseMaxMs = options.bounds.parseMaxMs;
    this.#onIdle = options.onIdle;
    this.#worker = new Worker(programPath('src/ingress/mail-thread.ts'), {
      name: 'mail',
      resourceLimits: { maxOldGenerationSizeMb: options.bounds.heapMbMax },
    });
    this.#worker.on('message', (answer: MailThreadAnswer) => this.#settle(answer));
    this.#worker.on('error', (error) => {
      this.#ended = true;
      this.#settle({ error: toError(error).message });
    });
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

  get hasLarge(): boolean {
    return this.#hasLarge;
  }

  run(task: Task): void {
    this.#task = task;
    this.#hasLarge = task.bytes > smallBytes;
    this.#limit(this.#parseMaxMs, `not read after ${this.#parseMaxMs} ms`);
    this.#worker.postMessage(task.parts, task.parts);
  }

  /** With `reason` what it reads is given up. */
  async end(reason?: Error): Promise<void> {
    // No longer idle, whatever it still answers.
    this.#ended = true;
    if (reason !== undefined) this.#task?.answer.reject(reason);
    await this.#worker.terminate();
  }

  #settle(answer: MailThreadAnswer): void {
    const task = this.#task;
    if (task === undefined) return;
    this.#task = undefined;
    if ('error' in answer) task.answer.reject(new UnreadableMailError(answer.error));
    else task.answer.resolve(answer);
    if (this.#ended) return;
    if (this.#hasLarge) {
      // Its memory is freed with it; until then no other large mail is parsed.
      void this.end();
      return;
    }
    this.#limit(idleMaxMs, '').unref();
    this.#onIdle();
  }

  #limit(ms: number, reason: string): NodeJS.Timeout {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#ended = true;
      this.#settle({ error: reason });
      void this.end();
    }, ms);
    return this.#timer;
  }
}
