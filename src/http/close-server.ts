import type { Server } from 'node:http';

/** What `beginClose` needs of a Fastify server. */
interface ClosableServer {
  close(): PromiseLike<unknown>;
  readonly server: Pick<Server, 'closeAllConnections'>;
}

/** Answers that are known at the end of the grace still go out: those of runs that were given back, for instance. */
const lastAnswersMs = 500;

/**
 * Refuses new connections immediately and ends idle ones; requests under way continue. The function it answers waits for them
 * until `graceMs` after the beginning, and then closes the connections that are left: a stop must not depend on how long a caller waits.
 */
export function beginClose(server: ClosableServer, graceMs: number): () => Promise<void> {
  const deadlineMs = performance.now() + graceMs;
  const closed = Promise.resolve(server.close());
  // Callers that wait get an error.
  closed.catch(() => {});
  return async () => {
    const leftMs = Math.max(deadlineMs - performance.now(), lastAnswersMs);
    const timer = setTimeout(() => server.server.closeAllConnections(), leftMs);
    try {
      await closed;
    } finally {
      clearTimeout(timer);
    }
  };
}
