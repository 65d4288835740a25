import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { createTempFolder } from '../../../test/support/temp-folder.ts';
import { GitPack } from './git-pack.ts';

const blob = 3;
const ofsDelta = 6;
const refDelta = 7;

interface PackEntry {
  type: number;
  content: Buffer;
  /** Bytes between the head and the content. */
  base?: Buffer;
  /** The size that the head names, where that is not the size of the content. */
  size?: number;
}

function entryBytes({ type, content, base = Buffer.alloc(0), size = content.length }: PackEntry): Buffer {
  const head = [(type << 4) | (size & 15)];
  for (let left = size >> 4; left > 0; left >>= 7) {
    head[head.length - 1] = (head.at(-1) ?? 0) | 0x80;
    head.push(left & 0x7f);
  }
  return Buffer.concat([Buffer.from(head), base, deflateSync(content)]);
}

const oidOf = (content: Buffer) =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');

/** A delta: the sizes of base and result, then commands. */
const delta = (from: number, to: number, ...commands: (number | string)[]) =>
  Buffer.concat([Buffer.from([from, to]), ...commands.map((one) => (typeof one === 'string' ? Buffer.from(one) : Buffer.from([one])))]); // biome-ignore format: one line

/** Copies `length` bytes from `from`. */
const copy = (from: number, length: number) => [0x91, from, length];

const text = Buffer.from('a text that others are made of');
const base: PackEntry = { type: blob, content: text };
const baseBytes = entryBytes(base).length;

/** The pack of these entries, and the place of each. */
function packOf(entries: readonly PackEntry[]): { pack: Buffer; places: number[] } {
  const head = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1');
  head.writeUInt32BE(entries.length, 8);
  const places: number[] = [];
  let at = head.length;
  const bytes = entries.map(entryBytes);
  for (const one of bytes) {
    places.push(at);
    at += one.length;
  }
  return { pack: Buffer.concat([head, ...bytes, Buffer.alloc(20)]), places };
}

async function withPack<T>(entries: readonly PackEntry[], work: (path: string, places: number[]) => T) {
  await using folder = await createTempFolder('pack');
  const path = join(folder.path, 'a.pack');
  const { pack, places } = packOf(entries);
  await writeFile(path, pack);
  return work(path, places);
}

/** An index as a clone has it, in which these objects have these places. */
function indexOf(objects: readonly (readonly [oid: string, at: number])[]): Buffer {
  const sorted = [...objects].sort(([a], [b]) => (a < b ? -1 : 1));
  const fanout = Buffer.alloc(1024);
  fanout.writeUInt32BE(sorted.length, 1020);
  const offsets = sorted.map(([, at]) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(at);
    return bytes;
  });
  return Buffer.concat([
    ...[Buffer.from('ff744f6300000002', 'hex'), fanout],
    ...sorted.map(([oid]) => Buffer.from(oid, 'hex')),
    ...[Buffer.alloc(4 * sorted.length), ...offsets, Buffer.alloc(40)],
  ]);
}

test('objects that are stored as differences are found by the hash of what they hold', () => {
  const second = Buffer.from('a text that says more');
  const third = Buffer.from('says less');
  const entries: PackEntry[] = [
    base,
    {
      type: ofsDelta,
      base: Buffer.from([baseBytes]),
      content: delta(text.length, second.length, ...copy(0, 12), 9, 'says more'),
    },
    {
      type: refDelta,
      base: Buffer.from(oidOf(second), 'hex'),
      content: delta(second.length, third.length, ...copy(12, 5), 4, 'less'),
    },
  ];
  return withPack(entries, (path) => {
    const pack = GitPack.indexed(path);
    assert.equal(pack.count, 3);
    for (const content of [text, second, third])
      assert.deepEqual(pack.read(oidOf(content)), { type: 'blob', data: content });
    assert.equal(pack.read(oidOf(Buffer.from('another'))), null);
    pack.close();
  });
});

test('a difference that is no valid one ends with a reason, and nothing beyond its base is read', async () => {
  const size = text.length;
  const wrong: [what: string, content: Buffer][] = [
    ['another base', delta(size + 1, 5, ...copy(0, 5))],
    ['bytes beyond the base', delta(size, 20, ...copy(size - 1, 20))],
    ['more than its size', delta(size, 3, ...copy(0, 5))],
    ['less than its size', delta(size, 9, ...copy(0, 5))],
    ['an unknown command', delta(size, 5, 0, ...copy(0, 5))],
    ['a text that is cut', delta(size, 9, 9, 'cut')],
  ];
  for (const [what, content] of wrong)
    await withPack([base, { type: ofsDelta, base: Buffer.from([baseBytes]), content }], (path) =>
      assert.throws(() => GitPack.indexed(path), /damaged/, what),
    );
  const nothing = { type: refDelta, base: Buffer.alloc(20, 7), content: delta(size, 5, ...copy(0, 5)) };
  await withPack([base, nothing], (path) =>
    assert.throws(() => GitPack.indexed(path), /a delta without its base/),
  );
});

test('an object of another size than its head names is refused', async () => {
  for (const size of [text.length - 1, text.length + 1])
    await withPack([{ ...base, size }], (path) => assert.throws(() => GitPack.indexed(path), /damaged/));
});

test('with the index of a clone, what it and the pack name is checked when it is read', async () => {
  const own = Buffer.from('7'.repeat(40), 'hex');
  const first = '1'.repeat(40);
  const entries: PackEntry[] = [
    base,
    { type: ofsDelta, base: Buffer.from([0x7f]), content: delta(text.length, 5, ...copy(0, 5)) },
    { type: refDelta, base: own, content: delta(text.length, 5, ...copy(0, 5)) },
  ];
  await withPack(entries, (path, [at = 0, before = 0, itself = 0]) => {
    const read = (place: number) => {
      const pack = GitPack.withIndex(path, indexOf([[first, place], [own.toString('hex'), itself]])); // biome-ignore format: one line
      try {
        return pack.read(first);
      } finally {
        pack.close();
      }
    };
    assert.deepEqual(read(at)?.data, text);
    assert.throws(() => read(before), /damaged/, 'its base is before the pack');
    assert.throws(() => read(itself), /damaged/, 'it is its own base');
    assert.throws(() => read(100_000), /damaged/, 'it is behind the pack');
    const index = indexOf([[first, at]]);
    assert.throws(() => GitPack.withIndex(path, index.subarray(0, 1071)), /not of version 2/);
    index.writeUInt32BE(5_000, 8 + 1020);
    assert.throws(() => GitPack.withIndex(path, index), /damaged/);
  });
});
