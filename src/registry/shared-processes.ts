import { newId } from '#lib/ids.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import type { Bundle, CallRequest, DescribeOutcome, Runner, UserCall } from '#runner/runner.ts';
import { type RunnerTimer, systemTimer } from '#runner/runner-timer.ts';

/** What one process holds before another one takes over: text with packages in it, and how many bundles there are. */
const codeBytesMax = 24 * 1024 * 1024;
const bundlesMax = 64;

/** The outcome of a call, as far as it shows without an account; `waiting`: it has not ended yet. */
export type TriedCall =
  | { status: CallOutcome['status']; error?: CallOutcome['error'] }
  | { status: 'refused' | 'waiting' };

interface SharedProcess {
  deploymentId: string;
  bundles: Set<string>;
  bytes: number;
}

/**
 * Processes in which many components are tried beside each other: what their packages are made of is evaluated once.
 * That a component works here says that it works; one that does not is to be tried alone, since another may be to blame.
 */
export class SharedProcesses {
  readonly #runner: Pick<Runner, 'describe' | 'call' | 'forget'>;
  readonly #ownerId: string;
  readonly #timer: RunnerTimer;
  /** By the packages that they may read. */
  readonly #current = new Map<string, SharedProcess>();
  readonly #started = new Set<string>();

  constructor(
    runner: Pick<Runner, 'describe' | 'call' | 'forget'>,
    ownerId: string,
    timer: RunnerTimer = systemTimer,
  ) {
    this.#runner = runner;
    this.#ownerId = ownerId;
    this.#timer = timer;
  }

  /** Evaluates a component and says what it defines; in a process of its own when that failed beside others. */
  async describe(bundle: Bundle, deadlineMs: number): Promise<DescribeOutcome> {
    const { status, result, logs } = await this.#runner.call({
      ...this.#place(bundle),
      ...{ call: { kind: 'describe' }, props: {}, deadlineMs },
    });
    if (status === 'finished') return { status: 'described', shape: result ?? '{}', logs };
    return this.#runner.describe({ bundle, ownerId: this.#ownerId });
  }

  /** Resolves when the call has ended, was refused a connection, or has waited long enough, in which case it may still continue. */
  async call(
    bundle: Bundle,
    made: { call: UserCall; props: Record<string, unknown> },
    times: { patienceMs: number; deadlineMs: number },
  ): Promise<TriedCall> {
    const { patienceMs, deadlineMs } = times;
    const request = { ...this.#place(bundle), ...made, deadlineMs };
    const outcome = await this.#tried((onRefused) => this.#runner.call(request, { onRefused }), patienceMs);
    // It may keep its process busy, for which all others would wait.
    if (outcome.status === 'waiting') await this.#end(request.deploymentId);
    return outcome;
  }

  /** As `call`, in a process of its own, which ends with it. */
  async callAlone(
    bundle: Bundle,
    made: { call: UserCall; props: Record<string, unknown> },
    deadlineMs: number,
  ): Promise<TriedCall> {
    const over = new AbortController();
    const deploymentId = newId('dc');
    const request = { ...this.#request(deploymentId, bundle), ...made, deadlineMs, alone: true } as const;
    const calling = (onRefused: () => void) => this.#runner.call(request, { onRefused, signal: over.signal });
    try {
      return await this.#tried(calling, deadlineMs * 2);
    } finally {
      over.abort();
      await this.#runner.forget(deploymentId);
    }
  }

  #tried(calling: (onRefused: () => void) => Promise<CallOutcome>, patienceMs: number): Promise<TriedCall> {
    const { promise, resolve, reject } = Promise.withResolvers<TriedCall>();
    const stopWaiting = this.#timer.after(patienceMs, () => resolve({ status: 'waiting' }));
    calling(() => resolve({ status: 'refused' })).then(resolve, reject);
    return promise.finally(stopWaiting);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#started].map((deploymentId) => this.#end(deploymentId)));
  }

  /** What is still under way in it ends as cancelled. */
  async #end(deploymentId: string): Promise<void> {
    this.#started.delete(deploymentId);
    for (const [key, current] of this.#current)
      if (current.deploymentId === deploymentId) this.#current.delete(key);
    await this.#runner.forget(deploymentId);
  }

  #place(bundle: Bundle): Omit<CallRequest, 'call' | 'props' | 'deadlineMs'> {
    const { deploymentId } = this.#processFor(bundle);
    const packages = bundle.packages === undefined ? [] : [bundle.packages];
    return { ...this.#request(deploymentId, bundle), module: bundle.hash, packages };
  }

  #request(deploymentId: string, bundle: Bundle): Omit<CallRequest, 'call' | 'props' | 'deadlineMs'> {
    return { deploymentId, ownerId: this.#ownerId, bundle, revision: 0, db: {}, isolated: true };
  }

  #processFor(bundle: Bundle): SharedProcess {
    const key = bundle.packages?.lockfile ?? '';
    let current = this.#current.get(key);
    if (current?.bundles.has(bundle.hash)) return current;
    if (current === undefined || current.bundles.size >= bundlesMax || current.bytes >= codeBytesMax) {
      current = { deploymentId: newId('dc'), bundles: new Set(), bytes: 0 };
      this.#current.set(key, current);
      this.#started.add(current.deploymentId);
    }
    current.bundles.add(bundle.hash);
    // Packages as files are there once for all.
    if (bundle.packages === undefined) current.bytes += bundle.code.length;
    return current;
  }
}
