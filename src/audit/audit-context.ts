import { AsyncLocalStorage } from 'node:async_hooks';
import type { AuditActorKind } from '#storage/tables/audit-tables.ts';

/** The author of a change. */
export interface AuditActor {
  kind: AuditActorKind;
  userId: string | null;
  keyId: string | null;
  sessionId: string | null;
}

/** An object before and after a change, as its columns are in the store. */
export type Snapshot = Readonly<Record<string, unknown>>;

/** What is changed. */
export interface AuditSubject {
  /** The name of its collection in the path. */
  kind: string;
  /** Null: it is made by the change. */
  id: string | null;
  /** Parameters of the path. */
  path: Readonly<Record<string, string>>;
}

/** Another object that a change alters beside its subject. It has a record of its own. */
export interface FurtherChange {
  readonly recordId: string;
  readonly subject: AuditSubject;
  /** Null: the instance. */
  readonly ownerId: string | null;
  readonly before: Snapshot | null;
}

/** A change under way. Its record is written by the first transaction of the change, and completed when the change is over. */
export interface AuditContext {
  readonly recordId: string;
  readonly operation: string;
  readonly requestId: string | null;
  readonly address: string | null;
  readonly parameters: Readonly<Record<string, unknown>>;
  subject: AuditSubject | undefined;
  /** Null: the instance. */
  ownerId: string | null;
  actor: AuditActor;
  createdAtMs: number;
  /** True once a transaction of the change has committed with the record in it. */
  isRecorded: boolean;
  /** Undefined until the object was read for the first time. */
  before: Snapshot | null | undefined;
  /** Changes by transactions that have committed, and by the one under way. */
  readonly further: FurtherChange[];
  /** What the API answers, before fields are left out. */
  answer: unknown;
  /** Work that the change started may run longer; it is not part of it. */
  isOver: boolean;
}

export const auditContexts = new AsyncLocalStorage<AuditContext>();

/** Sets the caller of an operation that identifies its caller itself, such as a sign-in. */
export function noteActor(actor: AuditActor, ownerId: string): void {
  const context = auditContexts.getStore();
  if (context === undefined) return;
  context.actor = actor;
  context.ownerId = ownerId;
}

/** Sets the owner of what is changed, where neither the path nor the object says it; null: the instance. */
export function noteOwner(ownerId: string | null): void {
  const context = auditContexts.getStore();
  if (context !== undefined) context.ownerId = ownerId;
}

/** An object with an id; parameters of its path only where its key needs them. */
interface NotedSubject {
  kind: string;
  id: string;
  path?: AuditSubject['path'];
  isNew?: boolean;
}

/** Sets what is changed, where the path does not name it. `isNew`: the change makes it. Else its state is read by the next transaction. */
export function noteSubject({ isNew = false, ...subject }: NotedSubject): void {
  const context = auditContexts.getStore();
  if (context === undefined) return;
  context.subject = { path: {}, ...subject };
  context.before = isNew ? null : undefined;
}

/** Keeps what the API answers, to find the id of an object that was made. */
export function noteAnswer(answer: unknown): void {
  const context = auditContexts.getStore();
  if (context !== undefined) context.answer = answer;
}

/** The user whose change is under way. Undefined: what is under way is no change of a user. */
export function changingUser(): string | undefined {
  return auditContexts.getStore()?.actor.userId ?? undefined;
}
