import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';
import { ExpectedBytes } from '#lib/expected-bytes.ts';
import type { MovedBytes } from './calls-in-flight.ts';
import type { CallOptions } from './runner.ts';

/**
 * Bytes a second of one owner while others have calls. All that code sends is checked, kept and passed on by the loop that serves everyone:
 * with 100 MB a second of one owner, calls of others took five times as long (bench `floods`).
 */
const bytesPerSecond = 20_000_000;
/** The same for all owners together: the workspaces of one user are owners of their own. */
const bytesPerSecondOfAll = 60_000_000;
/** Calls of deployments that move less than this do not wait for those that move much. */
const littleBytes = 16 * 1024;
/** Deployments of which much is expected. */
const deploymentsMax = 10_000;

/** The name of what all owners owe together. */
const allOwners = '';

/** What one call moves between the service and its process. */
export interface Transfer {
  /** Resolves when the call may start. Absent: it may at once. */
  readonly turn?: Promise<void>;
  moved(bytes: number): void;
  /** Waits, for what the call asks of the service, while it has moved much and its owner owes. Absent: it need not wait. */
  wait(): Promise<void> | undefined;
  /** The call has ended, or will not start. `isForgotten`: its deployment has ended too. */
  end(isForgotten?: boolean): void;
}

/**
 * When calls start whose deployments move megabytes, while other owners have calls. A call under way is never slowed: what it sends would
 * wait in the memory of its process, which is ended when it has too much.
 */
export class TransferPace {
  readonly #pace: BytePace;
  readonly #all: BytePace;
  readonly #owners: ActiveOwners;
  /** By deployment. */
  readonly #expected = new ExpectedBytes({ much: littleBytes, kindsMax: deploymentsMax });

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
    const options = { isFree: () => !owners.areSeveral, ...(nowMs === undefined ? {} : { nowMs }) };
    this.#all = new BytePace({ perSecond: bytesPerSecondOfAll, ...options });
    this.#pace = new BytePace({
      ...{ perSecond: bytesPerSecond, ...options },
      ...(onDelayed === undefined ? {} : { onWait: onDelayed }),
    });
  }

  begin({ ownerId, deploymentId }: { ownerId: string; deploymentId: string }): Transfer {
    this.#owners.note(ownerId);
    const expected = this.#expected.of(deploymentId);
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
    const isLittle = expected < littleBytes;
    const mayStart = isLittle && !this.#pace.owesMost(ownerId);
    if (mayStart && start() > 0) this.#pace.owe(ownerId, owed);
    const ownTurn = mayStart ? undefined : this.#pace.turn(ownerId, start);
    const turnOfAll = () => this.#all.turn(allOwners, () => (hasEnded ? 0 : expected));
    const turn = isLittle ? ownTurn : ownTurn === undefined ? turnOfAll() : ownTurn.then(turnOfAll);
    return {
      ...(turn === undefined ? {} : { turn }),
      moved: (bytes) => {
        movedBytes += bytes;
        if (movedBytes <= owed) return;
        this.#pace.owe(ownerId, movedBytes - owed);
        this.#all.owe(allOwners, movedBytes - owed);
        owed = movedBytes;
      },
      wait: () =>
        movedBytes >= littleBytes && this.#pace.owes(ownerId) ? this.#pace.turn(ownerId, () => 0) : undefined,
      end: (isForgotten = false) => {
        if (hasEnded) return;
        hasEnded = true;
        if (movedBytes < owed) {
          this.#pace.owe(ownerId, movedBytes - owed);
          if (!isLittle) this.#all.owe(allOwners, movedBytes - owed);
        }
        if (!isForgotten) this.#expected.saw(deploymentId, { moved: movedBytes, expected });
      },
    };
  }

  forget(deploymentId: string): void {
    this.#expected.forget(deploymentId);
  }

  /** Lets all calls start. */
  close(): void {
    this.#pace.close();
    this.#all.close();
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
        await transfer.wait();
        const answer = await onHostCall(asked);
        transfer.moved(answer.body?.byteLength ?? 0);
        return answer;
      },
    }),
  };
}
