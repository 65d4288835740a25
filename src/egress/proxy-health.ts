import { type Clock, systemClock } from '#lib/clock.ts';

export interface ProxyStatus {
  state: 'unchecked' | 'ok' | 'failing';
  /** Since when it is in this state, epoch ms; null: it was not asked for anything. */
  sinceMs: number | null;
  /** Why it fails. */
  reason: string | null;
}

/** The state of the outbound proxy, as its answer to what was asked last shows it. */
export class ProxyHealth {
  readonly #clock: Clock;
  #status: ProxyStatus = { state: 'unchecked', sinceMs: null, reason: null };
  #workedMs: number | undefined;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  status(): ProxyStatus {
    return { ...this.#status };
  }

  /** True when it works, and did so within this time. */
  workedWithin(ms: number): boolean {
    return (
      this.#status.state === 'ok' && this.#workedMs !== undefined && this.#clock.now() - this.#workedMs < ms
    );
  }

  worked(): void {
    this.#workedMs = this.#clock.now();
    if (this.#status.state !== 'ok') this.#status = { state: 'ok', sinceMs: this.#clock.now(), reason: null };
  }

  /** The time of the first failure stays, whatever the others give as their reason. */
  failed(reason: string): void {
    const { state, sinceMs } = this.#status;
    this.#status = {
      state: 'failing',
      sinceMs: state === 'failing' ? sinceMs : this.#clock.now(),
      reason,
    };
  }
}
