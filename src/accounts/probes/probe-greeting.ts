import type { Socket } from 'node:net';
import type { AppTest } from '#accounts/apps/app-definition.ts';
import { dialVetted } from '#egress/dial-vetted.ts';
import { ProbeFailure, type ProbeOptions, type TestOutcome, UnfitCredentials } from './account-probe.ts';

type SocketTest = Exclude<AppTest, { kind: 'http' }>;

const connectTimeoutMs = 10_000;
/** What a server says first is far shorter. */
const greetingBytesMax = 4096;

/**
 * Tests that a server of the kind listens there: connects, and reads its first message. It does not log in, so the result
 * says nothing about user name and password.
 */
export async function probeGreeting(test: SocketTest, options: ProbeOptions): Promise<TestOutcome> {
  const { asked, socket } = await dialTarget(test, options);
  try {
    if (test.kind === 'tcp') return { outcome: 'works', message: `${asked} took a connection` };
    const judge = test.kind === 'mysql' ? judgeMysql : judgeSsh;
    const found = await readGreeting(socket, judge, options.signal).catch((error: unknown) => {
      throw new ProbeFailure(asked, error);
    });
    return { outcome: found.outcome, message: `${asked} ${found.message}` };
  } finally {
    socket.on('error', () => {}).destroy();
  }
}

/** A connection to the host and port of a test, vetted. Throws ProbeFailure, UnfitCredentials. */
export async function dialTarget(
  test: SocketTest,
  options: ProbeOptions,
): Promise<{ asked: string; host: string; port: number; socket: Socket }> {
  const { policy, lookup, signal, fill } = options;
  const host = fill(test.host, 'text').trim();
  const portText = fill(test.port, 'text').trim();
  if (host === '' || /[\s/@]/.test(host)) throw new UnfitCredentials('the host is no host name');
  const port = Number(portText);
  if (!/^\d{1,5}$/.test(portText) || port < 1 || port > 65_535) {
    throw new UnfitCredentials('the port is no number from 1 to 65535');
  }
  const asked = `${test.kind} ${host}:${port}`;
  try {
    const socket = await dialVetted(host, port, {
      policy,
      connectTimeoutMs,
      signal,
      ...(lookup === undefined ? {} : { lookup }),
    });
    return { asked, host, port, socket };
  } catch (error) {
    throw new ProbeFailure(asked, error);
  }
}

/** What a greeting that came so far says; undefined: more is needed. */
type Judge = (greeting: Buffer) => TestOutcome | undefined;

async function readGreeting(socket: Socket, judge: Judge, signal: AbortSignal): Promise<TestOutcome> {
  const onAbort = (): void => {
    socket.destroy(signal.reason as Error);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  let greeting = Buffer.alloc(0);
  try {
    if (signal.aborted) throw signal.reason;
    for await (const chunk of socket) {
      greeting = Buffer.concat([greeting, chunk as Buffer]);
      const found = judge(greeting);
      if (found !== undefined) return found;
      if (greeting.length > greetingBytesMax) break;
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
  return { outcome: 'unreachable', message: 'did not greet as a server of this kind does' };
}

/** MySQL protocol: a packet (3 bytes of length, a number) with protocol version 10, or with an error (0xff, a code). */
function judgeMysql(greeting: Buffer): TestOutcome | undefined {
  if (greeting.length < 7) return undefined;
  if (greeting[4] === 10)
    return { outcome: 'works', message: 'greeted as a MySQL server (no login was tried)' };
  const error = greeting[4] === 0xff ? ` (error ${greeting.readUInt16LE(5)})` : '';
  return { outcome: 'unreachable', message: `did not greet as a MySQL server${error}` };
}

/** RFC 4253, section 4.2: lines, one of which begins with `SSH-`. */
function judgeSsh(greeting: Buffer): TestOutcome | undefined {
  const version = /^SSH-(2\.0|1\.99)-[^\r\n]*\r?\n/m.test(greeting.toString('latin1'));
  return version ? { outcome: 'works', message: 'greeted as an SSH server (no login was tried)' } : undefined;
}
