/** Environment variables of workflows. Flags are 0 or 1; times are epoch ms. */
export interface VariableTable {
  id: string;
  owner_id: string;
  /** proj_…; '': the variable is for all workflows of the owner. */
  project_id: string;
  name: string;
  /** 1: the API never answers the value. */
  secret: number;
  /** `{ value: text }`, sealed for the id. Plain values are sealed too. */
  sealed: string;
  /** UTF-8 bytes of name and value. */
  bytes: number;
  description: string;
  /** The user (u_…) or OAuth client (oac_…) that made the last change. */
  user_id: string;
  created_at_ms: number;
  updated_at_ms: number;
}

/** The variables of an owner, or of one of its projects, as a whole. Changes of a set take turns by locking its row. */
export interface VariableSetTable {
  owner_id: string;
  /** proj_…; '': those of the owner. */
  project_id: string;
  /** Grows with every change; deployments that were loaded before the change are loaded again. */
  version: number;
}

export const variableAuditActions = ['created', 'updated', 'deleted'] as const;
export type VariableAuditAction = (typeof variableAuditActions)[number];

/** The changes of variables, newest last. Rows outlive the variable and its project, and hold no value. */
export interface VariableAuditTable {
  id: string;
  owner_id: string;
  /** proj_…; '': a variable of the owner. */
  project_id: string;
  name: string;
  action: VariableAuditAction;
  /** The user (u_…) or OAuth client (oac_…) that made the change. */
  user_id: string;
  /** The API key or access token of the request: key_… or tok_…. */
  key_id: string;
  /** JSON object of what changed, without values. */
  details: string;
  created_at_ms: number;
}
