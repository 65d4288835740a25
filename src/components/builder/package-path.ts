/** Longest path of a file, in bytes: both databases can have it in an index. */
const pathBytesMax = 1024;

/**
 * A path as it is kept: below the root, with slashes, in one form however it was written. Null for one that leads out of
 * the root, has control characters or is longer than a file system would take.
 */
export function packagePath(parts: readonly string[]): string | null {
  const kept = parts.filter((part) => part !== '' && part !== '.');
  const path = kept.join('/');
  const isUsable =
    path !== '' && !kept.includes('..') && !/\p{Cc}/u.test(path) && Buffer.byteLength(path) <= pathBytesMax;
  return isUsable ? path : null;
}
