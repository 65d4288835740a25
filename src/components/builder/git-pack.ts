import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { inflateSync } from 'node:zlib';
import { type GitObject, GitProblem, type GitType, gitTypes, objectBytesMax } from './git-objects.ts';

const ofsDelta = 6;
const refDelta = 7;
/** Most objects are far smaller than this when they are compressed. */
const windowBytes = 4096;
/** Unpacked objects that are kept: trees of neighbouring commits are made from each other. */
const keptBytesMax = 96 * 1024 * 1024;
/** Contents that one chain of deltas may hold at a time while a pack is indexed. */
const chainBytesMax = 512 * 1024 * 1024;
const chainLengthMax = 10_000;

interface Entry {
  type: number;
  /** Where the compressed bytes begin. */
  dataAt: number;
  size: number;
  /** The base of a delta: where its base is, or what its base is. */
  baseAt: number;
  baseOid: string;
}

/** `inflateSync` with `info`, which the types of Node do not know. */
interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

/**
 * One pack file of Git. Everything in it is checked before it is used: sizes, offsets and names come from strangers. Objects are
 * found by the hash of what they hold, so that none can stand for another.
 */
export class GitPack {
  readonly #fd: number;
  readonly #bytes: number;
  /** Sorted; `#offsets` has the place of each. */
  #oids: Buffer = Buffer.alloc(0);
  #offsets: Float64Array = new Float64Array(0);
  readonly #kept = new Map<number, GitObject>();
  #keptBytes = 0;
  #window = Buffer.alloc(windowBytes);

  private constructor(path: string) {
    this.#fd = openSync(path, 'r');
    this.#bytes = fstatSync(this.#fd).size;
  }

  /** With the index that it makes by reading the whole pack. `progress` gets the number of objects that are done. */
  static indexed(path: string, progress: (done: number, total: number) => void = () => {}): GitPack {
    const pack = new GitPack(path);
    pack.#makeIndex(progress);
    return pack;
  }

  /** With the index of a clone, a file in version 2. */
  static withIndex(path: string, index: Buffer): GitPack {
    const pack = new GitPack(path);
    pack.#takeIndex(index);
    return pack;
  }

  get count(): number {
    return this.#offsets.length;
  }

  has(oid: string): boolean {
    return this.#find(oid) !== -1;
  }

  read(oid: string): GitObject | null {
    const at = this.#find(oid);
    return at === -1 ? null : this.#readAt(at);
  }

  close(): void {
    closeSync(this.#fd);
  }

  #find(oid: string): number {
    const wanted = Buffer.from(oid, 'hex');
    let low = 0;
    let high = this.#offsets.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const order = this.#oids.compare(wanted, 0, 20, middle * 20, middle * 20 + 20);
      if (order === 0) return this.#offsets[middle] ?? -1;
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return -1;
  }

  #bytesAt(at: number, length: number): Buffer {
    if (length > this.#window.length) this.#window = Buffer.alloc(length);
    const read = readSync(this.#fd, this.#window, 0, length, at);
    return this.#window.subarray(0, read);
  }

  #entryAt(at: number): Entry {
    const bytes = this.#bytesAt(at, 64);
    let next = 0;
    const byte = (): number => {
      const value = bytes[next];
      if (value === undefined) throw damaged();
      next += 1;
      return value;
    };
    let value = byte();
    const type = (value >> 4) & 7;
    let size = value & 15;
    for (let factor = 16; value & 0x80; factor *= 128) {
      value = byte();
      size += (value & 0x7f) * factor;
    }
    if (size > objectBytesMax) throw new GitProblem('the repository has an object larger than 128 MB');
    let baseAt = -1;
    let baseOid = '';
    if (type === ofsDelta) {
      value = byte();
      let back = value & 0x7f;
      while (value & 0x80) {
        value = byte();
        back = (back + 1) * 128 + (value & 0x7f);
      }
      baseAt = at - back;
      if (back <= 0 || baseAt < 12) throw damaged();
    } else if (type === refDelta) {
      baseOid = bytes.toString('hex', next, next + 20);
      next += 20;
    } else if (gitTypes[type] === undefined) throw damaged();
    return { type, dataAt: at + next, size, baseAt, baseOid };
  }

