import { randomBytes } from 'node:crypto';

export interface Span {
  start: number;
  end: number;
}

/** Longer patterns are searched by their first characters, and compared by hash: memory does not grow with their length. */
const depthMax = 64;
/** Comparisons with long patterns per character of the text. Beyond, the beginning of a pattern counts as all of it. */
const comparisonsPerCharacter = 4;

/** Steps of a search that are remembered; a power of two. */
const stepsRemembered = 1024;

/** A pattern that is longer than `depthMax`. */
interface LongPattern {
  length: number;
  /** Its last characters. */
  tail: string;
  hash: number;
  /** The factor that removes what stands before a text of this length from its hash. */
  factor: number;
}

/** Odd, and different in each process, so that no text can be made to collide. */
const hashBase = randomBytes(4).readInt32LE() | 1;

/**
 * Finds many patterns in one pass over a text (Aho and Corasick, 1975), in time linear in the text. A node is a beginning of patterns;
 * its children are in a hash table. A long pattern can be found where its beginning, its end and a hash of it fit.
 */
export class SecretMatcher {
  /** Nodes by parent and character; 0 = none. */
  readonly #table: Int32Array;
  readonly #parent: Int32Array;
  readonly #code: Uint16Array;
  /** The node of the longest proper suffix that is also the beginning of a pattern. */
  readonly #fallback: Int32Array;
  /** Length of the longest pattern that ends at the node, itself or by a suffix; 0 = none. */
  readonly #ends: Int32Array;
  /** By the node of their first `depthMax` characters, the longest first. */
  readonly #long = new Map<number, LongPattern[]>();
  /** The last steps: most texts take few that differ, and each of them is looked up several times. */
  readonly #stepFrom = new Int32Array(stepsRemembered).fill(-1);
  readonly #stepCode = new Uint16Array(stepsRemembered);
  readonly #stepTo = new Int32Array(stepsRemembered);
  #nodes = 1;

