import { createHash } from 'node:crypto';

/**
 * What a folder calls the things of a service. Ids differ between environments, names do not: files have names, and millrace.yaml has
 * the id of each name in each environment.
 */
export const nameKinds = ['accounts', 'data_stores', 'workflows', 'sources', 'webhooks'] as const;
export type NameKind = (typeof nameKinds)[number];

/** Names of one environment, both ways. What has no name keeps its id. */
export class FolderNames {
  readonly #ids = new Map<string, string>();
  readonly #names = new Map<string, string>();
  readonly #used = new Set<string>();

  /** A name that is taken stays with its first id. */
  add(kind: NameKind, name: string, id: string): void {
    if (this.#ids.has(`${kind} ${name}`) || this.#names.has(`${kind} ${id}`)) return;
    this.#ids.set(`${kind} ${name}`, id);
    this.#names.set(`${kind} ${id}`, name);
  }

  /** Gives what has a name another one, which is free. */
  rename(kind: NameKind, id: string, name: string): void {
    this.#ids.delete(`${kind} ${this.#names.get(`${kind} ${id}`) ?? ''}`);
    this.#names.delete(`${kind} ${id}`);
    this.add(kind, name, id);
  }

  idOf(kind: NameKind, name: string): string | undefined {
    const id = this.#ids.get(`${kind} ${name}`);
    if (id !== undefined) this.#used.add(`${kind} ${name}`);
    return id;
  }

  nameOf(kind: NameKind, id: string): string | undefined {
    const name = this.#names.get(`${kind} ${id}`);
    if (name !== undefined) this.#used.add(`${kind} ${name}`);
    return name;
  }

  /** Names of a kind that were looked up, in order, with their ids. */
  used(kind: NameKind): [name: string, id: string][] {
    return [...this.#ids].flatMap(([key, id]) =>
      this.#used.has(key) && key.startsWith(`${kind} `)
        ? [[key.slice(kind.length + 1), id] as [string, string]]
        : [],
    );
  }
}

const slugMax = 60;

/** For names of folders: lower case, with dashes; underscores stay. */
export function folderSlug(name: string): string {
  return name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .replace(/[^a-z0-9_]+/g, '-')
    .slice(0, slugMax)
    .replace(/^-+|-+$/g, '');
}

/** `orders-p_…`, as synced repositories have it. */
export function folderName(name: string, id: string): string {
  const slug = folderSlug(name);
  return slug === '' ? id : `${slug}-${id}`;
}

const folderNamePattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$/;

/** True for a name that is one folder below its parent, on every file system. */
export function isFolderName(name: string): boolean {
  return folderNamePattern.test(name);
}

/** The same for every order of fields. */
export function contentVersion(value: unknown): string {
  return createHash('sha256').update(sortedJson(value)).digest('hex').slice(0, 16);
}

export function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );
}
