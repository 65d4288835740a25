import type { HttpReply } from '#runner/call-outcome.ts';

/** How a waiting HTTP request is answered. */
export interface ReplyWaiter {
  /** Its turn has come: from now on the deadline of a run bounds the wait. */
  started(): void;
  respond(reply: HttpReply): void;
  /** The run is over and the component did not respond. */
  ended(reason: string): void;
  /** The run did not come to its end here (the service stops, the store is away): it will be run again later. */
  interrupted(): void;
}
