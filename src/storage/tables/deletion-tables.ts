export const deletionKinds = ['workspace', 'user'] as const;
export type DeletionKind = (typeof deletionKinds)[number];

/**
 *   ending -> removing    nothing of it runs any longer: hooks were run, sources, workflows, webhooks and accounts are gone
 *          -> done        no row of it is left
 */
export const deletionStates = ['ending', 'removing', 'done'] as const;
export type DeletionState = (typeof deletionStates)[number];

/**
 * The deletion of a workspace or user (del_…). The row of the workspace or user goes in the transaction that writes this one; a job removes
 * everything else. The row stays, so that nothing is made for an owner who is gone.
 */
export interface DeletionTable {
  id: string;
  kind: DeletionKind;
  /** o_… or u_…; unique. */
  subject_id: string;
  /** The orgname or the username; null: a user whose deletion is done. */
  name: string | null;
  /** JSON array of the ids of owners whose rows go: the subject, and the service accounts of a workspace. */
  owner_ids: string;
  state: DeletionState;
  /** Rows that the job has removed. */
  removed_rows: number;
  /** The user (u_…) who asked for it. */
  requested_by: string;
  created_at_ms: number;
  ended_at_ms: number | null;
}
