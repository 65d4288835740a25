import { closeSync, fstatSync } from 'node:fs';

/** 0-2 standard streams, 3 rpc, 4 egress, 5 files of packages. */
const lastOwnDescriptor = 5;
const highestLooked = 255;

/**
 * Closes descriptors that the parent of the service left open without close-on-exec, and that this process inherited. Node itself has only
 * anonymous inodes and pipes above 5. Files and sockets are foreign, and are closed before user code exists. Returns their number.
 */
export function closeInheritedDescriptors(): number {
  let closed = 0;
  for (let descriptor = lastOwnDescriptor + 1; descriptor <= highestLooked; descriptor += 1) {
    try {
      const stat = fstatSync(descriptor);
      if (
        stat.isFile() ||
        stat.isDirectory() ||
        stat.isSocket() ||
        stat.isBlockDevice() ||
        stat.isCharacterDevice()
      ) {
        closeSync(descriptor);
        closed += 1;
      }
    } catch {
      // It is not open.
    }
  }
  return closed;
}
