import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Linux takes ports from 32768 on for those who ask for any, as other tests do all the time: one of them could have the port before
 * the server that it is meant for has started.
 */
const range = { from: 20_000, to: 32_000 } as const;
const triesMax = 100;

/** A port of 127.0.0.1 that nothing listens on now, for a server whose port has to be known before it starts. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const port = randomInt(range.from, range.to);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
  throw new Error(`no port from ${range.from} to ${range.to} is free`);
}
