import { setTimeout as delay } from 'node:timers/promises';

/** What senders saw. */
export interface LoadReport {
  sent: number;
  acknowledged: number;
  /** Status or error of each request that failed, with how often. */
  failures: Record<string, number>;
  /** Milliseconds that a request took: half of them less, one in a hundred more, the longest. */
  latencyMs: { p50: number; p99: number; max: number };
  /** The longest time without an answer of 2xx. */
  longestGapMs: number;
}

/** Senders that send one request after another, each with a number of its own, until they are stopped. */
export class Load {
  readonly #send: (n: number) => Promise<Response>;
  readonly #senders: Promise<void>[];
  readonly #latencies: number[] = [];
  readonly #failures: Record<string, number> = {};
  /** Numbers of the requests that got 2xx. */
  readonly acknowledged: number[] = [];
  #sent = 0;
  #lastAt = performance.now();
  #longestGapMs = 0;
  #stopped = false;

  constructor(options: { senders: number; pauseMs: number; send: (n: number) => Promise<Response> }) {
    this.#send = options.send;
    this.#senders = Array.from({ length: options.senders }, () => this.#run(options.pauseMs));
  }

  async stop(): Promise<LoadReport> {
    this.#stopped = true;
    await Promise.all(this.#senders);
    const sorted = this.#latencies.toSorted((one, other) => one - other);
    const at = (share: number) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
    return {
      sent: this.#sent,
      acknowledged: this.acknowledged.length,
      failures: this.#failures,
      latencyMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
      longestGapMs: Math.round(this.#longestGapMs),
    };
  }

  async #run(pauseMs: number): Promise<void> {
    while (!this.#stopped) {
      this.#sent += 1;
      const n = this.#sent;
      const started = performance.now();
      const failure = await this.#send(n).then(
        async (response) => {
          const text = await response.text();
          return response.ok ? undefined : `${response.status} ${text.slice(0, 80)}`;
        },
        (error: Error) => `${error.message} ${String((error.cause as Error | undefined)?.message ?? '')}`,
      );
      const now = performance.now();
      this.#latencies.push(now - started);
      if (failure === undefined) this.#note(n, now);
      else this.#failures[failure] = (this.#failures[failure] ?? 0) + 1;
      await delay(pauseMs);
    }
  }

  #note(n: number, now: number): void {
    this.acknowledged.push(n);
    this.#longestGapMs = Math.max(this.#longestGapMs, now - this.#lastAt);
    this.#lastAt = now;
  }
}
