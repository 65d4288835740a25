import { randomBytes } from 'node:crypto';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const base36 = '0123456789abcdefghijklmnopqrstuvwxyz';

/** Random bytes are drawn in blocks: a call into the generator costs more than the bytes. */
const blockBytes = 4096;
let block = Buffer.alloc(0);
let used = 0;

function randomByte(): number {
  if (used === block.length) {
    block = randomBytes(blockBytes);
    used = 0;
  }
  const byte = block[used] ?? 0;
  // A byte that was used is erased: ids may be secrets.
  block[used] = 0;
  used += 1;
  return byte;
}

/** Random characters from `alphabet`, without modulo bias. */
function randomCharacters(length: number, alphabet: string): string {
  const ceiling = 256 - (256 % alphabet.length);
  let out = '';
  while (out.length < length) {
    const byte = randomByte();
    if (byte < ceiling) out += alphabet[byte % alphabet.length];
  }
  return out;
}

/**
 * An object id: prefix and 12 base62 characters (71 bits), so that ids of other tenants cannot be guessed.
 * Prefixes are those of the specification, section 1.
 */
export function newId(prefix: string): string {
  return `${prefix}_${randomCharacters(12, base62)}`;
}

/** A secret that is shown once: 32 base62 characters, 190 bits. */
export function newSecret(length = 32): string {
  return randomCharacters(length, base62);
}

/** The key of a source's HTTP endpoint: 32 lower-case hex characters. */
export function newHexKey(): string {
  return randomBytes(16).toString('hex');
}

/** `length` lower-case base36 characters. */
export function newBase36Key(length: number): string {
  return randomCharacters(length, base36);
}

let latestIdMs = 0;
let idsSinceLatestMs = 0;

/**
 * 27 base62 characters that sort by time: 9 of the time in milliseconds, 3 that number the ids of one millisecond in this process,
 * 15 random. Used for emit ids and invocation ids.
 */
export function newTimeOrderedId(nowMs: number): string {
  // Callers pass times that they have read earlier. If such a time began a new count, two ids of the later one would have the same number.
  idsSinceLatestMs = nowMs > latestIdMs ? 0 : idsSinceLatestMs + 1;
  latestIdMs = Math.max(latestIdMs, nowMs);
  return base62Number(nowMs, 9) + base62Number(idsSinceLatestMs, 3) + randomCharacters(15, base62);
}

/** The last `length` digits of `value` in base 62. */
function base62Number(value: number, length: number): string {
  let left = value;
  let digits = '';
  for (let i = 0; i < length; i += 1) {
    digits = base62[left % 62] + digits;
    left = Math.floor(left / 62);
  }
  return digits;
}
