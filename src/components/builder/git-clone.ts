import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { inflateSync } from 'node:zlib';
import { type GitObject, type GitObjects, GitProblem, gitTypes, objectBytesMax } from './git-objects.ts';
import { GitPack } from './git-pack.ts';

/** Names of refs in files beside each other, and packs, of a repository that many use. */
const textBytesMax = 64 * 1024 * 1024;
const indexBytesMax = 1024 * 1024 * 1024;
const packsMax = 2_000;
const refDepthMax = 5;

/** A clone on this machine, read and never written. Nothing outside its folder is read, links included. */
export class GitClone implements GitObjects {
  readonly #folder: string;
  readonly #packs: GitPack[] = [];
  #packedRefs: Map<string, string> | undefined;

  /** `folder` is the real path of the folder with `objects` in it. */
  constructor(folder: string) {
    this.#folder = folder;
    const config = this.#text('config') ?? '';
    if (/^\s*objectformat\s*=\s*sha256\s*$/im.test(config))
      throw new GitProblem('the clone uses SHA-256 object names, which are not supported');
    if (/^\s*refstorage\s*=\s*reftable\s*$/im.test(config))
      throw new GitProblem('the clone keeps its refs as reftable, which is not supported');
    if (this.#text('objects/info/alternates') !== null)
      throw new GitProblem(
        'the clone borrows objects of another one: clone it without --shared or --reference',
      );
    const names = this.#names('objects/pack').filter((name) => /^pack-[0-9a-f]+\.idx$/.test(name));
    if (names.length > packsMax)
      throw new GitProblem(`the clone has more than ${packsMax} packs: run git gc in it`);
    for (const name of names) {
      const index = this.#bytes(`objects/pack/${name}`, indexBytesMax);
      const pack = this.#pathOf(`objects/pack/${name.replace(/idx$/, 'pack')}`);
      if (index !== null && pack !== null) this.#packs.push(GitPack.withIndex(pack, index));
    }
  }

  has(oid: string): boolean {
    return this.#packs.some((pack) => pack.has(oid)) || this.#pathOf(looseName(oid)) !== null;
  }

  read(oid: string): GitObject | null {
    for (const pack of this.#packs) {
      const found = pack.read(oid);
      if (found !== null) return found;
    }
    const bytes = this.#bytes(looseName(oid), objectBytesMax);
    return bytes === null ? null : parseLoose(bytes);
  }

  /** What a branch, a tag or `HEAD` points to. */
  resolve(ref: string): string | null {
    const names =
      ref === '' ? ['HEAD'] : [ref, `refs/tags/${ref}`, `refs/heads/${ref}`, `refs/remotes/origin/${ref}`];
    for (const name of names) {
      const oid = this.#refOf(name, 0);
      if (oid !== null) return oid;
    }
    return /^[0-9a-f]{40}$/.test(ref) && this.has(ref) ? ref : null;
  }

  #refOf(name: string, depth: number): string | null {
    if (depth > refDepthMax || (name !== 'HEAD' && !name.startsWith('refs/')) || name.includes('..'))
      return null;
    const text = this.#text(name)?.trim();
    if (text === undefined) return this.#packed().get(name) ?? null;
    const target = /^ref: (\S+)$/.exec(text)?.[1];
    if (target !== undefined) return this.#refOf(target, depth + 1);
    return /^[0-9a-f]{40}$/.test(text) ? text : null;
  }

  #packed(): Map<string, string> {
    this.#packedRefs ??= new Map(
      [...(this.#text('packed-refs') ?? '').matchAll(/^([0-9a-f]{40}) (\S+)$/gm)].map(
        ([, oid, name]) => [name as string, oid as string] as const,
      ),
    );
    return this.#packedRefs;
  }

  /** Null where there is nothing, or a link that leads out of the folder. */
  #pathOf(name: string): string | null {
    try {
      const path = realpathSync(join(this.#folder, name));
      return path.startsWith(this.#folder + sep) ? path : null;
    } catch {
      return null;
    }
  }

  #bytes(name: string, bytesMax: number): Buffer | null {
    const path = this.#pathOf(name);
    if (path === null) return null;
    const stat = statSync(path);
    if (!stat.isFile()) return null;
    if (stat.size > bytesMax) throw new GitProblem(`the clone has a file that is too large: ${name}`);
    return readFileSync(path);
  }

  #text(name: string): string | null {
    return this.#bytes(name, textBytesMax)?.toString('utf8') ?? null;
  }

  #names(folder: string): string[] {
    const path = this.#pathOf(folder);
    return path === null ? [] : readdirSync(path).sort();
  }
}

function looseName(oid: string): string {
  return `objects/${oid.slice(0, 2)}/${oid.slice(2)}`;
}

function parseLoose(bytes: Buffer): GitObject {
  let data: Buffer;
  try {
    data = inflateSync(bytes, { maxOutputLength: objectBytesMax });
  } catch {
    throw new GitProblem('the clone has an object that is damaged or larger than 128 MB');
  }
  const end = data.indexOf(0);
  const [, name] = /^([a-z]+) \d+$/.exec(data.toString('latin1', 0, Math.max(end, 0))) ?? [];
  const type = gitTypes.find((known) => known === name);
  if (type === undefined) throw new GitProblem('the clone has an object that is damaged');
  return { type, data: data.subarray(end + 1) };
}
