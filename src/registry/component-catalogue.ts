import { readFile } from 'node:fs/promises';
import type { PackageFetcher } from '#components/package-fetcher.ts';
import type { Store } from '#storage/store.ts';
import { newestOf } from './component-versions.ts';
import type { LocalRegistry } from './local-registry.ts';
import { listPackagedComponents, packageIds } from './package-store.ts';
import { listHeadVersions, repositoryTips } from './repository-store.ts';
import { scanPackage } from './scan-package.ts';

/** A component of the registry, as its text says; what a key without a version means. */
export interface ListedEntry {
  key: string;
  name: string;
  version: string;
  description: string;
  type: 'source' | 'action';
  /** Slug of its app. */
  app: string;
  /** Null: it ships with the service, or comes from a repository. */
  package: { name: string; version: string } | null;
  /** The Git repository that it comes from, and the commit that has it. */
  repository: { url: string; commit: string } | null;
}

export interface CatalogueFilter {
  app?: string | undefined;
  type?: 'source' | 'action' | undefined;
  /** Words that are to be in the name, key, app or description. */
  q?: string | undefined;
}

const typeOf = { sources: 'source', actions: 'action' } as const;

/**
 * Everything that can be named by key: the shipped components, the packages that were added, and Git repositories at their refs. It
 * is read on first use, and again when packages or repositories were added, updated or removed on any node; no component is evaluated.
 */
export class ComponentCatalogue {
  readonly #store: Pick<Store, 'read'>;
  readonly #local: LocalRegistry;
  readonly #fetcher: Pick<PackageFetcher, 'scan'>;
  #shipped: Promise<ListedEntry[]> | undefined;
  #packaged: { state: string; entries: Promise<ListedEntry[]> } | undefined;
  /** What `find` searches, for the lists it was made of. */
  #searched: { of: readonly ListedEntry[]; entries: readonly Searched[] } | undefined;

  constructor(options: {
    store: Pick<Store, 'read'>;
    local: LocalRegistry;
    fetcher: Pick<PackageFetcher, 'scan'>;
  }) {
    this.#store = options.store;
    this.#local = options.local;
    this.#fetcher = options.fetcher;
  }

  /** In the order of keys; with `q` the best matches first, each with how well it fits, above 0 to 1. */
  async find(filter: CatalogueFilter): Promise<{ entry: ListedEntry; score: number }[]> {
    const words = wordsOf(filter.q ?? '');
    const found: { entry: ListedEntry; score: number }[] = [];
    for (const searched of await this.#entries()) {
      const { entry } = searched;
      if (filter.app !== undefined && entry.app !== filter.app) continue;
      if (filter.type !== undefined && entry.type !== filter.type) continue;
      const score = scoreOf(searched, words);
      if (score > 0) found.push({ entry, score });
    }
    return words.length === 0 ? found : found.sort((a, b) => b.score - a.score);
  }

  /** The kinds of components there are for each app, by its slug. */
  async apps(): Promise<Map<string, Set<'sources' | 'actions'>>> {
    const apps = new Map([...(await this.#local.apps())].map(([app, kinds]) => [app, new Set(kinds)]));
    for (const { app, type } of await this.#fromPackages()) {
      apps.set(app, (apps.get(app) ?? new Set()).add(type === 'source' ? 'sources' : 'actions'));
    }
    return apps;
  }

  /** One of each key, in their order. */
  async #entries(): Promise<readonly Searched[]> {
    this.#shipped ??= this.#readShipped().catch((error: unknown) => {
      this.#shipped = undefined;
      throw error;
    });
    const shipped = await this.#shipped;
    const packaged = await this.#fromPackages();
    if (this.#searched?.of !== packaged) {
      const byKey = new Map([...shipped, ...packaged].map((entry) => [entry.key, entry]));
      const entries = [...byKey.values()].sort((a, b) => (a.key < b.key ? -1 : 1)).map(searchedOf);
      this.#searched = { of: packaged, entries };
    }
    return this.#searched.entries;
  }