  /** What an entry holds, and how many bytes of the pack that takes. */
  #inflate({ dataAt, size }: Entry): { data: Buffer; taken: number } {
    for (let length = Math.min(size + 512, windowBytes); ; length *= 4) {
      const bytes = this.#bytesAt(dataAt, length);
      try {
        const { buffer, engine } = inflateSync(bytes, {
          info: true,
          chunkSize: Math.max(64, size + 1),
          maxOutputLength: size + 1,
        }) as unknown as Inflated;
        if (buffer.length !== size) throw damaged();
        return { data: buffer, taken: engine.bytesWritten };
      } catch (error) {
        // The compressed bytes are longer than what was read.
        if ((error as { code?: string }).code === 'Z_BUF_ERROR' && dataAt + length < this.#bytes) continue;
        throw error instanceof GitProblem ? error : damaged();
      }
    }
  }

  #readAt(at: number): GitObject {
    const deltas: Buffer[] = [];
    let from = at;
    let base: GitObject | undefined;
    const places: number[] = [];
    while (base === undefined) {
      base = this.#kept.get(from);
      if (base !== undefined) {
        this.#kept.delete(from);
        this.#kept.set(from, base);
        break;
      }
      const entry = this.#entryAt(from);
      const { data } = this.#inflate(entry);
      const type = gitTypes[entry.type];
      if (type !== undefined) {
        base = { type, data };
        this.#keep(from, base);
        break;
      }
      deltas.push(data);
      places.push(from);
      if (deltas.length > chainLengthMax) throw damaged();
      const next = entry.type === ofsDelta ? entry.baseAt : this.#find(entry.baseOid);
      if (next === -1) throw new GitProblem('the repository has a delta without its base');
      from = next;
    }
    for (let index = deltas.length - 1; index >= 0; index -= 1) {
      base = { type: base.type, data: applyDelta(base.data, deltas[index] as Buffer) };
      if (index < 2) this.#keep(places[index] as number, base);
    }
    return base;
  }

  #keep(at: number, object: GitObject): void {
    this.#kept.set(at, object);
    this.#keptBytes += object.data.length;
    for (const [oldest, { data }] of this.#kept) {
      if (this.#keptBytes <= keptBytesMax || oldest === at) break;
      this.#kept.delete(oldest);
      this.#keptBytes -= data.length;
    }
  }

  #makeIndex(progress: (done: number, total: number) => void): void {
    const head = Buffer.from(this.#bytesAt(0, 12));
    if (head.length < 12 || head.toString('latin1', 0, 4) !== 'PACK' || head.readUInt32BE(4) !== 2)
      throw damaged();
    const count = head.readUInt32BE(8);
    // Each takes some bytes: the number itself proves nothing.
    if (count > this.#bytes / 8) throw damaged();
    const starts = new Float64Array(count);
    const oids = Buffer.alloc(count * 20);
    const firstChild = new Int32Array(count).fill(-1);
    const nextChild = new Int32Array(count).fill(-1);
    const byBaseOid = new Map<string, number[]>();
    const roots: number[] = [];
    let at = 12;
    for (let index = 0; index < count; index += 1) {
      starts[index] = at;
      const entry = this.#entryAt(at);
      const { data, taken } = this.#inflate(entry);
      const type = gitTypes[entry.type];
      if (type !== undefined) {
        hashInto(oids, index, type, data);
        roots.push(index);
      } else if (entry.type === ofsDelta) {
        const base = placeOf(starts, index, entry.baseAt);
        if (base === -1) throw damaged();
        nextChild[index] = firstChild[base] ?? -1;
        firstChild[base] = index;
      } else {
        const waiting = byBaseOid.get(entry.baseOid);
        if (waiting === undefined) byBaseOid.set(entry.baseOid, [index]);
        else waiting.push(index);
      }
      at = entry.dataAt + taken;
      if (index % 4096 === 0) progress(index / 2, count);
    }
    let done = 0;
    let left = count - roots.length;
    for (const root of roots) {
      done += 1;
      if (done % 4096 === 0) progress(count - left / 2, count);
      const rootOid = oids.toString('hex', root * 20, root * 20 + 20);
      if (firstChild[root] === -1 && !byBaseOid.has(rootOid)) continue;
      const entry = this.#entryAt(starts[root] ?? 0);
      const type = gitTypes[entry.type] as GitType;
      let held = 0;
      const stack = [{ data: this.#inflate(entry).data, children: childrenOf(root) }];
      for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
        const child = top.children.pop();
        if (child === undefined) {
          held -= top.data.length;
          stack.pop();
          continue;
        }
        const data = applyDelta(top.data, this.#inflate(this.#entryAt(starts[child] ?? 0)).data);
        hashInto(oids, child, type, data);
        left -= 1;
        const children = childrenOf(child);
        if (children.length === 0) continue;
        held += data.length;
        if (held > chainBytesMax || stack.length > chainLengthMax) throw damaged();
        stack.push({ data, children });
      }
    }
    if (left > 0) throw new GitProblem('the repository has a delta without its base');
    const order = Uint32Array.from({ length: count }, (_, index) => index).sort((a, b) =>
      oids.compare(oids, b * 20, b * 20 + 20, a * 20, a * 20 + 20),
    );
    this.#oids = Buffer.alloc(count * 20);
    this.#offsets = new Float64Array(count);
    for (const [place, index] of order.entries()) {
      oids.copy(this.#oids, place * 20, index * 20, index * 20 + 20);
      this.#offsets[place] = starts[index] ?? 0;
    }
    progress(count, count);

    function childrenOf(index: number): number[] {
      const children: number[] = [];
      for (let child = firstChild[index] ?? -1; child !== -1; child = nextChild[child] ?? -1)
        children.push(child);
      const oid = oids.toString('hex', index * 20, index * 20 + 20);
      const byOid = byBaseOid.get(oid);
      if (byOid !== undefined) {
        byBaseOid.delete(oid);
        children.push(...byOid);
      }
      return children;
    }
  }

  #takeIndex(index: Buffer): void {
    if (index.length < 1072 || index.readUInt32BE(0) !== 0xff744f63 || index.readUInt32BE(4) !== 2)
      throw new GitProblem('the clone has a pack index that is not of version 2');
    const count = index.readUInt32BE(8 + 255 * 4);
    const oidsAt = 8 + 1024;
    const offsetsAt = oidsAt + count * 24;
    const largeAt = offsetsAt + count * 4;
    if (largeAt > index.length) throw damaged();
    this.#oids = index.subarray(oidsAt, oidsAt + count * 20);
    this.#offsets = new Float64Array(count);
    for (let place = 0; place < count; place += 1) {
      const offset = index.readUInt32BE(offsetsAt + place * 4);
      const isLarge = offset >= 0x80000000;
      const at = largeAt + (offset - 0x80000000) * 8;
      if (isLarge && at + 8 > index.length) throw damaged();
      this.#offsets[place] = isLarge ? Number(index.readBigUInt64BE(at)) : offset;
    }
  }
}

function hashInto(oids: Buffer, index: number, type: GitType, data: Buffer): void {
  createHash('sha1')
    .update(`${type} ${data.length}\0`)
    .update(data)
    .digest()
    .copy(oids, index * 20);
}

/** Index of the entry that starts at `at`, among the first `count`. */
function placeOf(starts: Float64Array, count: number, at: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const start = starts[middle] ?? 0;
    if (start === at) return middle;
    if (start < at) low = middle + 1;
    else high = middle;
  }
  return -1;
}

function applyDelta(base: Buffer, delta: Buffer): Buffer {
  let at = 0;
  const number = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = delta[at];
      if (byte === undefined || factor > 2 ** 35) throw damaged();
      at += 1;
      value += (byte & 0x7f) * factor;
      if ((byte & 0x80) === 0) return value;
    }
  };
  if (number() !== base.length) throw damaged();
  const size = number();
  if (size > objectBytesMax) throw new GitProblem('the repository has an object larger than 128 MB');
  const result = Buffer.allocUnsafe(size);
  let filled = 0;
  while (at < delta.length) {
    const command = delta[at] as number;
    at += 1;
    if (command === 0) throw damaged();
    if (command < 0x80) {
      if (at + command > delta.length || filled + command > size) throw damaged();
      delta.copy(result, filled, at, at + command);
      at += command;
      filled += command;
      continue;
    }
    let from = 0;
    let length = 0;
    for (let bit = 0; bit < 4; bit += 1)
      if (command & (1 << bit)) from += (delta[at++] ?? 0) * 2 ** (8 * bit);
    for (let bit = 0; bit < 3; bit += 1)
      if (command & (16 << bit)) length += (delta[at++] ?? 0) * 2 ** (8 * bit);
    if (length === 0) length = 0x10000;
    if (from + length > base.length || filled + length > size) throw damaged();
    base.copy(result, filled, from, from + length);
    filled += length;
  }
  if (filled !== size) throw damaged();
  return result;
}

function damaged(): GitProblem {
  return new GitProblem('what the repository sent is damaged');
}
