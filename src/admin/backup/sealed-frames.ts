import { createCipheriv, createDecipheriv } from 'node:crypto';
import { BackupError } from './backup-error.ts';

/**
 * The body of a backup: frames of AES-256-GCM, each `length of what follows in 4 bytes (big endian), ciphertext, tag of 16
 * bytes`. The nonce of a frame is its number in 11 bytes and a byte that is 1 for the last one, so that frames cannot be
 * left out, put in another order or cut off at the end without being noticed. `bound` (the header) is authenticated by
 * each. The key is of this file alone.
 */
const frameBytes = 256 * 1024;
const tagBytes = 16;
const lengthBytes = 4;

export interface FrameKey {
  key: Buffer;
  bound: Buffer;
}

/** Frames of what comes; memory for a few of them. */
export async function* sealFrames(source: AsyncIterable<Buffer>, key: FrameKey): AsyncGenerator<Buffer> {
  let waiting: Buffer[] = [];
  let size = 0;
  let number = 0;
  for await (const chunk of source) {
    waiting.push(chunk);
    size += chunk.length;
    if (size <= frameBytes) continue;
    let all = Buffer.concat(waiting, size);
    // What is left over is never empty: the last frame is the one after all others.
    while (all.length > frameBytes) {
      yield sealFrame(all.subarray(0, frameBytes), key, number, false);
      number += 1;
      all = all.subarray(frameBytes);
    }
    waiting = [all];
    size = all.length;
  }
  yield sealFrame(Buffer.concat(waiting, size), key, number, true);
}

/** What `sealFrames` sealed. Throws `BackupError` at the first frame that is not as it was written, or missing. */
export async function* openFrames(source: AsyncIterable<Buffer>, key: FrameKey): AsyncGenerator<Buffer> {
  let buffered: Buffer = Buffer.alloc(0);
  let number = 0;
  let frame: Buffer | undefined;
  for await (const chunk of source) {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    for (;;) {
      const taken = takeFrame(buffered);
      if (taken === undefined) break;
      if (frame !== undefined) {
        yield openFrame(frame, key, number, false) ?? damaged(number);
        number += 1;
      }
      frame = taken;
      buffered = buffered.subarray(lengthBytes + taken.length);
    }
  }
  if (frame === undefined) throw new BackupError('the file is cut off: its end is missing');
  const last = buffered.length === 0 ? openFrame(frame, key, number, true) : undefined;
  if (last !== undefined) {
    yield last;
    return;
  }
  const isWhole = openFrame(frame, key, number, false) !== undefined;
  throw isWhole ? new BackupError('the file is cut off: its end is missing') : damagedAt(number);
}

function takeFrame(buffered: Buffer): Buffer | undefined {
  if (buffered.length < lengthBytes) return undefined;
  const length = buffered.readUInt32BE(0);
  if (length < tagBytes || length > frameBytes + tagBytes)
    throw new BackupError('the file is damaged: a part of it has an impossible length');
  if (buffered.length < lengthBytes + length) return undefined;
  return buffered.subarray(lengthBytes, lengthBytes + length);
}

function sealFrame(plain: Buffer, { key, bound }: FrameKey, number: number, isLast: boolean): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(number, isLast), { authTagLength: tagBytes });
  cipher.setAAD(bound);
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32BE(plain.length + tagBytes);
  return Buffer.concat([length, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function openFrame(
  frame: Buffer,
  { key, bound }: FrameKey,
  number: number,
  isLast: boolean,
): Buffer | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(number, isLast), { authTagLength: tagBytes });
  decipher.setAAD(bound);
  decipher.setAuthTag(frame.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(frame.subarray(0, -tagBytes)), decipher.final()]);
  } catch {
    // Node says only that it could not authenticate.
    return undefined;
  }
}

function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(number), 3);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

function damaged(number: number): never {
  throw damagedAt(number);
}

function damagedAt(number: number): BackupError {
  return new BackupError(
    `the file is damaged: part ${number + 1} of it, after ${((number * frameBytes) / 1024 ** 2).toFixed(1)} MB, was changed`,
  );
}
