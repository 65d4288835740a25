import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';

const home = '/tmp';

/**
 * Answers calls of `node:os` that cannot work here. User code runs as a user without an account, so Node's own functions throw. Packages ask for the
 * home folder while they load, and mostly do not need it.
 */
export function giveHome(): void {
  const { uid, gid } = { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 };
  const homedir = (): string => process.env.HOME ?? home;
  const userInfo = () => ({ uid, gid, username: 'millrace', homedir: homedir(), shell: null });
  // Node needs a socket for these, and none may be made. The interfaces of the machine are of no use here.
  const networkInterfaces = () => ({});
  for (const [name, value] of Object.entries({ homedir, userInfo, networkInterfaces }))
    Object.defineProperty(os, name, { value, writable: true, enumerable: true, configurable: true });
  syncBuiltinESMExports();
}
