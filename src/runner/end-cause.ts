import type { ProcessExit } from './launch-messages.ts';
import type { PendingCall } from './pending-call.ts';
import type { EndReason } from './process-end.ts';
import { outOfMemory } from './process-watchdog.ts';
import type { RawOutput } from './raw-output.ts';
import type { RunnerLimits } from './runner-limits.ts';

/** Why one process ends. The first reason counts, because the ones after it follow from it. */
export class EndCause {
  /** Undefined while no reason is known, and for a process that ended by itself. */
  reason: EndReason | undefined;
  detail = '';
  /** The call that caused the end. Undefined when that is not known, or when no call did. */
  culprit: PendingCall | undefined;
  /** True when code ended the process whose call had ended. */
  isStrayExit = false;

  set(reason: EndReason, detail: string, culprit?: PendingCall): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.detail = detail;
    this.culprit ??= culprit;
  }

  /** True when the process passed a limit, after which an outcome that it reports does not count. */
  get isPassedLimit(): boolean {
    return this.reason === 'out_of_memory' || this.reason === 'limit_exceeded';
  }

  /** True when the process was no longer needed. */
  get isNormal(): boolean {
    return this.reason === 'retired' || this.reason === 'closing';
  }

  /** Completes the cause with how the process exited and what it wrote. */
  conclude({ code, signal }: ProcessExit, output: RawOutput, limits: RunnerLimits): void {
    // The launcher has ended, so no code is to blame.
    if (code === null && signal === null) this.set('cancelled', 'the service lost the process');
    if (this.reason === undefined && output.saysOutOfMemory) {
      const { reason, detail } = outOfMemory(limits);
      this.set(reason, detail);
    }
    if (this.reason === undefined)
      this.detail = `the process ended ${signal === null ? `with code ${code}` : `by ${signal}`}`;
  }
}
