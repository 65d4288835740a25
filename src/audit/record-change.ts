import { FairQueue } from '#lib/fair-queue.ts';
import { newId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { AuditRecordTable } from '#storage/tables/audit-tables.ts';
import {
  type AuditContext,
  type AuditSubject,
  auditContexts,
  type FurtherChange,
  type Snapshot,
} from './audit-context.ts';
import { putAuditRecord, putAuditRecords, readRow } from './audit-store.ts';
import { type AuditedObject, auditedObject } from './audited-objects.ts';
import { ChangeWatch } from './change-watch.ts';
import { describeChange } from './describe-change.ts';

/** Transactions of changes at the same time: writes of an embedded store wait for each other in the order of their requests. */
const changesAtOnce = 4;
const changesPerAuthor = 1;
/** After a change that took long, such as the start of a replay of large events, its author waits as long. */
const restOfAuthor = 1;
/** Changes that took less are followed by no rest. */
const restAfterMs = 50;

/**
 * The same store, whose transactions write the audit record of the change that they are part of. Promises:
 * - a change by a transaction and its record are stored together, or neither is;
 * - a change by a group-committed write has its record before its request is answered, but a crash in between leaves none;
 * - a record whose `status` is null was not completed: the service stopped before it answered;
 * - changes of one author, however many are asked for at the same time, keep writes of the service and of others waiting for one transaction at most,
 *   and for half of the time.
 */
export function auditedStore<S extends Store>(store: S): S {
  const turns = new FairQueue(changesAtOnce, {
    ...{ perAsker: changesPerAuthor, rest: () => restOfAuthor, restAfterMs },
  });
  return {
    ...store,
    transaction: <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
      const context = auditContexts.getStore();
      return context === undefined || context.isOver
        ? store.transaction(work)
        : turns.run(authorOf(context), () => recordedTransaction(store, context, work));
    },
  };
}

function authorOf({ actor, ownerId, address }: AuditContext): string | null {
  return actor.userId ?? ownerId ?? address;
}

async function recordedTransaction<T>(
  store: Store,
  context: AuditContext,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const committed = context.further.length;
  const watch = new ChangeWatch();
  try {
    const result = await store.transaction(async (unwatched) => {
      const tx = unwatched.withPlugin(watch);
      if (context.before === undefined) context.before = await readObject(tx, objectOf(context));
      const done = await work(tx);
      if (!context.isOver && watch.hasChanged) {
        await putAuditRecord(tx, await recordOf(tx, context, null));
        for (const change of context.further)
          await putAuditRecord(tx, await furtherRecord(tx, context, change, null));
      }
      return done;
    });
    if (watch.hasChanged) context.isRecorded = true;
    return result;
  } catch (error) {
    context.further.length = committed;
    throw error;
  }
}

/**
 * Records an object that the change alters beside its subject, so that those in charge of it see it: a role that a sign-in gives is a change
 * of the workspace. Called in the transaction, before the object is changed, or after it was made (`isNew`). Changes outside of requests
 * and commands are not recorded.
 */
export async function recordFurtherChange(
  tx: Tx,
  {
    isNew = false,
    ownerId,
    ...subject
  }: AuditSubject & { id: string; ownerId: string | null; isNew?: boolean },
): Promise<void> {
  const context = auditContexts.getStore();
  if (context === undefined || context.isOver) return;
  const { kind, id, path } = subject;
  const isSame = (known: AuditSubject) => known.kind === kind && known.id === id && known.path.id === path.id;
  if (context.further.some((known) => isSame(known.subject))) return;
  const before = isNew ? null : await readObject(tx, auditedObject(kind, id, path));
  context.further.push({ recordId: newId('aud'), subject, ownerId, before });
}

/** Sets what is changed, and reads its state, where only the operation knows its key. Called in the transaction, before the change. */
export async function recordSubject(tx: Tx, subject: AuditSubject & { id: string }): Promise<void> {
  const context = auditContexts.getStore();
  if (context === undefined || context.isOver) return;
  context.subject = subject;
  context.before = await readObject(tx, objectOf(context));
}

