import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Db, Store } from '#storage/store.ts';
import type { AppTable } from '#storage/tables/account-tables.ts';
import type { AppDefinition } from './app-definition.ts';
import { readAppFiles } from './app-files.ts';
import { appIdOf, isAppId } from './app-id.ts';
import { findOwnApps, selectOwnApps } from './app-store.ts';
import { nearestApp } from './nearest-app.ts';
import { parseApp } from './parse-app.ts';

/** An app and whose it is; no owner: it comes with the service, or from the operator's folder. */
export interface CatalogueEntry {
  app: AppDefinition;
  ownerId: string | undefined;
}

/** Every app the service knows. Those of files are read once; those of owners are always what the store says now. */
export class AppCatalogue {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #bySlug: ReadonlyMap<string, AppDefinition>;
  readonly #slugOfId: ReadonlyMap<string, string>;

  /** Reads the folders; an app of a later one takes the place of one of the same slug. Throws SettingsError. */
  static async load(options: { store: Store; folders: string[]; logger: Logger }): Promise<AppCatalogue> {
    const bySlug = new Map<string, AppDefinition>();
    for (const folder of options.folders) {
      for (const app of await readAppFiles(folder)) bySlug.set(app.slug, app);
    }
    return new AppCatalogue(options, bySlug);
  }

  private constructor(
    { store, logger }: { store: Store; logger: Logger },
    bySlug: ReadonlyMap<string, AppDefinition>,
  ) {
    this.#store = store;
    this.#logger = logger;
    this.#bySlug = bySlug;
    this.#slugOfId = new Map([...bySlug.keys()].map((slug) => [appIdOf(slug), slug]));
  }

  /** By slug or app_ id, as one of these owners sees it: the first of them who has it, then the service. */
  async find(
    slugOrId: string,
    ownerIds: readonly string[],
    db: Db = this.#store.read,
  ): Promise<AppDefinition | undefined> {
    return (await this.findEntry(slugOrId, ownerIds, db))?.app;
  }

  async findEntry(
    slugOrId: string,
    ownerIds: readonly string[],
    db: Db = this.#store.read,
  ): Promise<CatalogueEntry | undefined> {
    const rows = await findOwnApps(
      db,
      ownerIds,
      isAppId(slugOrId) ? { appId: slugOrId } : { slug: slugOrId },
    );
    const [own] = this.#entriesOf(rows, ownerIds);
    if (own !== undefined) return own;
    const app = this.findShipped(slugOrId);
    return app && { app, ownerId: undefined };
  }

  /** As `findEntry`. Throws CallerError `not_found`, which names the nearest slug there is. */
  async requireEntry(
    slugOrId: string,
    ownerIds: readonly string[],
    parameter = 'id',
  ): Promise<CatalogueEntry> {
    const entry = await this.findEntry(slugOrId, ownerIds);
    if (entry !== undefined) return entry;
    const apps = (await this.list(ownerIds)).map(({ app }) => app);
    const nearest = nearestApp(apps, slugOrId);
    throw new CallerError(
      'not_found',
      `no app ${JSON.stringify(slugOrId)}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`,
      { parameter, ...(nearest !== undefined && { nearest }) },
    );
  }

  /** Only what files say. */
  findShipped(slugOrId: string): AppDefinition | undefined {
    return this.#bySlug.get(slugOrId) ?? this.#bySlug.get(this.#slugOfId.get(slugOrId) ?? '');
  }

  /** Everything these owners see, by name; one entry for each slug. */
  async list(ownerIds: readonly string[]): Promise<CatalogueEntry[]> {
    const bySlug = new Map<string, CatalogueEntry>();
    for (const entry of this.#entriesOf(await selectOwnApps(this.#store.read, ownerIds), ownerIds)) {
      if (!bySlug.has(entry.app.slug)) bySlug.set(entry.app.slug, entry);
    }
    for (const [slug, app] of this.#bySlug) {
      if (!bySlug.has(slug)) bySlug.set(slug, { app, ownerId: undefined });
    }
    return [...bySlug.values()].sort(
      (a, b) => collator.compare(a.app.name, b.app.name) || (a.app.slug < b.app.slug ? -1 : 1),
    );
  }

  /** Entries in the order of the owners. An app that this version cannot read is left out, and the log says so. */
  #entriesOf(rows: readonly AppTable[], ownerIds: readonly string[]): CatalogueEntry[] {
    const entries: CatalogueEntry[] = [];
    for (const ownerId of ownerIds) {
      for (const row of rows.filter((found) => found.owner_id === ownerId)) {
        try {
          entries.push({ app: parseApp(JSON.parse(row.definition)), ownerId });
        } catch (error) {
          this.#logger.warn({ owner: ownerId, app: row.slug, err: toError(error) }, 'app.read-failed');
        }
      }
    }
    return entries;
  }
}

const collator = new Intl.Collator('en');
