import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { openFrames, sealFrames } from './sealed-frames.ts';

const key = { key: randomBytes(32), bound: Buffer.from('header') };

async function* pieces(data: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

async function sealed(data: Buffer, size = 1000): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(sealFrames(pieces(data, size), key)));
}

async function opened(data: Buffer, size = 777, with_ = key): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(openFrames(pieces(data, size), with_)));
}

/** Where each frame begins. */
function framesOf(data: Buffer): number[] {
  const starts: number[] = [];
  for (let at = 0; at < data.length; at += 4 + data.readUInt32BE(at)) starts.push(at);
  return starts;
}

describe('sealed frames', () => {
  test('give back what was sealed, in whichever pieces it comes and goes', async () => {
    for (const length of [0, 1, 262_143, 262_144, 262_145, 524_288, 700_001]) {
      const data = randomBytes(length);
      for (const size of [999, 65_536, 300_000])
        assert.ok((await opened(await sealed(data, size), size)).equals(data), `${length} in ${size}`);
    }
  });

  test('show where the file was changed, and that it was cut off', async () => {
    const whole = await sealed(randomBytes(600_000));
    assert.equal(framesOf(whole).length, 3);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: whole.length - 1 }),
        fc.integer({ min: 1, max: 255 }),
        async (at, flip) => {
          const changed = Buffer.from(whole);
          changed[at] = (changed[at] ?? 0) ^ flip;
          await assert.rejects(opened(changed), /the file is (damaged|cut off)/);
        },
      ),
      { numRuns: 60 },
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length - 1 }), async (length) => {
        await assert.rejects(opened(whole.subarray(0, length)), /the file is (damaged|cut off)/);
      }),
      { numRuns: 60 },
    );
    const [, second = 0, third = 0] = framesOf(whole);
    await assert.rejects(opened(whole.subarray(0, third)), /cut off: its end is missing/);
    await assert.rejects(opened(Buffer.concat([whole, Buffer.from('more')])), /damaged/);
    const swapped = Buffer.concat([
      whole.subarray(second, third),
      whole.subarray(0, second),
      whole.subarray(third),
    ]);
    await assert.rejects(opened(swapped), /damaged: part 1 /);
    const without = Buffer.concat([whole.subarray(0, second), whole.subarray(third)]);
    await assert.rejects(opened(without), /damaged: part 2 /);
  });

  test('open with their own key and header alone', async () => {
    const whole = await sealed(Buffer.from('something'));
    await assert.rejects(opened(whole, 777, { ...key, key: randomBytes(32) }), /damaged/);
    await assert.rejects(opened(whole, 777, { ...key, bound: Buffer.from('another') }), /damaged/);
    assert.ok(!whole.includes('something'));
  });
});
