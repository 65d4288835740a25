import type { Db } from '#storage/store.ts';
import type { EventId } from './event-id.ts';

/** An emitter and the highest id it ever gave, `0-0` before the first. */
export interface EmitterPlace extends EventId {
  id: string;
}

/** Emitters read per page. */
const pageRows = 1000;

export async function ownerOfEmitter(db: Db, emitterId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('emitters')
    .select('owner_id')
    .where('id', '=', emitterId)
    .executeTakeFirst();
  return row?.owner_id;
}

/**
 * All emitters of an owner, a page at a time: the owner itself, once it has emitted, its sources and its workflows. They
 * are found by what emits, which has an index by owner: `emitters` is written with every event, and has none. Those that
 * come while this reads may be missing.
 */
export async function* emittersOf(db: Db, ownerId: string): AsyncGenerator<EmitterPlace[]> {
  yield db
    .selectFrom('emitters')
    .select(['id', 'last_ms as ms', 'last_seq as seq'])
    .where('id', '=', ownerId)
    .execute();
  yield* emittersOfKind(db, 'sources', ownerId);
  yield* emittersOfKind(db, 'workflows', ownerId);
}

async function* emittersOfKind(
  db: Db,
  table: 'sources' | 'workflows',
  ownerId: string,
): AsyncGenerator<EmitterPlace[]> {
  // The two have the columns that are read here in common, which the types of a union do not say.
  const emitting = table as 'sources';
  for (let last = { createdMs: -1, id: '' }; ; ) {
    const { createdMs, id } = last;
    const rows = await db
      .selectFrom(`${emitting} as emitting`)
      .innerJoin('emitters', 'emitters.id', 'emitting.id')
      .select(['emitting.id', 'emitting.created_at_ms', 'emitters.last_ms', 'emitters.last_seq'])
      .where('emitting.owner_id', '=', ownerId)
      .where((where) =>
        where(where.refTuple('emitting.created_at_ms', 'emitting.id'), '>', where.tuple(createdMs, id)),
      )
      .orderBy('emitting.created_at_ms')
      .orderBy('emitting.id')
      .limit(pageRows)
      .execute();
    yield rows.map((row) => ({ id: row.id, ms: row.last_ms, seq: row.last_seq }));
    const end = rows.at(-1);
    if (end === undefined || rows.length < pageRows) return;
    last = { createdMs: end.created_at_ms, id: end.id };
  }
}
