import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';
import type { MovedBytes } from './calls-in-flight.ts';
import type { CallOptions } from './runner.ts';

/**
 * Bytes a second of one owner while others have calls. All that code sends is checked, kept and passed on by the loop that serves everyone:
 * with 100 MB a second of one owner, calls of others took five times as long (bench `floods`).
 */
const bytesPerSecond = 20_000_000;
/** Calls of deployments that move less than this do not wait for those that move much. */
const littleBytes = 64 * 1024;
/** What is expected of a deployment is its largest call, forgotten slowly: small calls between large ones hide nothing. */
const keptPart = 0.9;
/** Deployments of which much is expected. */
const deploymentsMax = 10_000;

/** What one call moves between the service and its process. */
export interface Transfer {
  /** Resolves when the call may start. Absent: it may at once. */
  readonly turn?: Promise<void>;
  moved(bytes: number): void;
  /** The call has ended, or will not start. `isForgotten`: its deployment has ended too. */
  end(isForgotten?: boolean): void;
}

/**
 * When calls start whose deployments move megabytes, while other owners have calls. A call under way is never slowed: what it sends would
 * wait in the memory of its process, which is ended when it has too much.
 */
export class TransferPace {
  readonly #pace: BytePace;
  readonly #owners: ActiveOwners;
  /** Bytes that the next call of a deployment is expected to move. */
  readonly #expected = new Map<string, number>();

  constructor({
    owners,
    onDelayed,
    nowMs,
  }: {
    owners: ActiveOwners;
    onDelayed?: (ownerId: string) => void;
    nowMs?: () => number;
  }) {
    this.#owners = owners;
    this.#pace = new BytePace({
      perSecond: bytesPerSecond,
      isFree: () => !owners.areSeveral,
      ...(onDelayed === undefined ? {} : { onWait: onDelayed }),
      ...(nowMs === undefined ? {} : { nowMs }),
    });
  }

  begin({ ownerId, deploymentId }: { ownerId: string; deploymentId: string }): Transfer {
    this.#owners.note(ownerId);
    const expected = this.#expected.get(deploymentId) ?? 0;
    let movedBytes = 0;
    /** Counted for this call. */
    let owed = 0;
    let hasEnded = false;
    const start = (): number => {
      // It was given up while it waited.
      if (hasEnded) return 0;
      owed = expected;
      return expected;
    };
    const mayStart = expected < littleBytes && !this.#pace.owesMost(ownerId);
    if (mayStart && start() > 0) this.#pace.owe(ownerId, owed);
    const turn = mayStart ? undefined : this.#pace.turn(ownerId, start);
    return {
      ...(turn === undefined ? {} : { turn }),
      moved: (bytes) => {
        movedBytes += bytes;
        if (movedBytes <= owed) return;
        this.#pace.owe(ownerId, movedBytes - owed);
        owed = movedBytes;
      },
      end: (isForgotten = false) => {
        if (hasEnded) return;
        hasEnded = true;
        if (movedBytes < owed) this.#pace.owe(ownerId, movedBytes - owed);
        if (!isForgotten) this.#expect(deploymentId, Math.max(movedBytes, expected * keptPart));
      },
    };
  }

  forget(deploymentId: string): void {
    this.#expected.delete(deploymentId);
  }

  /** Lets all calls start. */
  close(): void {
    this.#pace.close();
  }

  #expect(deploymentId: string, bytes: number): void {
    if (bytes < littleBytes) this.#expected.delete(deploymentId);
    else if (this.#expected.has(deploymentId) || this.#expected.size < deploymentsMax)
      this.#expected.set(deploymentId, bytes);
  }
}

/** Options of a call whose bytes are counted. */
export function counted(options: CallOptions, transfer: Transfer): CallOptions & MovedBytes {
  const { onHostCall } = options;
  return {
    ...options,
    onMoved: transfer.moved,
    ...(onHostCall && {
      onHostCall: async (asked) => {
        const answer = await onHostCall(asked);
        transfer.moved(answer.body?.byteLength ?? 0);
        return answer;
      },
    }),
  };
}
