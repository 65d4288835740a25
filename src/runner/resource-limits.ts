import { residentOverheadMb } from './runner-limits.ts';

/** Maximum threads of Node, of its pool and of native addons. Processes cannot be started in any case. */
const threadsMax = 128;
const filesOpenMax = 1024;
/** Maximum growth of a process's memory in one burst, between two looks at its resident size. */
const burstMb = 256;
/** Writable memory that Node 26 maps before it runs anything. Most of it is never used. */
export const nodeDataMb = 576;

/** Threads of programs that start and set up the process, which are counted in its group. */
const otherTasksMax = 16;

const mb = 1024 * 1024;

/** Limits of the control group of a process. The watch over the resident size acts first, and says more about what happened. */
export function groupLimits(options: { memoryMb: number; scratchBytesMax: number }): {
  memoryBytesMax: number;
  tasksMax: number;
} {
  const { memoryMb, scratchBytesMax } = options;
  return {
    // Files in memory are counted in the group.
    memoryBytesMax: (memoryMb + residentOverheadMb + burstMb) * mb + scratchBytesMax,
    tasksMax: threadsMax + otherTasksMax,
  };
}

/**
 * Arguments for `prlimit`, which starts Node. The watch over the resident size acts first; the data limit bounds growth before the next look.
 * `ownUser`: no other process runs as this user, so threads, which are counted by user, can be limited.
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
