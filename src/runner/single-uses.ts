import type { Clock } from '#lib/clock.ts';
import { processMemory } from './process-memory.ts';
import type { RunnerProcess } from './runner.ts';
import type { SandboxProcess } from './sandbox-process.ts';

type Use = Pick<RunnerProcess, 'ownerId' | 'trustDomain' | 'purpose' | 'deploymentIds'>;

/** Processes that evaluate or run one thing, and end with it. */
export class SingleUses {
  readonly #clock: Clock;
  readonly #uses = new Map<SandboxProcess, Use & { startedAtMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(process: SandboxProcess, use: Use): void {
    this.#uses.set(process, { ...use, startedAtMs: this.#clock.now() });
    void process.ended.then(() => this.#uses.delete(process));
  }

  /** Processes of calls of this deployment. */
  of(deploymentId: string): SandboxProcess[] {
    return [...this.#uses].flatMap(([process, { deploymentIds }]) =>
      deploymentIds.includes(deploymentId) ? process : [],
    );
  }

  describe(): RunnerProcess[] {
    return [...this.#uses].map(([process, use]) => ({
      ...use,
      ...{ pid: process.pid, isShared: false, lastBlame: undefined, calls: process.callsInFlight },
      ...{ cores: process.cpu.cores, isGreedy: process.cpu.isGreedy },
      state: process.isBlocked ? 'blocked' : 'busy',
      memoryBytes: process.pid === undefined ? undefined : processMemory(process.pid)?.residentBytes,
    }));
  }
}
