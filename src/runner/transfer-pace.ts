import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';
import { ExpectedBytes } from '#lib/expected-bytes.ts';
import { inTurn } from '#lib/in-turn.ts';
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
/** Deployments of which much is expected, and of which it is known. */
const deploymentsMax = 10_000;
const knownMax = 50_000;
/**
 * What a call of a deployment counts of which nothing is known, until it has ended, and what such calls of one owner may owe when the next one
 * begins. Fifty new sources that sent their first events together, of 5.5 MB each, made calls of others take ten times as long.
 */
const firstCallBytes = 500_000;
const firstCallsBytes = 4_000_000;

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
  /** For calls of deployments of which nothing is known. */
  readonly #first: BytePace;
  readonly #owners: ActiveOwners;
  /** By deployment. */
  readonly #expected = new ExpectedBytes({ much: littleBytes, kindsMax: deploymentsMax });
  /** Deployments of which a call has ended; those that ended one last are at the end. */
  readonly #known = new Set<string>();

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
    const ofOne = { ...options, ...(onDelayed === undefined ? {} : { onWait: onDelayed }) };
    this.#all = new BytePace({ perSecond: bytesPerSecondOfAll, ...options });
    this.#pace = new BytePace({ perSecond: bytesPerSecond, ...ofOne });
    this.#first = new BytePace({ perSecond: bytesPerSecond, atOnce: firstCallsBytes, ...ofOne });
  }

  begin({ ownerId, deploymentId }: { ownerId: string; deploymentId: string }): Transfer {
    this.#owners.note(ownerId);
    const isFirst = !this.#known.has(deploymentId);
    let expected = 0;
    let movedBytes = 0;
    let hasEnded = false;
    /** What is counted for this call. A call that was given up while it waited begins, and counts, nothing. */
    const owed = { ofOwner: 0, ofAll: 0, first: 0 };
    const begins = (of: keyof typeof owed, bytes: number) => () => {
      if (hasEnded) return 0;
      owed[of] = bytes;
      return bytes;
    };
    const turn = inTurn(
      () => (isFirst ? this.#first.turn(ownerId, begins('first', firstCallBytes)) : undefined),
      () => {
        // One of the same deployment may have ended while this one waited.
        expected = this.#expected.of(deploymentId);
        return this.#turnOf(ownerId, expected, begins('ofOwner', expected));
      },
      () => (expected < littleBytes ? undefined : this.#all.turn(allOwners, begins('ofAll', expected))),
    );
    const count = (bytes: number) => {
      this.#pace.owe(ownerId, bytes - owed.ofOwner);
      this.#all.owe(allOwners, bytes - owed.ofAll);
      if (isFirst) this.#first.owe(ownerId, bytes - owed.first);
      owed.ofOwner = bytes;
      owed.ofAll = bytes;
      owed.first = bytes;
    };
    return {
      ...(turn === undefined ? {} : { turn }),
      moved: (bytes) => {
        movedBytes += bytes;
        if (movedBytes > owed.ofOwner) count(movedBytes);
      },
      wait: () =>
        movedBytes >= littleBytes && this.#pace.owes(ownerId) ? this.#pace.turn(ownerId, () => 0) : undefined,
      end: (isForgotten = false) => {
        if (hasEnded) return;
        hasEnded = true;
        if (movedBytes < owed.ofOwner || movedBytes < owed.first) count(movedBytes);
        if (isForgotten) return;
        this.#expected.saw(deploymentId, { moved: movedBytes, expected });
        this.#know(deploymentId);
      },
    };
  }

  /** Calls of which little is expected wait only while their owner moves more than it waits for. */
  #turnOf(ownerId: string, expected: number, begins: () => number): Promise<void> | undefined {
    if (expected >= littleBytes || this.#pace.owesMost(ownerId)) return this.#pace.turn(ownerId, begins);
    const bytes = begins();
    if (bytes > 0) this.#pace.owe(ownerId, bytes);
    return undefined;
  }

  #know(deploymentId: string): void {
    this.#known.delete(deploymentId);
    this.#known.add(deploymentId);
    const [oldest] = this.#known;
    if (this.#known.size > knownMax && oldest !== undefined) this.#known.delete(oldest);
  }

  forget(deploymentId: string): void {
    this.#expected.forget(deploymentId);
    this.#known.delete(deploymentId);
  }

  /** Lets all calls start. */
  close(): void {
    this.#pace.close();
    this.#all.close();
    this.#first.close();
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
