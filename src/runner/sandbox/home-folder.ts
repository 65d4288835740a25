import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';

const home = '/tmp';

/**
 * The user that code runs as is known to no list of users, so that Node's own functions throw. Packages ask for the home
 * folder when they are loaded, and mostly do not need it.
 */
export function giveHome(): void {
  const { uid, gid } = { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 };
  const homedir = (): string => process.env.HOME ?? home;
  const userInfo = () => ({ uid, gid, username: 'millrace', homedir: homedir(), shell: null });
  for (const [name, value] of Object.entries({ homedir, userInfo }))
    Object.defineProperty(os, name, { value, writable: true, enumerable: true, configurable: true });
  syncBuiltinESMExports();
}
