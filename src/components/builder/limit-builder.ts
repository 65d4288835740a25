import fs from 'node:fs';
import { Socket } from 'node:net';
import { bytesText, countText } from '#lib/units.ts';

/**
 * What Node's permission flags cannot say, enforced inside the installer, which runs no foreign code: it connects to
 * the registry (or the proxy before it) and nowhere else, and writes no more than a bound. Call before npm's code loads.
 */
export function limitConnections(allowed: ReadonlySet<string>): void {
  const connect = Socket.prototype.connect;
  Socket.prototype.connect = function (this: Socket, ...given: unknown[]): Socket {
    const target = targetOf(given);
    if (target !== null && allowed.has(target)) return Reflect.apply(connect, this, given) as Socket;
    const error = Object.assign(
      new Error(`connection to ${target ?? 'a local socket'} refused: not the registry`),
      {
        code: 'EREFUSEDHOST',
      },
    );
    return this.destroy(error);
  } as typeof connect;
}

function targetOf(given: unknown[]): string | null {
  // Node's own callers pass the arguments as one array, already sorted out.
  const [first, second] = (Array.isArray(given[0]) ? given[0] : given) as unknown[];
  if (typeof first !== 'object' || first === null) {
    return typeof first === 'string' && !/^\d+$/.test(first)
      ? null
      : `${typeof second === 'string' ? second : 'localhost'}:${String(first)}`;
  }
  const { host, port, path } = first as { host?: string; port?: number | string; path?: string };
  // http passes the path of the request along; only without a port is it a local socket.
  return port === undefined && path !== undefined ? null : `${host ?? 'localhost'}:${port}`;
}

/**
 * Fails writes beyond the bounds, so that a package cannot unpack to a disk full of files. `answerFd` stays open for the
 * message that says so. Returns a function that sets the bounds, and resets the counts, for one request; until it is called
 * nothing may be written. That function returns a function that throws once a bound was passed: tar takes a file it cannot write
 * for a warning and continues, so an install that ends well may have files missing.
 */
export function limitWrites(
  answerFd: number,
): (bounds: { filesMax: number; bytesMax: number }) => () => void {
  let bounds = { filesMax: 0, bytesMax: 0 };
  let files = 0;
  let bytes = 0;
  const { open, write, writev } = fs;
  const isOver = (): boolean => files > bounds.filesMax || bytes > bounds.bytesMax;
  const tooLarge = (): Error =>
    Object.assign(
      new Error(
        `packages unpack to more than ${countText(bounds.filesMax)} files or ${bytesText(bounds.bytesMax)}`,
      ),
      { code: 'ETOOLARGE' },
    );
  const refuse = (given: unknown[]): void => {
    process.nextTick(given.at(-1) as (error: Error) => void, tooLarge());
  };
  const limited =
    (original: (...given: never[]) => unknown, count: (given: unknown[]) => void) =>
    (...given: unknown[]): void => {
      if (given[0] !== answerFd) count(given);
      if (isOver() && given[0] !== answerFd) refuse(given);
      else Reflect.apply(original, fs, given);
    };
  Object.assign(fs, {
    open: limited(open, ([, flags]) => {
      if (
        typeof flags === 'string'
          ? /[wa]/.test(flags)
          : typeof flags === 'number' && (flags & fs.constants.O_CREAT) !== 0
      )
        files += 1;
    }),
    write: limited(write, ([, data, , length]) => {
      bytes +=
        typeof length === 'number'
          ? length
          : typeof data === 'string'
            ? data.length
            : ((data as Buffer).byteLength ?? 0);
    }),
    writev: limited(writev, ([, buffers]) => {
      for (const buffer of buffers as Buffer[]) bytes += buffer.byteLength;
    }),
  });
  return ({ filesMax, bytesMax }) => {
    bounds = { filesMax, bytesMax };
    files = 0;
    bytes = 0;
    return () => {
      if (isOver()) throw tooLarge();
    };
  };
}
