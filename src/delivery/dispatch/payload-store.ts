import { CompiledQuery, sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DeliveryPayloadTable, DeliveryTable } from '#storage/tables/delivery-tables.ts';

const payloadInsert: RowInsert<'delivery_payloads'> = {
  table: 'delivery_payloads',
  columns: ['emit_id', 'owner_id', 'event', 'fanning', 'created_at_ms'],
  ending: 'on conflict (emit_id) do nothing',
};

/** Without waiting for the store before the commit. */
export async function insertPayloads(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly DeliveryPayloadTable[],
): Promise<void> {
  for (const query of insertRows(store, payloadInsert, rows)) await store.defer(tx, query);
}

/** The statement that removes those of these texts that no delivery needs. */
export function dropPayloadsQuery(store: Dialect, emitIds: readonly string[]): CompiledQuery<object> {
  return payloadTexts.query(store, emitIds.length, emitIds, () => {
    const placeholders = emitIds.map((_id, index) => store.parameter(index + 1));
    return CompiledQuery.raw(`delete from delivery_payloads
      where emit_id in (${placeholders.join(', ')}) and fanning = 0 and ${nobodyNeedsIt}`);
  });
}

const payloadTexts = new StatementTexts();

/** Removes the texts that no delivery needs. */
export async function dropPayloads(tx: Tx, emitIds: readonly string[]): Promise<void> {
  for (let at = 0; at < emitIds.length; at += idsPerStatement)
    await tx
      .deleteFrom('delivery_payloads')
      .where('emit_id', 'in', emitIds.slice(at, at + idsPerStatement))
      .where('fanning', '=', 0)
      .where(sql<boolean>`${sql.raw(nobodyNeedsIt)}`)
      .execute();
}

const idsPerStatement = 500;

const nobodyNeedsIt = `not exists (
  select 1 from deliveries where deliveries.emit_id = delivery_payloads.emit_id and deliveries.has_payload = 1)`;

/**
 * Of the texts after `after`, removes those that no delivery needs: two nodes that each settled the other's last delivery
 * of an event leave such texts. Returns the last id looked at, undefined at the end.
 */
export async function sweepPayloads(
  tx: Tx,
  options: { after: string; beforeMs: number; limit: number },
): Promise<string | undefined> {
  const rows = await tx
    .selectFrom('delivery_payloads')
    .select('emit_id')
    .where('emit_id', '>', options.after)
    .where('created_at_ms', '<', options.beforeMs)
    .orderBy('emit_id')
    .limit(options.limit)
    .execute();
  await dropPayloads(
    tx,
    rows.map(({ emit_id }) => emit_id),
  );
  return rows.length < options.limit ? undefined : rows.at(-1)?.emit_id;
}

/** The statement for the text of an event that is on its way: one row, or none. */
export function payloadQuery(db: Db, emitId: string): CompiledQuery<{ event: string }> {
  return db.selectFrom('delivery_payloads').select('event').where('emit_id', '=', emitId).compile();
}

/** The text of an event that is on its way. */
export async function readPayload(db: Db, emitId: string): Promise<string | undefined> {
  const { rows } = await db.executeQuery(payloadQuery(db, emitId));
  return rows[0]?.event;
}

/** The text of the event that a delivery is about, while the event itself is still kept, and whose it is. */
export async function readEventOf(
  db: Db,
  delivery: Pick<DeliveryTable, 'emitter_id' | 'channel' | 'ms' | 'seq'>,
): Promise<{ event: string; owner_id: string } | undefined> {
  return db
    .selectFrom('events')
    .select(['event', 'owner_id'])
    .where('emitter_id', '=', delivery.emitter_id)
    .where('channel', '=', delivery.channel)
    .where('ms', '=', delivery.ms)
    .where('seq', '=', delivery.seq)
    .executeTakeFirst();
}

/** All deliveries that a job still made of this text are there. */
export async function endFanning(tx: Tx, emitId: string): Promise<void> {
  await tx.updateTable('delivery_payloads').set({ fanning: 0 }).where('emit_id', '=', emitId).execute();
  await dropPayloads(tx, [emitId]);
}
