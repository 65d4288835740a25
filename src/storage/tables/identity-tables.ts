/** People, keys, workspaces and projects (specification, section 2). Flags are 0 or 1; times are epoch ms. */
export interface UserTable {
  id: string;
  username: string;
  email: string;
  /** Instance admin: may create users and registry packages. */
  is_admin: number;
  created_at_ms: number;
}

/** A key is stored as SHA-256 of its text, never in clear. Rows are kept after revocation, so that 401 can be audited. */
export interface ApiKeyTable {
  id: string;
  user_id: string;
  name: string;
  key_hash: string;
  /** Last four characters, by which users recognise the key. */
  key_hint: string;
  created_at_ms: number;
  last_used_at_ms: number | null;
  revoked_at_ms: number | null;
}

/** The session of a user who signed in to the dashboard with an API key (ses_…). It ends with the key, or when its time is over. */
export interface SessionTable {
  id: string;
  key_id: string;
  /** SHA-256 of what is in the cookie. */
  token_hash: string;
  created_at_ms: number;
  expires_at_ms: number;
}

/**
 * An OAuth client (oac_…) of a workspace, for programs that use the API with access tokens. The secret is stored as
 * SHA-256 of its text. Rows are kept after revocation: things say who made them.
 */
export interface ApiClientTable {
  id: string;
  workspace_id: string;
  /** The user who made it; it stays when they leave. */
  user_id: string;
  name: string;
  secret_hash: string;
  /** Last four characters. */
  secret_hint: string;
  created_at_ms: number;
  secret_changed_at_ms: number;
  last_used_at_ms: number | null;
  revoked_at_ms: number | null;
}

/** An access token of such a client. Gone when it is revoked, or some time after it expired. */
export interface ApiTokenTable {
  id: string;
  client_id: string;
  workspace_id: string;
  /** SHA-256 of the token. */
  token_hash: string;
  created_at_ms: number;
  expires_at_ms: number;
}

export interface WorkspaceTable {
  id: string;
  /** Unique short name, made from `name`. */
  orgname: string;
  name: string;
  email: string;
  created_at_ms: number;
}

/** What a member of a workspace may do: viewers read, members change resources, admins also members and projects. */
export const roles = ['admin', 'member', 'viewer'] as const;
export type Role = (typeof roles)[number];

export interface MemberTable {
  workspace_id: string;
  user_id: string;
  role: Role;
  created_at_ms: number;
}

export interface ProjectTable {
  id: string;
  hid: string;
  name: string;
  repository_id: string | null;
  repository_path: string | null;
  org_id: string;
  exceptions: string | null;
  allow_support: number;
  created_at_ms: number;
  updated_at_ms: number;
}

/** What an owner used on one UTC day. Written in the transaction of the invocation it counts. */
export interface UsageDayTable {
  owner_id: string;
  /** YYYY-MM-DD, UTC. */
  day: string;
  invocations: number;
  compute_ms: number;
  credits: number;
}

/** Daily quotas of an owner that differ from those of the settings; null: as the setting says. */
export interface OwnerQuotaTable {
  owner_id: string;
  credits: number | null;
  compute_ms: number | null;
  invocations: number | null;
  /** 1: use beyond the quota is refused; 0: it is not; null: as in the setting. */
  enforced: number | null;
  /** Maximum of processes of user code on a node; null: only the share of the instance. */
  processes_max: number | null;
  memory_mb_max: number | null;
  /** Set for a user on the paid plan: start of the billing period; null: free. */
  billing_period_start_ms: number | null;
  updated_at_ms: number;
}
