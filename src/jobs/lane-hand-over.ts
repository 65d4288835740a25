import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { LaneLeases } from './lane-leases.ts';

/** Lanes that are handed over are looked at so often, until nothing of them is under way here. */
const handOverMs = 250;

/** Gives lanes to nodes that have fewer, each as soon as nothing of it is under way here. */
export class LaneHandOver {
  readonly #lanes: Pick<LaneLeases, 'node' | 'giveUp' | 'isLeaving'>;
  readonly #isBusy: (lane: string) => boolean;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #givingUp: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: {
    lanes: Pick<LaneLeases, 'node' | 'giveUp' | 'isLeaving'>;
    isBusy: (lane: string) => boolean;
    logger: Logger;
  }) {
    this.#lanes = options.lanes;
    this.#isBusy = options.isBusy;
    this.#logger = options.logger;
  }

  /** Some lanes are to go. */
  begin(): void {
    if (this.#isStopped || this.#givingUp !== undefined) return;
    clearTimeout(this.#timer);
    this.#givingUp = this.#giveUp().then(() => {
      this.#givingUp = undefined;
      if (this.#lanes.isLeaving && !this.#isStopped) this.#timer = setTimeout(() => this.begin(), handOverMs);
    });
  }

  /** Nothing more is given; what is being given is waited for. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#givingUp;
  }

  async #giveUp(): Promise<void> {
    try {
      await this.#lanes.giveUp(this.#isBusy);
    } catch (error) {
      this.#logger.warn({ node: this.#lanes.node, error: toError(error).message }, 'job.hand-over-failed');
    }
  }
}
