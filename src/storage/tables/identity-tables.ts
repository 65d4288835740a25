/** A user is a person, or a service account of a workspace. */
export const userKinds = ['person', 'service'] as const;
export type UserKind = (typeof userKinds)[number];

/** People, keys, workspaces and projects (specification, section 2). Flags are 0 or 1; times are epoch ms. */
export interface UserTable {
  id: string;
  kind: UserKind;
  /** The workspace (o_…) of a service account; null for a person. */
  workspace_id: string | null;
  /** The user (u_…) who made a service account; null for a person. */
  created_by: string | null;
  /** Set while the user is disabled: keys and sessions are refused. */
  disabled_at_ms: number | null;
  /** What the admin of the instance gave as the reason, for admins; null: nothing, or the user is not disabled. */
  disabled_reason: string | null;
  username: string;
  email: string;
  /** Instance admin: may create users and registry packages. */
  is_admin: number;
  created_at_ms: number;
}

/** What an API key may be used for; docs/reference/permissions.md has the operations of each. */
export const keyScopes = ['read', 'run', 'write', 'credentials', 'admin'] as const;
export type KeyScope = (typeof keyScopes)[number];

/** A key is stored as SHA-256 of its text, never in clear. Rows are kept after revocation, so that 401 can be audited. */
export interface ApiKeyTable {
  id: string;
  user_id: string;
  name: string;
  key_hash: string;
  /** Last four characters, by which users recognise the key. */
  key_hint: string;
  /** Comma-separated scopes; null: all, also those that a later version adds. */
  scopes: string | null;
  /** The key is refused from then on; null: it has no end. */
  expires_at_ms: number | null;
  created_at_ms: number;
  last_used_at_ms: number | null;
  revoked_at_ms: number | null;
}

/**
 * The session of a user who signed in to the dashboard (ses_…), with an API key, or with an identity, which has a key of its own. It ends with
 * the key, or when its time is over.
 */
export interface SessionTable {
  id: string;
  key_id: string;
  /** SHA-256 of what is in the cookie. */
  token_hash: string;
  /** The family of the browser and its system, such as `Firefox on Linux`; null: not known. */
  user_agent: string | null;
  /** The address of the last use that was recorded; null: not known. */
  address: string | null;
  last_used_at_ms: number | null;
  created_at_ms: number;
  expires_at_ms: number;
}

/**
 * A user's account at the OpenID Connect provider (idn_…), by which the user is recognized at sign-in: the issuer and its subject, never an
 * e-mail address. A user has one at most of each issuer.
 */
export interface UserIdentityTable {
  id: string;
  user_id: string;
  issuer: string;
  subject: string;
  /** As the provider gave it last, verified or not: it is only shown. */
  email: string | null;
  /** Sessions that began with this identity belong to this API key, whose text is kept nowhere. They end with it. */
  key_id: string;
  /** 1: the user is an admin of the instance because of a group. */
  admin_by_groups: number;
  created_at_ms: number;
  /** Null: it was linked, and not yet signed in with. */
  signed_in_at_ms: number | null;
}

/** A membership that a group of the provider gave. With another role in `members`, an admin has changed it since, and it is theirs. */
export interface GroupMembershipTable {
  workspace_id: string;
  user_id: string;
  role: Role;
}

/** A sign-in with the provider that has come to its end, so that its answer counts once. Gone some time after it expired. */
export interface UsedSignInTable {
  /** SHA-256 of the state that the provider sent back. */
  state_hash: string;
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
  /** The user (u_…) who created it; null: a version before this was recorded did. */
  created_by: string | null;
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
  /** Emitted by its sources and workflows, log lines and errors apart. */
  events: number;
  /** Attempts to deliver to its listeners. */
  deliveries: number;
}

/** Quotas and limits (metering/owner-limits.ts) of an owner that differ from those of the settings; null: as the setting says. */
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
  /** 0: no limit, as for those below. */
  sources_max: number | null;
  workflows_max: number | null;
  events_max: number | null;
  deliveries_max: number | null;
  stored_mb_max: number | null;
  streams_max: number | null;
  builds_max: number | null;
  /** Workspaces that a user may have created. */
  workspaces_max: number | null;
  /** Set for a user on the paid plan: start of the billing period; null: free. */
  billing_period_start_ms: number | null;
  updated_at_ms: number;
}

/** How long a workspace keeps what happened, where that differs from the instance; null: as the instance. */
export interface WorkspaceRetentionTable {
  workspace_id: string;
  events_days: number | null;
  runs_days: number | null;
  deliveries_days: number | null;
  audit_days: number | null;
  files_days: number | null;
  /** 1: nothing of it is removed because of its age or number. */
  legal_hold: number;
  updated_at_ms: number;
}
