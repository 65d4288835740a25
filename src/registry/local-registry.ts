import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type ComponentKind, componentKinds } from '#storage/tables/registry-tables.ts';

/** A component file of the registry: trusted, and allowed to import what lies under `root`. */
export interface RegistryEntry {
  key: string;
  /** Slug of its app. */
  app: string;
  kind: ComponentKind;
  path: string;
  root: string;
  /** It decides in a block of workflows. */
  isBlock: boolean;
}

/**
 * Our own registry: `components/<app>/sources/<name>.ts` and `components/<app>/actions/<name>.ts`, and in
 * `components/control_flow/blocks` the components that decide in the blocks of workflows. The key of a component is `<app>-<name>`, so the catalogue is a directory listing and nothing is evaluated before it is used.
 */
export class LocalRegistry {
  readonly #root: string;
  #entries: Promise<Map<string, RegistryEntry>> | undefined;

  constructor(root: string) {
    this.#root = root;
  }

  async find(key: string): Promise<RegistryEntry | undefined> {
    this.#entries ??= listEntries(this.#root);
    return (await this.#entries).get(key);
  }

  /** The keys that users choose from. */
  async keys(): Promise<string[]> {
    this.#entries ??= listEntries(this.#root);
    return [...(await this.#entries).values()]
      .filter(isShown)
      .map(({ key }) => key)
      .sort();
  }

  /** The kinds of components there are for each app, by its slug. */
  async apps(): Promise<Map<string, Set<RegistryEntry['kind']>>> {
    this.#entries ??= listEntries(this.#root);
    const apps = new Map<string, Set<RegistryEntry['kind']>>();
    for (const { app, kind } of [...(await this.#entries).values()].filter(isShown)) {
      apps.set(app, (apps.get(app) ?? new Set()).add(kind));
    }
    return apps;
  }
}

/** Definitions name the block, not the component that decides in it. */
function isShown({ isBlock }: RegistryEntry): boolean {
  return !isBlock;
}

async function listEntries(root: string): Promise<Map<string, RegistryEntry>> {
  const entries = new Map<string, RegistryEntry>();
  for (const app of await directories(root)) {
    for (const folder of [...componentKinds, 'blocks'] as const) {
      const isBlock = folder === 'blocks';
      for (const file of await files(join(root, app, folder))) {
        const name = /^(.+)\.(ts|mts|mjs|js)$/.exec(file)?.[1];
        if (name === undefined || name.endsWith('.test') || name.endsWith('.d')) continue;
        const key = `${app}-${name}`;
        const kind = isBlock ? 'actions' : folder;
        entries.set(key, { key, app, kind, path: join(root, app, folder, file), root, isBlock });
      }
    }
  }
  return entries;
}

async function directories(folder: string): Promise<string[]> {
  const found = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return found.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}

async function files(folder: string): Promise<string[]> {
  const found = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return found.filter((entry) => entry.isFile()).map((entry) => entry.name);
}