/** Writes how a change ended. A change that was refused and changed nothing leaves no record. */
export async function completeRecord(
  store: Pick<Store, 'writes'>,
  context: AuditContext,
  status: number,
): Promise<void> {
  context.isOver = true;
  if (!context.isRecorded && status >= 400) return;
  // What a user changes in the instance counts to the user.
  const ownerId = context.ownerId ?? context.actor.userId ?? undefined;
  await Promise.all([
    store.writes.submit(putAuditRecords, { ownerId, make: (tx) => recordOf(tx, context, status) }),
    ...context.further.map((change) =>
      store.writes.submit(putAuditRecords, {
        ownerId,
        make: (tx) => furtherRecord(tx, context, change, status),
      }),
    ),
  ]);
}

/** The record of another object, by the same author at the same time. */
function furtherRecord(
  tx: Tx,
  context: AuditContext,
  { recordId, ...change }: FurtherChange,
  status: number | null,
): Promise<AuditRecordTable> {
  return recordOf(tx, { ...context, ...change, recordId, parameters: {}, answer: undefined }, status);
}

/** The record as it is known now. The state of the object is read in the same transaction. */
async function recordOf(tx: Tx, context: AuditContext, status: number | null): Promise<AuditRecordTable> {
  const { actor, subject } = context;
  const id = subject === undefined ? null : (subject.id ?? idOfAnswer(context.answer));
  const object = objectOf(context);
  const after = await readObject(tx, object);
  const before = context.before ?? null;
  // Without a transaction, the state before is known only of an object that is new.
  const isKnown = context.before !== undefined || subject?.id === null;
  const change =
    object === undefined || !isKnown
      ? { before: null, after: null }
      : describeChange(before, after, {
          ...object.columns,
          ...object.beside?.columns,
        });
  return {
    id: context.recordId,
    owner_id: ownerOf(object, after ?? before) ?? context.ownerId,
    actor_kind: actor.kind,
    user_id: actor.userId,
    key_id: actor.keyId,
    session: actor.sessionId,
    address: context.address,
    operation: context.operation,
    object_kind: subject?.kind ?? null,
    object_id: id,
    status,
    before: change.before && JSON.stringify(change.before),
    after: change.after && JSON.stringify(change.after),
    parameters: JSON.stringify(context.parameters),
    request_id: context.requestId,
    created_at_ms: context.createdAtMs,
  };
}

async function readObject(tx: Tx, object: AuditedObject | undefined): Promise<Snapshot | null> {
  if (object === undefined) return null;
  const { table, key, owner, columns, beside } = object;
  const names = new Set([...Object.keys(columns), ...(owner === null ? [] : [owner])]);
  if (names.size === 0) return null;
  const row = await readRow(tx, { table, key, columns: [...names] });
  if (row === undefined || beside === undefined) return row ?? null;
  return { ...row, ...(await readRow(tx, { ...beside, columns: Object.keys(beside.columns) })) };
}

function objectOf({ subject, answer }: AuditContext): AuditedObject | undefined {
  const id = subject?.id ?? idOfAnswer(answer);
  if (subject === undefined || id === null) return undefined;
  return auditedObject(subject.kind, id, subject.path);
}

function ownerOf(object: AuditedObject | undefined, snapshot: Snapshot | null): string | undefined {
  if (object === undefined || object.owner === null) return undefined;
  const owner = snapshot?.[object.owner];
  return typeof owner === 'string' ? owner : undefined;
}

/** The id of the object that an operation made, as the API answers it. */
function idOfAnswer(answer: unknown): string | null {
  const { id, user_id: userId } = (typeof answer === 'object' && answer !== null ? answer : {}) as {
    id?: unknown;
    user_id?: unknown;
  };
  if (typeof id === 'string') return id;
  return typeof userId === 'string' ? userId : null;
}