  async #fromPackages(): Promise<ListedEntry[]> {
    const state = stateOf([
      ...(await packageIds(this.#store.read)),
      ...(await repositoryTips(this.#store.read)),
    ]);
    if (this.#packaged?.state !== state) {
      const read = this.#readPackages();
      const packaged = { state, entries: read.then(({ entries }) => entries) };
      this.#packaged = packaged;
      read.then(
        // Packages may have come or gone between the two readings.
        ({ state: found }) => {
          packaged.state = found;
        },
        () => {
          if (this.#packaged === packaged) this.#packaged = undefined;
        },
      );
    }
    return this.#packaged.entries;
  }

  /** With the packages that they are of: none is without components. */
  async #readPackages(): Promise<{ state: string; entries: ListedEntry[] }> {
    const rows = await listPackagedComponents(this.#store.read);
    const tips = await repositoryTips(this.#store.read);
    const packaged = rows.map((row) => ({
      ...row,
      package: { name: row.package_name, version: row.package_version },
      repository: null,
    }));
    const committed = (await listHeadVersions(this.#store.read)).map((row) => ({
      ...row,
      // Of equal versions, that of a package counts.
      package_created_at_ms: Number.NEGATIVE_INFINITY,
      package: null,
      repository: { url: row.url, commit: row.commit_id },
    }));
    const newest = Map.groupBy([...packaged, ...committed], (row) => row.component_key)
      .values()
      .map((versions) => newestOf(versions))
      .filter((row) => row !== undefined);
    const entries = [...newest].map(
      ({
        component_key: key,
        name,
        version,
        description,
        app,
        kind,
        package: of,
        repository,
      }): ListedEntry => ({
        key,
        name,
        version,
        description,
        type: typeOf[kind],
        app,
        ...{ package: of, repository },
      }),
    );
    return { state: stateOf([...rows.map((row) => row.package_id), ...tips]), entries };
  }

  /** Keys of what ships are known from where the files are; the rest is read of their texts. */
  async #readShipped(): Promise<ListedEntry[]> {
    const keys = await this.#local.keys();
    const found = await Promise.all(keys.map((key) => this.#local.find(key)));
    const shipped = found.filter((entry) => entry !== undefined);
    const files = await Promise.all(
      shipped.map(async ({ app, kind, key, path }) => ({
        path: `${app}/${kind}/${key}.ts`,
        text: await readFile(path, 'utf8'),
      })),
    );
    const { components } = await scanPackage(files, this.#fetcher);
    return shipped.map(({ key, app, kind }) => {
      const said = components.find((component) => component.key === key);
      const { name = key, version = '', description = '' } = said ?? {};
      return { key, name, version, description, type: typeOf[kind], app, package: null, repository: null };
    });
  }
}

function wordsOf(q: string): string[] {
  return q.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** An entry with the words that it is found by. */
interface Searched {
  entry: ListedEntry;
  key: string;
  name: string;
  /** The words of the key, the name and the app. */
  words: ReadonlySet<string>;
  /** All of `words`. */
  names: string;
  description: string;
}

function searchedOf(entry: ListedEntry): Searched {
  const { key, name, app, description } = entry;
  const words = new Set(wordsOf(`${key} ${name} ${app}`));
  return {
    entry,
    key: wordsOf(key).join(' '),
    name: wordsOf(name).join(' '),
    words,
    names: [...words].join(' '),
    description: description.toLowerCase(),
  };
}

/** The same packages have the same one, in whatever order a database sorts them. */
function stateOf(packageIds: Iterable<string>): string {
  return [...new Set(packageIds)].sort().join();
}

/** 1: the whole of `q` is the key or the name. Else, of the words of `q`, how many are there, and where. */
function scoreOf(
  { key, name, words: named, names, description }: Searched,
  words: readonly string[],
): number {
  if (words.length === 0) return 1;
  const whole = words.join(' ');
  if (key === whole || name === whole) return 1;
  let sum = 0;
  for (const word of words)
    sum += named.has(word) ? 0.95 : names.includes(word) ? 0.7 : description.includes(word) ? 0.4 : 0;
  return sum / words.length;
}
