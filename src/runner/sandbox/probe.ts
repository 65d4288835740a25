import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import type { ProbeRequest } from '#runner/protocol.ts';
import { runAttacks } from './attacks.ts';

/** What a process could do although it must not. Values are error codes, or `allowed`. */
export interface ProbeReport {
  readFile: string;
  listFolder: string;
  connect: string;
  environment: string[];
  changeFolder: string;
  setFlags: string;
  signalService: string;
  attacks: { tried: number; through: string[] };
}

/** Tries what the sandbox forbids, in the state in which user code starts. */
export async function probeSandbox(
  scratch: string,
  { hostFile, attacks, bare }: ProbeRequest,
): Promise<Partial<ProbeReport>> {
  const attacked = attacks === undefined ? {} : { attacks: await runAttacks(attacks, scratch) };
  if (bare === true) return attacked;
  return {
    ...attacked,
    readFile: codeOf(() => readFileSync(hostFile)),
    listFolder: codeOf(() => readdirSync(dirname(hostFile))),
    connect: await codeOfConnect(),
    environment: Object.keys(process.env),
    changeFolder: codeOf(() => process.chdir(scratch)),
    setFlags: codeOf(() => process.getBuiltinModule('node:v8').setFlagsFromString('--no-trace-gc')),
    signalService: codeOf(() => process.kill(process.ppid, 0)),
  };
}

function codeOf(attempt: () => unknown): string {
  try {
    attempt();
    return 'allowed';
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

/** Connects to port 1 of loopback. No server listens there, so without a sandbox the error is ECONNREFUSED. */
function codeOfConnect(): Promise<string> {
  return new Promise((resolve) => {
    try {
      const socket = connect({ host: '127.0.0.1', port: 1 });
      socket.on('connect', () => {
        socket.destroy();
        resolve('allowed');
      });
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    } catch (error) {
      resolve(String((error as NodeJS.ErrnoException).code));
    }
  });
}
