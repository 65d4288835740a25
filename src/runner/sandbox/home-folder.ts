import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';

const home = '/tmp';

/**
 * What `node:os` cannot know here. The user that code runs as is known to no list of users, so that Node's own functions throw. Packages ask for the home
 * folder when they are loaded, and mostly do not need it.
 */
export function giveHome(): void {
  const { uid, gid } = { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 };
  const homedir = (): string => process.env.HOME ?? home;
  const userInfo = () => ({ uid, gid, username: 'millrace', homedir: homedir(), shell: null });
  // No socket may be made, and Node asks one for them. What the machine has is of no use here.
  const networkInterfaces = () => ({});
  for (const [name, value] of Object.entries({ homedir, userInfo, networkInterfaces }))
    Object.defineProperty(os, name, { value, writable: true, enumerable: true, configurable: true });
  syncBuiltinESMExports();
}
