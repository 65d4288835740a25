import type { Store } from '#storage/store.ts';
import { variablesStamp } from '#user-data/variables/variable-store.ts';
import { type ImportRow, itemsOf } from './import-store.ts';
import type { PlannedImport } from './manage-imports.ts';
import { type ImportItem, type ImportSummary, isObjectItem, type ObjectItem } from './report.ts';

/** Reports kept, those that were read last: one of 1,000 workflows takes a few megabytes. */
const reportsMax = 16;

/** What is made of the items of an import. */
type BuildReport<Report> = (
  row: Pick<ImportRow, 'owner_id' | 'project_id'>,
  planned: PlannedImport,
) => Promise<Report>;

interface Built<Report> {
  /** All items so far, by their positions. */
  all: readonly (ImportItem | ObjectItem)[];
  /** What else the report is made of. */
  stamp: string;
  report: Report;
}

/**
 * Reports of imports as they were built last. A caller that polls gets the same report as long as no item was added, and neither the import
 * nor a variable of its workflows was changed; otherwise only items that are new are read.
 */
export class ReportCache<Report> {
  readonly #store: Store;
  readonly #build: BuildReport<Report>;
  /** By the id of their import, those first that were read longest ago. */
  readonly #built = new Map<string, Built<Report>>();

  constructor(store: Store, build: BuildReport<Report>) {
    this.#store = store;
    this.#build = build;
  }

  /** The report of an import, and how many items are in it. */
  async reportOf(row: ImportRow): Promise<{ report: Report; done: number }> {
    const { id, owner_id: ownerId, project_id: projectId } = row;
    const db = this.#store.read;
    const known = this.#built.get(id);
    // The stamp is read before the variables: a change in between is seen by the next look.
    const variables = await variablesStamp(db, ownerId, projectId === '' ? null : projectId);
    const stamp = `${variables}\n${row.summary}`;
    const added = await itemsOf(db, id, known?.all.length ?? 0);
    const isSame = known !== undefined && added.length === 0 && known.stamp === stamp;
    const built = isSame ? known : await this.#rebuilt(row, { known, added, stamp });
    this.#built.delete(id);
    this.#built.set(id, built);
    for (const oldest of this.#built.keys()) {
      if (this.#built.size <= reportsMax) break;
      this.#built.delete(oldest);
    }
    return { report: built.report, done: built.all.length };
  }

  async #rebuilt(
    row: ImportRow,
    {
      known,
      added,
      stamp,
    }: { known: Built<Report> | undefined; added: readonly { item: string }[]; stamp: string },
  ): Promise<Built<Report>> {
    const fresh = added.map(({ item }) => JSON.parse(item) as ImportItem | ObjectItem);
    const all = [...(known?.all ?? []), ...fresh];
    const report = await this.#build(row, {
      summary: JSON.parse(row.summary) as ImportSummary,
      items: all.filter((item): item is ImportItem => !isObjectItem(item)),
      objects: all.filter(isObjectItem),
    });
    return { all, stamp, report };
  }
}
