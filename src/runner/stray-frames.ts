import { ProtocolError } from './protocol.ts';

/** Frames for calls that have ended. They are normal directly after a kill or cancel, and an attack in large numbers. */
const strayFramesMax = 1000;
/** Errors that belong to no call and are reported for one process. Further ones only count as stray frames. */
const unattributedErrorsMax = 10;

/** The frames of one process that belong to no call in flight. */
export class StrayFrames {
  readonly #wasMade: (callId: number) => boolean;
  #count = 0;
  #unattributedErrors = 0;
  /** Calls that already had an `uncaught` frame. A second one for the same call breaks the protocol. */
  readonly #uncaughtCalls = new Set<number>();

  /** `wasMade` answers whether the process ever had a call with this ID. */
  constructor(wasMade: (callId: number) => boolean) {
    this.#wasMade = wasMade;
  }

  /** Throws when there are too many, or when the call was never made. */
  count(callId: number): void {
    if (!this.#wasMade(callId))
      throw new ProtocolError(`a frame belongs to call ${callId}, which was never made`);
    this.#count += 1;
    if (this.#count > strayFramesMax)
      throw new ProtocolError('too many frames belong to calls that have ended');
  }

  /** Throws when the call has failed this way before. */
  countUncaught(callId: number): void {
    if (this.#uncaughtCalls.has(callId)) throw new ProtocolError(`call ${callId} failed twice`);
    this.#uncaughtCalls.add(callId);
  }

  /** False for an error of no call after which no further one is reported. */
  mayReportUnattributed(): boolean {
    this.#unattributedErrors += 1;
    return this.#unattributedErrors <= unattributedErrorsMax;
  }
}
