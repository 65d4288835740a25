import { rowsPerInsert } from '#storage/insert-rows.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { type Apphook, eventNamesMax, isNamed, lookupOf, lookupsFor } from './apphooks.ts';

/** An event of an app that a caller pushes to the sources of an owner. */
export interface PushedName {
  ownerId: string;
  /** Slug. */
  app: string;
  /** Those that it is pushed under. */
  eventNames: readonly string[];
}

/** Names read in one statement: more than one source can have, so that each is read as a whole. */
const rowsPerRead = eventNamesMax + 500;

/** What a source is found by. */
export async function insertApphooks(
  tx: Tx,
  source: Pick<SourceTable, 'id' | 'owner_id' | 'apphooks'>,
): Promise<void> {
  if (source.apphooks === null) return;
  // Two props may listen to the same.
  const namesByApp = new Map<string, Set<string>>();
  for (const { app, names } of JSON.parse(source.apphooks) as Apphook[])
    namesByApp.set(app, new Set([...(namesByApp.get(app) ?? []), ...names]));
  const rows = [...namesByApp].flatMap(([app, names]) =>
    [...names].map((name) => ({
      source_id: source.id,
      owner_id: source.owner_id,
      app,
      event_name: name,
      lookup: lookupOf(name),
    })),
  );
  for (let at = 0; at < rows.length; at += rowsPerInsert)
    await tx
      .insertInto('source_apphooks')
      .values(rows.slice(at, at + rowsPerInsert))
      .execute();
}

export async function deleteApphooks(tx: Tx, sourceId: string): Promise<void> {
  await tx.deleteFrom('source_apphooks').where('source_id', '=', sourceId).execute();
}

/** True when a source of the owner, active or not, listens to events of this app. */
export async function listensToApp(db: Db, ownerId: string, app: string): Promise<boolean> {
  const row = await db
    .selectFrom('source_apphooks')
    .select('source_id')
    .where('owner_id', '=', ownerId)
    .where('app', '=', app)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Active sources of the owner that listen to an event, each once, by id: a page of those after `after` ('': the first ones).
 * `next` is the `after` of the next page; undefined: these were the last. `only`: restricts the page to these.
 */
export async function pageOfListeners(
  db: Db,
  pushed: PushedName,
  after: string,
  only?: readonly string[],
): Promise<{ sourceIds: string[]; next: string | undefined }> {
  const rows = await db
    .selectFrom('source_apphooks')
    .innerJoin('sources', 'sources.id', 'source_apphooks.source_id')
    .select(['source_apphooks.source_id', 'source_apphooks.event_name'])
    .where('source_apphooks.owner_id', '=', pushed.ownerId)
    .where('source_apphooks.app', '=', pushed.app)
    .where('source_apphooks.lookup', 'in', [...new Set(pushed.eventNames.flatMap(lookupsFor))])
    .where('source_apphooks.source_id', '>', after)
    .where('sources.state', '=', 'active')
    .$if(only !== undefined, (query) => query.where('source_apphooks.source_id', 'in', [...(only ?? [])]))
    .orderBy('source_apphooks.source_id')
    .limit(rowsPerRead)
    .execute();
  const last = rows.at(-1)?.source_id;
  // There may be more rows of the last listener.
  const isWhole = rows.length < rowsPerRead;
  const whole = isWhole ? rows : rows.filter(({ source_id }) => source_id !== last);
  const matching = whole.filter(({ event_name }) =>
    pushed.eventNames.some((name) => isNamed(event_name, name)),
  );
  return {
    sourceIds: [...new Set(matching.map(({ source_id }) => source_id))],
    next: isWhole ? undefined : whole.at(-1)?.source_id,
  };
}
