import type { HttpReply } from '#runner/call-outcome.ts';

/** Answers an HTTP request that waits for the reply of a run. */
export interface ReplyWaiter {
  /** The run has started: from now on its deadline bounds the wait. */
  started(): void;
  respond(reply: HttpReply): void;
  /** The run ended without a response. */
  ended(reason: string): void;
  /** The run was interrupted (the service is stopping, the store is unavailable), and will run again later. */
  interrupted(): void;
}

/** Two waiters for one reply. */
export function both(one: ReplyWaiter, other: ReplyWaiter): ReplyWaiter {
  return {
    started() {
      one.started();
      other.started();
    },
    respond(reply) {
      one.respond(reply);
      other.respond(reply);
    },
    ended(reason) {
      one.ended(reason);
      other.ended(reason);
    },
    interrupted() {
      one.interrupted();
      other.interrupted();
    },
  };
}
