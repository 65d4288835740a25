import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import type { AttackTargets } from './protocol.ts';
import { processStart } from './sandbox/process-start.ts';

/** Targets of the self-test's attacks outside the sandbox: a file in `folder`, this process, and a listening server. */
export async function makeAttackTargets(
  folder: string,
): Promise<Omit<AttackTargets, 'program'> & AsyncDisposable> {
  const canary = join(folder, `canary-${randomUUID()}`);
  const secret = randomUUID();
  writeFileSync(canary, secret, { mode: 0o444 });
  // The umask may have removed the read permission, and the attack would then fail without any sandbox.
  chmodSync(canary, 0o444);
  const server = createServer((socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    ...{ servicePid: process.pid, serviceStart: processStart(process.pid), canary, secret },
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      rmSync(canary, { force: true });
      server.close();
      await once(server, 'close');
    },
  };
}
