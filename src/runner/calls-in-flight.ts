import { CallRecord } from './call-record.ts';
import type { PendingCall } from './pending-call.ts';
import { type CallAnswer, serviceError } from './process-end.ts';
import { ProtocolError, refreshedDeadlinesMax } from './protocol.ts';
import type { CallOptions } from './runner.ts';
import type { RunnerLimits } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';

export interface MovedBytes {
  /** Called with the bytes of each frame of the call, from its process and to it. */
  onMoved?: (bytes: number) => void;
}

export interface CallStart extends CallOptions, MovedBytes {
  deploymentId: string;
  deadlineMs: number;
  isLoad: boolean;
  isStep?: boolean;
  /** True: the process confirms that it has begun the call. */
  ack: boolean;
}

/** The calls that one process works on, with their deadlines. Each ID is used once in the life of a process. */
export class CallsInFlight {
  readonly #limits: RunnerLimits;
  readonly #timer: RunnerTimer;
  readonly #onDeadline: (id: number, pending: PendingCall) => void;
  readonly #onCancel: (id: number, pending: PendingCall) => void;
  readonly #calls = new Map<number, PendingCall>();
  readonly #countOf = new Map<string, number>();
  #nextId = 1;

  constructor(options: {
    limits: RunnerLimits;
    timer: RunnerTimer;
    /** Called when a deadline passes. The call itself has not ended; `decided` says how it ends. */
    onDeadline: (id: number, pending: PendingCall) => void;
    /** Called when the signal of a running call is aborted. */
    onCancel: (id: number, pending: PendingCall) => void;
  }) {
    this.#limits = options.limits;
    this.#timer = options.timer;
    this.#onDeadline = options.onDeadline;
    this.#onCancel = options.onCancel;
  }

  get count(): number {
    return this.#calls.size;
  }

  /** The calls in the order of their start. */
  get all(): IterableIterator<[number, PendingCall]> {
    return this.#calls.entries();
  }

  countOf(deploymentId: string): number {
    return this.#countOf.get(deploymentId) ?? 0;
  }

  get oldest(): PendingCall | undefined {
    return this.#calls.values().next().value;
  }

  get(id: number): PendingCall | undefined {
    return this.#calls.get(id);
  }

  /** The call that the process named, if it runs; otherwise the only running call, if there is just one. */
  named(id: number | undefined): PendingCall | undefined {
    const named = id === undefined ? undefined : this.#calls.get(id);
    if (named !== undefined || this.#calls.size !== 1) return named;
    return this.oldest;
  }

  /** True for every call that was started, also when it has ended. */
  wasMade(id: number): boolean {
    return id < this.#nextId;
  }

  newId(): number {
    const id = this.#nextId;
    this.#nextId += 1;
    return id;
  }

  start(id: number, options: CallStart): Promise<CallAnswer> {
    const { promise, resolve } = Promise.withResolvers<CallAnswer>();
    const pending: PendingCall = {
      record: new CallRecord(this.#limits, options.isStep),
      deploymentId: options.deploymentId,
      resolve,
      sentAtMs: this.#timer.nowMs(),
      deadlineMs: options.deadlineMs,
      stopDeadline: () => {},
      unstartedTicks: options.ack ? 0 : undefined,
      isLoad: options.isLoad,
      isStep: options.isStep === true,
      onRespond: options.onRespond,
      onRefused: options.onRefused,
      onHostCall: options.onHostCall,
      onMoved: options.onMoved,
      stopListening: undefined,
    };
    this.#calls.set(id, pending);
    this.#countOf.set(options.deploymentId, this.countOf(options.deploymentId) + 1);
    pending.stopDeadline = this.#timer.after(options.deadlineMs, () => this.#passDeadline(id, pending));
    const { signal } = options;
    if (signal !== undefined) {
      const cancel = (): void => {
        if (this.#calls.get(id) === pending) this.#onCancel(id, pending);
      };
      signal.addEventListener('abort', cancel, { once: true });
      pending.stopListening = () => signal.removeEventListener('abort', cancel);
      if (signal.aborted) queueMicrotask(cancel);
    }
    return promise;
  }

  #passDeadline(id: number, pending: PendingCall): void {
    const seconds = pending.deadlineMs / 1000;
    pending.decided = pending.isLoad
      ? {
          status: 'load_failed',
          error: serviceError(`the code did not finish loading within ${seconds} s`, 'load_deadline'),
        }
      : { status: 'timed_out', error: serviceError(`the run did not end within ${seconds} s`, 'deadline') };
    this.#onDeadline(id, pending);
  }

  /** The deadline starts over, but no call runs longer than `refreshedDeadlinesMax` times its deadline. */
  refreshDeadline(id: number, pending: PendingCall): void {
    if (!pending.isStep) throw new ProtocolError('a call that is no step asks for a new deadline');
    if (pending.decided !== undefined) return;
    const leftMs = pending.deadlineMs * refreshedDeadlinesMax - this.elapsedMs(pending);
    pending.stopDeadline();
    const ms = Math.max(0, Math.min(pending.deadlineMs, leftMs));
    pending.stopDeadline = this.#timer.after(ms, () => this.#passDeadline(id, pending));
  }

  /** Milliseconds since the call was sent. */
  elapsedMs(pending: PendingCall): number {
    return this.#timer.nowMs() - pending.sentAtMs;
  }

  answer(id: number, pending: PendingCall, answer: CallAnswer): void {
    if (!this.#calls.delete(id)) return;
    const left = this.countOf(pending.deploymentId) - 1;
    if (left > 0) this.#countOf.set(pending.deploymentId, left);
    else this.#countOf.delete(pending.deploymentId);
    pending.stopDeadline();
    pending.stopListening?.();
    pending.resolve(answer);
  }
}
