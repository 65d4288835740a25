/** Objects of a Git repository, as they are stored: read, and never carried out. Only SHA-1 repositories. */
export type GitType = 'commit' | 'tree' | 'blob' | 'tag';

export interface GitObject {
  type: GitType;
  data: Buffer;
}

/** Where objects come from; `oid` is 40 hex characters. Null: it is not there. */
export interface GitObjects {
  read(oid: string): GitObject | null;
  has(oid: string): boolean;
}

/** The repository cannot be read; the message is for the user. */
export class GitProblem extends Error {
  override name = 'GitProblem';
}

export const gitTypes: readonly (GitType | undefined)[] = [undefined, 'commit', 'tree', 'blob', 'tag'];

/** Trees and commits are far smaller; a blob that large is no code, but its pack has to be read. */
export const objectBytesMax = 128 * 1024 * 1024;

export interface GitCommit {
  tree: string;
  parents: string[];
  /** When it was committed, epoch seconds. */
  at: number;
}

export function parseCommit(data: Buffer): GitCommit {
  const headEnd = data.indexOf('\n\n');
  const head = data.subarray(0, headEnd === -1 ? data.length : headEnd).toString('latin1');
  const tree = /^tree ([0-9a-f]{40})$/m.exec(head)?.[1];
  if (tree === undefined) throw new GitProblem('a commit of the repository names no tree');
  const parents = [...head.matchAll(/^parent ([0-9a-f]{40})$/gm)].map((match) => match[1] as string);
  const at = Number(/^committer .* (\d{1,12}) [+-]\d{4}$/m.exec(head)?.[1] ?? 0);
  return { tree, parents, at };
}

/** What a tag points to. */
export function parseTag(data: Buffer): string {
  const target = /^object ([0-9a-f]{40})$/m.exec(data.subarray(0, 200).toString('latin1'))?.[1];
  if (target === undefined) throw new GitProblem('a tag of the repository names no object');
  return target;
}

const space = 0x20;

/** Goes through the entries of a tree, in the order of the tree. */
export class TreeEntries {
  readonly #data: Buffer;
  #start = 0;
  #next = 0;
  #nameStart = 0;
  #nameEnd = 0;
  #mode = 0;

  constructor(data: Buffer) {
    this.#data = data;
  }

  advance(): boolean {
    const data = this.#data;
    const from = this.#next;
    if (from >= data.length) return false;
    let mode = 0;
    let at = from;
    for (; data[at] !== space; at += 1) {
      const digit = (data[at] ?? 0) - 0x30;
      if (digit < 0 || digit > 7 || at - from > 6)
        throw new GitProblem('a tree of the repository is damaged');
      mode = mode * 8 + digit;
    }
    this.#nameStart = at + 1;
    this.#nameEnd = data.indexOf(0, this.#nameStart);
    if (this.#nameEnd === -1 || this.#nameEnd + 21 > data.length)
      throw new GitProblem('a tree of the repository is damaged');
    this.#mode = mode;
    this.#start = from;
    this.#next = this.#nameEnd + 21;
    return true;
  }

  get isTree(): boolean {
    return this.#mode === 0o40000;
  }

  /** A file with content: neither a link nor another repository. */
  get isFile(): boolean {
    return (this.#mode & 0o170000) === 0o100000;
  }

  get name(): string {
    return this.#data.toString('utf8', this.#nameStart, this.#nameEnd);
  }

  get oid(): string {
    return this.#data.toString('hex', this.#nameEnd + 1, this.#nameEnd + 21);
  }

  /** True when both have the same name, the same object and the same mode. Most entries of two commits do. */
  equals(other: TreeEntries): boolean {
    return (
      this.#next - this.#start === other.#next - other.#start &&
      this.#data.compare(other.#data, other.#start, other.#next, this.#start, this.#next) === 0
    );
  }

  /** The order of Git: by bytes, a folder as if its name ended in a slash. */
  compareName(other: TreeEntries): number {
    const [a, b] = [this.#nameEnd - this.#nameStart, other.#nameEnd - other.#nameStart];
    const shared = Math.min(a, b);
    const order = this.#data.compare(
      other.#data,
      other.#nameStart,
      other.#nameStart + shared,
      this.#nameStart,
      this.#nameStart + shared,
    );
    if (order !== 0) return order;
    const left = a > shared ? (this.#data[this.#nameStart + shared] ?? 0) : this.isTree ? 0x2f : 0;
    const right = b > shared ? (other.#data[other.#nameStart + shared] ?? 0) : other.isTree ? 0x2f : 0;
    return left - right;
  }
}
