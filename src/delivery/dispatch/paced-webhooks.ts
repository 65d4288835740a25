import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';

/**
 * Requests a second to the webhooks of one owner while others have something to do, and those that are sent at once. A request takes up to
 * a millisecond of the loop that serves everyone: with two thousand a second, calls of others took ten times as long.
 */
const perSecond = 500;
const atOnce = 100;

export interface WebhookPacing {
  /** Those for whom the requests of one owner wait. */
  owners: ActiveOwners;
  /** Called for each wait of a webhook. */
  onDelayed: (ownerId: string) => void;
}

interface PacedLane {
  readonly listenerId: string;
  readonly ownerId: string;
}

/** When requests to webhooks begin, for each owner. What waits stays in its lane. */
export class PacedWebhooks<Lane extends PacedLane> {
  readonly #owners: ActiveOwners | undefined;
  readonly #send: (lane: Lane) => void;
  readonly #pace: BytePace;
  readonly #waiting = new Set<Lane>();
  /** The lane whose turn it is: its next request is counted already. */
  #atTurn: Lane | undefined;

  /** `send` continues a lane that waited for its turn. Without `pacing`, nothing waits. */
  constructor(pacing: WebhookPacing | undefined, send: (lane: Lane) => void) {
    this.#owners = pacing?.owners;
    this.#send = send;
    this.#pace = new BytePace({
      ...{ perSecond, atOnce },
      isFree: () => pacing?.owners.areSeveral !== true,
      ...(pacing === undefined ? {} : { onWait: pacing.onDelayed }),
    });
  }

  /** False: the lane waits, and is continued when its owner may send again. */
  mayStart(lane: Lane): boolean {
    if (!isWebhook(lane) || this.#atTurn === lane) return true;
    if (this.#waiting.has(lane)) return false;
    const turn = this.#pace.owes(lane.ownerId) ? this.#pace.turn(lane.ownerId, () => 1) : undefined;
    if (turn === undefined) return true;
    this.#waiting.add(lane);
    void turn.then(() => {
      this.#waiting.delete(lane);
      this.#atTurn = lane;
      this.#send(lane);
      if (this.#atTurn === lane) {
        // It had nothing to send any longer.
        this.#atTurn = undefined;
        this.#pace.owe(lane.ownerId, -1);
      }
    });
    return false;
  }

  has(lane: Lane): boolean {
    return this.#waiting.has(lane);
  }

  /** Counts a request that begins. */
  count(lane: Lane): void {
    if (!isWebhook(lane)) return;
    this.#owners?.note(lane.ownerId);
    if (this.#atTurn === lane) this.#atTurn = undefined;
    else this.#pace.owe(lane.ownerId, 1);
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#pace.close();
  }
}

function isWebhook({ listenerId }: PacedLane): boolean {
  return listenerId.startsWith('wh_');
}
