import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import type { AttackTargets } from './protocol.ts';

/** What the attacks of the self-test aim at, outside the sandbox: a file in `folder`, this process, and somebody who listens. */
export async function makeAttackTargets(
  folder: string,
): Promise<Omit<AttackTargets, 'program'> & AsyncDisposable> {
  const canary = join(folder, `canary-${randomUUID()}`);
  const secret = randomUUID();
  writeFileSync(canary, secret, { mode: 0o444 });
  // The umask may have taken what makes the attack an honest one.
  chmodSync(canary, 0o444);
  const server = createServer((socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    ...{ servicePid: process.pid, canary, secret },
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      rmSync(canary, { force: true });
      server.close();
      await once(server, 'close');
    },
  };
}