  constructor(patterns: readonly string[]) {
    const size = patterns.reduce((sum, { length }) => sum + Math.min(length, depthMax), 1);
    this.#table = new Int32Array(2 ** Math.ceil(Math.log2(2 * size)));
    this.#parent = new Int32Array(size);
    this.#code = new Uint16Array(size);
    this.#fallback = new Int32Array(size);
    this.#ends = new Int32Array(size);
    const levels: number[][] = Array.from({ length: depthMax }, () => []);
    for (const pattern of patterns) this.#add(pattern, levels);
    for (const longs of this.#long.values()) longs.sort((one, other) => other.length - one.length);
    this.#link(levels);
  }

  /** The spans of all matches, in order, with overlapping and adjacent ones joined. */
  find(text: string): Span[] {
    const spans: Span[] = [];
    let node = 0;
    let prefixHashes: Int32Array | undefined;
    let comparisons = comparisonsPerCharacter * text.length;
    for (let index = 0; index < text.length; index += 1) {
      node = this.#step(node, text.charCodeAt(index));
      const length = this.#ends[node] ?? 0;
      if (length > 0) join(spans, { start: index + 1 - length, end: index + 1 });
      const longs = this.#long.size === 0 ? undefined : this.#long.get(node);
      if (longs === undefined) continue;
      const start = index + 1 - depthMax;
      for (const long of longs) {
        const end = start + long.length;
        if (end > text.length) continue;
        comparisons -= 1;
        if (comparisons >= 0) {
          if (!text.startsWith(long.tail, end - long.tail.length)) continue;
          prefixHashes ??= hashesOf(text);
          const before = Math.imul(prefixHashes[start] ?? 0, long.factor);
          if ((((prefixHashes[end] ?? 0) - before) | 0) !== long.hash) continue;
        }
        join(spans, { start, end });
        break;
      }
    }
    return spans;
  }

  /** True if any pattern of at most `depthMax` characters is in the text. */
  matches(text: string): boolean {
    let node = 0;
    for (let index = 0; index < text.length; index += 1) {
      node = this.#step(node, text.charCodeAt(index));
      if ((this.#ends[node] ?? 0) > 0) return true;
    }
    return false;
  }

  #add(pattern: string, levels: number[][]): void {
    let node = 0;
    const depth = Math.min(pattern.length, depthMax);
    for (let index = 0; index < depth; index += 1) {
      const code = pattern.charCodeAt(index);
      const slot = this.#slotOf(node, code);
      let next = this.#table[slot] ?? 0;
      if (next === 0) {
        next = this.#nodes;
        this.#nodes += 1;
        this.#parent[next] = node;
        this.#code[next] = code;
        this.#table[slot] = next;
        levels[index]?.push(next);
      }
      node = next;
    }
    if (pattern.length <= depthMax) this.#ends[node] = pattern.length;
    else this.#long.set(node, [...(this.#long.get(node) ?? []), longPattern(pattern)]);
  }

  /** Level by level, so that the fallback of every shorter beginning is known. */
  #link(levels: readonly number[][]): void {
    for (const [depth, nodes] of levels.entries())
      for (const node of nodes) {
        const parent = this.#parent[node] ?? 0;
        const fallback = depth === 0 ? 0 : this.#step(this.#fallback[parent] ?? 0, this.#code[node] ?? 0);
        this.#fallback[node] = fallback;
        this.#ends[node] = Math.max(this.#ends[node] ?? 0, this.#ends[fallback] ?? 0);
      }
  }

  #step(from: number, code: number): number {
    const slot = (Math.imul(from, 31) + code) & (stepsRemembered - 1);
    if (this.#stepFrom[slot] === from && this.#stepCode[slot] === code) return this.#stepTo[slot] ?? 0;
    const to = this.#search(from, code);
    this.#stepFrom[slot] = from;
    this.#stepCode[slot] = code;
    this.#stepTo[slot] = to;
    return to;
  }

  #search(from: number, code: number): number {
    let node = from;
    for (;;) {
      const next = this.#table[this.#slotOf(node, code)] ?? 0;
      if (next !== 0 || node === 0) return next;
      node = this.#fallback[node] ?? 0;
    }
  }

  /** The slot of a child, or the free slot for it. */
  #slotOf(node: number, code: number): number {
    const mask = this.#table.length - 1;
    let slot = (Math.imul(node, 0x9e3779b1) ^ Math.imul(code, 0x85ebca6b)) >>> 7;
    for (;;) {
      slot &= mask;
      const child = this.#table[slot] ?? 0;
      if (child === 0 || (this.#parent[child] === node && this.#code[child] === code)) return slot;
      slot += 1;
    }
  }
}

function longPattern(pattern: string): LongPattern {
  let hash = 0;
  let factor = 1;
  for (let index = 0; index < pattern.length; index += 1) {
    hash = (Math.imul(hash, hashBase) + pattern.charCodeAt(index)) | 0;
    factor = Math.imul(factor, hashBase);
  }
  return { length: pattern.length, tail: pattern.slice(-depthMax), hash, factor };
}

/** The hash of each beginning of a text. */
function hashesOf(text: string): Int32Array {
  const hashes = new Int32Array(text.length + 1);
  let hash = 0;
  for (let index = 0; index < text.length; index += 1) {
    hash = (Math.imul(hash, hashBase) + text.charCodeAt(index)) | 0;
    hashes[index + 1] = hash;
  }
  return hashes;
}

/** A new span may reach back over several spans, and a long one beyond those that follow it. */
function join(spans: Span[], span: Span): void {
  let { start, end } = span;
  for (let last = spans.at(-1); last !== undefined && last.end >= start; last = spans.at(-1)) {
    start = Math.min(start, last.start);
    end = Math.max(end, last.end);
    spans.pop();
  }
  spans.push({ start, end });
}
