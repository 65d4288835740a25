import { residentOverheadMb } from './runner-limits.ts';

/** Threads of Node, of its pool and of native addons; processes cannot be started at all. */
const threadsMax = 128;
const filesOpenMax = 1024;
/** What the memory of a process may grow in one burst, between two looks at its resident size. */
const burstMb = 256;
/** Writable memory that Node 26 maps before it runs anything, most of which it never uses. */
const nodeDataMb = 576;

const mb = 1024 * 1024;

/**
 * What `prlimit` is told before it starts Node. The watch over the resident size comes first; the limit of data bounds what code can take
 * before the next look. `ownUser`: threads are counted by user, so nobody else may have this one.
 */
export function resourceLimits(options: {
  memoryMb: number;
  fileBytesMax: number;
  ownUser: boolean;
}): string[] {
  const { memoryMb, fileBytesMax, ownUser } = options;
  const dataBytes = (nodeDataMb + 2 * (memoryMb + residentOverheadMb) + burstMb) * mb;
  return [
    ...['--core=0', `--nofile=${filesOpenMax}`, ...(ownUser ? [`--nproc=${threadsMax}`] : [])],
    ...[`--fsize=${fileBytesMax}`, `--data=${dataBytes}`, '--msgqueue=0', '--memlock=65536'],
  ];
}
