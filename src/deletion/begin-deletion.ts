import { deleteFlowsOf } from '#accounts/connect/connect-flow-store.ts';
import { noteOwner } from '#audit/audit-context.ts';
import { recordFurtherChange, recordSubject } from '#audit/record-change.ts';
import {
  deleteUserRows,
  deleteWorkspaceRow,
  insertDeletion,
  serviceUsersOf,
} from '#identity/deletion-store.ts';
import { findRetention } from '#identity/retention-store.ts';
import type { Workspace } from '#identity/workspace-store.ts';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newTimeOrderedId } from '#lib/ids.ts';
import { deleteTimersOfOwner } from '#schedule/timer-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeletionKind, DeletionTable } from '#storage/tables/deletion-tables.ts';
import { deactivateWorkflowsOf } from '#workflows/definitions/workflow-store.ts';

/** What is deleted, and by whom. */
export interface DeletionSubject {
  kind: DeletionKind;
  id: string;
  /** The orgname or the username. */
  name: string;
  requestedBy: string;
  /** True for workspaces that go with a user: the audit has the user as its subject. */
  isFurther?: boolean;
}

/**
 * Accepts a deletion in the caller's transaction, which has checked that it may be: the row of the workspace or user goes, and with it all
 * access; timers and connect links end, and workflows take no events. A job ends and removes everything else. The audit has it as a change of the instance,
 * since that of a workspace or user goes too.
 */
export async function beginDeletion(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  subject: DeletionSubject,
  nowMs: number,
): Promise<DeletionTable> {
  const { kind, id: subjectId, name, requestedBy, isFurther = false } = subject;
  const services = kind === 'workspace' ? await serviceUsersOf(tx, subjectId) : [];
  const deletion: DeletionTable = {
    ...{ id: newId('del'), kind, subject_id: subjectId, name },
    owner_ids: JSON.stringify([subjectId, ...services]),
    ...{
      state: 'ending',
      removed_rows: 0,
      requested_by: requestedBy,
      created_at_ms: nowMs,
      ended_at_ms: null,
    },
  };
  const audited = { kind: 'deletions', id: deletion.id, path: {} };
  if (isFurther) await recordFurtherChange(tx, { ...audited, ownerId: null, isNew: true });
  else {
    noteOwner(null);
    await recordSubject(tx, audited);
  }
  await insertDeletion(tx, deletion);
  await deleteTimersOfOwner(tx, subjectId);
  await deactivateWorkflowsOf(tx, subjectId, nowMs);
  await deleteFlowsOf(tx, subjectId);
  await deleteUserRows(tx, kind === 'user' ? [subjectId] : services);
  if (kind === 'workspace') await deleteWorkspaceRow(tx, subjectId);
  await insertJobs(tx, [deletionJob({ deletion, runAtMs: nowMs, nowMs })]);
  await store.notify(tx, 'millrace_jobs', '');
  await store.notify(tx, 'millrace_access', subjectId);
  return deletion;
}

export function deletionJob({
  deletion,
  isLate = false,
  ...times
}: {
  deletion: Pick<DeletionTable, 'id' | 'subject_id'>;
  isLate?: boolean;
  runAtMs: number;
  nowMs: number;
}) {
  return jobRow({
    ...{ id: newTimeOrderedId(times.nowMs), kind: 'delete_owner', ownerId: deletion.subject_id, ...times },
    payload: { deletion_id: deletion.id, ...(isLate ? { isLate } : {}) },
  });
}

/** Throws CallerError `conflict` for a workspace under a legal hold. */
export async function refuseHeld(tx: Tx, { id, orgname }: Pick<Workspace, 'id' | 'orgname'>): Promise<void> {
  if ((await findRetention(tx, id))?.legal_hold !== 1) return;
  throw new CallerError(
    'conflict',
    `the workspace ${orgname} is under a legal hold: it can be deleted when the admin of the instance has lifted it`,
    { workspace: id },
  );
}

/** The name that the user typed is a confirmation. Throws CallerError `invalid_parameter`. */
export function requireName(parameter: 'orgname' | 'username', found: string, expected: string): void {
  if (found === expected) return;
  throw new CallerError(
    'invalid_parameter',
    `${parameter}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}, the name of what is deleted`,
    { parameter },
  );
}
