import { readFile } from 'node:fs/promises';
import type { PackageFetcher } from '#components/package-fetcher.ts';
import type { Store } from '#storage/store.ts';
import { newestOf } from './component-versions.ts';
import type { LocalRegistry } from './local-registry.ts';
import { listPackagedComponents, packageIds } from './package-store.ts';
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
  /** Null: it ships with the service. */
  package: { name: string; version: string } | null;
}

export interface CatalogueFilter {
  app?: string | undefined;
  type?: 'source' | 'action' | undefined;
  /** Words that are to be in the name, key, app or description. */
  q?: string | undefined;
}

const typeOf = { sources: 'source', actions: 'action' } as const;

/**
 * Everything that can be named by key: what ships, and the packages that were added. Read when it is first asked for, and
 * again when packages came or went, on whatever node; nothing of it is evaluated.
 */
export class ComponentCatalogue {
  readonly #store: Pick<Store, 'read'>;
  readonly #local: LocalRegistry;
  readonly #fetcher: Pick<PackageFetcher, 'scan'>;
  #shipped: Promise<ListedEntry[]> | undefined;
  #packaged: { state: string; entries: Promise<ListedEntry[]> } | undefined;

  constructor(parts: {
    store: Pick<Store, 'read'>;
    local: LocalRegistry;
    fetcher: Pick<PackageFetcher, 'scan'>;
  }) {
    this.#store = parts.store;
    this.#local = parts.local;
    this.#fetcher = parts.fetcher;
  }

  /** In the order of keys; with `q` the best matches first, each with how well it fits, above 0 to 1. */
  async find(filter: CatalogueFilter): Promise<{ entry: ListedEntry; score: number }[]> {
    const words = wordsOf(filter.q ?? '');
    const found: { entry: ListedEntry; score: number }[] = [];
    for (const entry of await this.#entries()) {
      if (filter.app !== undefined && entry.app !== filter.app) continue;
      if (filter.type !== undefined && entry.type !== filter.type) continue;
      const score = scoreOf(entry, words);
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

  async #entries(): Promise<ListedEntry[]> {
    this.#shipped ??= this.#readShipped().catch((error: unknown) => {
      this.#shipped = undefined;
      throw error;
    });
    const all = [...(await this.#shipped), ...(await this.#fromPackages())];
    const byKey = new Map(all.map((entry) => [entry.key, entry]));
    return [...byKey.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  async #fromPackages(): Promise<ListedEntry[]> {
    const state = (await packageIds(this.#store.read)).join();
    if (this.#packaged?.state !== state) {
      const packaged = { state, entries: this.#readPackages() };
      this.#packaged = packaged;
      packaged.entries.catch(() => {
        if (this.#packaged === packaged) this.#packaged = undefined;
      });
    }
    return this.#packaged.entries;
  }

  async #readPackages(): Promise<ListedEntry[]> {
    const rows = await listPackagedComponents(this.#store.read);
    const newest = Map.groupBy(rows, (row) => row.component_key)
      .values()
      .map((versions) => newestOf(versions))
      .filter((row) => row !== undefined);
    return [...newest].map(({ component_key: key, name, version, description, app, kind, ...of }) => ({
      key,
      name,
      version,
      description,
      type: typeOf[kind === 'sources' ? 'sources' : 'actions'],
      app,
      package: { name: of.package_name, version: of.package_version },
    }));
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
      return { key, name, version, description, type: typeOf[kind], app, package: null };
    });
  }
}

function wordsOf(q: string): string[] {
  return q.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** 1: the whole of `q` is the key or the name. Else, of the words of `q`, how many are there, and where. */
function scoreOf({ key, name, app, description }: ListedEntry, words: readonly string[]): number {
  if (words.length === 0) return 1;
  const whole = words.join(' ');
  if (wordsOf(key).join(' ') === whole || wordsOf(name).join(' ') === whole) return 1;
  const named = new Set(wordsOf(`${key} ${name} ${app}`));
  const names = [...named].join(' ');
  const text = description.toLowerCase();
  let sum = 0;
  for (const word of words)
    sum += named.has(word) ? 0.95 : names.includes(word) ? 0.7 : text.includes(word) ? 0.4 : 0;
  return sum / words.length;
}
