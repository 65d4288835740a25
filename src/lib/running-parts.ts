import { toError } from './errors.ts';
import type { Logger } from './logger.ts';

/** What is left of a grace that counts from the beginning of the whole stop, in whole ms: some timers take no others. */
export type TimeLeft = (graceMs: number) => number;

interface Part {
  name: string;
  stop: (timeLeft: TimeLeft) => unknown;
  isIndispensable: boolean;
}

/** The stop of a part whose time is up already still gets this long, which is enough for one that has nothing to do. */
const lastMs = 20;

/**
 * What runs, in the order of its start, and its stop in the reverse order. All parts share one time, `limitMs` from the
 * beginning: however slow the machine is, one part cannot take the time of those behind it. A part that is not done by then
 * is named in the log and left behind, and what it had under way is rolled back by the store. The indispensable ones
 * are waited for without a limit.
 */
export class RunningParts {
  readonly #logger: Logger;
  readonly #limitMs: number;
  readonly #nowMs: () => number;
  readonly #parts: Part[] = [];
  #stopping: Promise<void> | undefined;
  #waitingFor: string | undefined;

  constructor(options: {
    logger: Logger;
    limitMs: number;
    /** A clock that never steps. */
    nowMs?: () => number;
  }) {
    this.#logger = options.logger;
    this.#limitMs = options.limitMs;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** The name is logged when the part does not stop. */
  add(name: string, stop: Part['stop'], { isIndispensable = false } = {}): void {
    this.#parts.push({ name, stop, isIndispensable });
  }

  /** In the order in which they were added. */
  get names(): string[] {
    return this.#parts.map(({ name }) => name);
  }

  /** The part whose stop is waited for now. */
  get waitingFor(): string | undefined {
    return this.#waitingFor;
  }

  /** May be called twice: the second call waits for the first. Never rejects. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    const fromMs = this.#nowMs();
    const timeLeft: TimeLeft = (graceMs) => Math.max(0, Math.ceil(fromMs + graceMs - this.#nowMs()));
    for (const part of this.#parts.toReversed()) {
      this.#waitingFor = part.name;
      const stopped = this.#stopPart(part, timeLeft);
      if (part.isIndispensable) await stopped;
      else await this.#waitFor(part, stopped, Math.max(lastMs, timeLeft(this.#limitMs)));
    }
    this.#waitingFor = undefined;
  }

  async #stopPart({ name, stop }: Part, timeLeft: TimeLeft): Promise<true> {
    try {
      await stop(timeLeft);
    } catch (error) {
      this.#logger.error({ part: name, err: toError(error) }, 'service.part-failed-to-stop');
    }
    return true;
  }

  async #waitFor({ name }: Part, stopped: Promise<true>, ms: number): Promise<void> {
    const timeUp = Promise.withResolvers<undefined>();
    const timer = setTimeout(timeUp.resolve, ms, undefined);
    const hasStopped = await Promise.race([stopped, timeUp.promise]);
    clearTimeout(timer);
    if (hasStopped === undefined)
      this.#logger.warn({ part: name, limitMs: this.#limitMs }, 'service.part-left-behind');
  }
}
