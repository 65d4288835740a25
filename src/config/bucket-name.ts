import { isIP } from 'node:net';

/** True for the name of a bucket as the S3 protocol has it: 3 to 63 lower-case letters, digits, dots and hyphens, and no IP address. */
export function isBucketName(text: string): boolean {
  return /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text) && !text.includes('..') && isIP(text) === 0;
}
