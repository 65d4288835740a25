import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';

/** What a process could do that it must not. Values are error codes, or what succeeded. */
export interface ProbeReport {
  readFile: string;
  listFolder: string;
  connect: string;
  environment: string[];
}

/** Tries what the sandbox forbids, with Node's own functions as they are before anything is replaced. */
export async function probeSandbox(): Promise<ProbeReport> {
  return {
    readFile: codeOf(() => readFileSync(process.execPath)),
    listFolder: codeOf(() => readdirSync('/')),
    connect: await codeOfConnect(),
    environment: Object.keys(process.env),
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

/** Port 1 of loopback: nobody listens there, so without a sandbox the answer is ECONNREFUSED. */
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
