import { totalmem } from 'node:os';

/** Memory that this process and its children may use, in bytes: that of the machine, or of the container. */
export function machineMemoryBytes(): number {
  return Math.min(totalmem(), process.constrainedMemory() || totalmem());
}
