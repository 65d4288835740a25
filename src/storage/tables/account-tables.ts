/** Where the credentials of an account come from. */
export const grantTypes = ['keys', 'authorization_code', 'client_credentials', 'oauth1'] as const;
export type GrantType = (typeof grantTypes)[number];

/** A connected account (apn_…). `sealed` is opened only for a runner or an explicit include_credentials. */
export interface AccountTable {
  id: string;
  owner_id: string;
  user_id: string;
  app_slug: string;
  app_id: string;
  app_name: string;
  name: string | null;
  /** Credentials as a component reads them, authenticated encryption under the owner's data key; see vault/vault.ts. */
  sealed: string;
  /** Grows with every change of `sealed`: a refresh is stored only over the version that it began with. */
  version: number;
  grant_type: GrantType;
  /** oa_… of the OAuth client it was connected with; null for keys. */
  oauth_client_id: string | null;
  /** JSON array of the scopes that were granted; null when the provider did not say. */
  authorized_scopes: string | null;
  /** When the access token ends; null: it does not end, or the provider did not say. */
  expires_at_ms: number | null;
  last_refreshed_at_ms: number | null;
  /** When the token is to be refreshed; null: never by itself. */
  next_refresh_at_ms: number | null;
  /** Refreshes that failed since the last one that did not. */
  refresh_failures: number;
  /** 1: the last test request succeeded, or there is none for this app. */
  healthy: number;
  /** 1: the provider refused it for good; connecting it again brings it back. */
  dead: number;
  /** Why it is unhealthy or dead, or why the last refresh failed; without secrets. */
  error: string | null;
  checked_at_ms: number | null;
  /** When it is to be tested next; null: only when asked. */
  next_check_at_ms: number | null;
  /** Tests that failed since the last one that did not. */
  check_failures: number;
  /** The node that refreshes it right now, until `lease_until_ms` at the latest. */
  lease_node: string | null;
  lease_until_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** Data keys, wrapped by the master key. The newest of an owner seals; all of them open. */
export interface DataKeyTable {
  owner_id: string;
  key_id: string;
  wrapped: string;
  created_at_ms: number;
  /** Since when nothing has been sealed with it; null: it may still be in use. */
  retired_at_ms: number | null;
}

export const rotationKinds = ['master', 'data'] as const;
export type RotationKind = (typeof rotationKinds)[number];

/**
 * The rotations of the keys of this store. One row says which master key wraps its data keys (written by the
 * first start), and one describes the last rotation of data keys.
 */
export interface KeyRotationTable {
  kind: RotationKind;
  /** master: id of the master key that all data keys are wrapped by when it is finished. data: empty. */
  key_id: string;
  /** data: whose; null: of all owners. */
  owner_id: string | null;
  /** data: owners whose newest key is older than this get a new one. */
  started_at_ms: number;
  /** Null: it is under way, or was interrupted. */
  finished_at_ms: number | null;
}

/** An app that an owner added to the catalogue; those that come with the service are files (apps/*.json). */
export interface AppTable {
  owner_id: string;
  slug: string;
  app_id: string;
  user_id: string;
  /** JSON in the format of apps/*.json, with the defaults filled in (accounts/apps/describe-app.ts). */
  definition: string;
  created_at_ms: number;
  updated_at_ms: number;
}

/** An owner's own client (oa_…) at an OAuth provider: one for each app. */
export interface OAuthClientTable {
  id: string;
  owner_id: string;
  user_id: string;
  app_slug: string;
  /** As the provider gave it. */
  client_id: string;
  /** `{ value: client secret }`, sealed for the oa_ id; null for a public client. */
  sealed_secret: string | null;
  /** JSON array; null: those of the app. */
  scopes: string | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** A user is connecting an account in a browser. One row from POST /accounts/connect to its end or its expiry. */
export interface ConnectFlowTable {
  id: string;
  owner_id: string;
  user_id: string;
  /** key_… or tok_… that the link was made with; a link ends with it. */
  key_id: string;
  app_slug: string;
  oauth_client_id: string | null;
  /** apn_… that is connected again; null: a new one. */
  account_id: string | null;
  name: string | null;
  /** Where the browser is sent in the end; null: a page of the service says how it went. */
  redirect_url: string | null;
  /** SHA-256 of the secret in the connect URL. */
  link_hash: string;
  /** SHA-256 of the cookie of the browser that opened the link; null: the link has not been opened. */
  browser_hash: string | null;
  /** SHA-256 of the `state` at the provider; null: not sent there yet. */
  state_hash: string | null;
  /** Fields of the app, PKCE verifier, nonce, OAuth 1 token secret: a JSON object sealed for this id. */
  sealed: string;
  created_at_ms: number;
  expires_at_ms: number;
  /** Set when the answer of the provider was taken: a second one is refused. */
  used_at_ms: number | null;
}

export const auditActions = [
  'created',
  'connected',
  'reconnected',
  'read_credentials',
  'updated',
  'credentials_replaced',
  'became_unhealthy',
  'became_healthy',
  'deleted',
] as const;
export type AuditAction = (typeof auditActions)[number];

/** The audit log of accounts, newest last. Rows outlive the account. */
export interface AccountAuditTable {
  id: string;
  owner_id: string;
  account_id: string;
  app_slug: string;
  action: AuditAction;
  /** u_…; null: the service itself. */
  user_id: string | null;
  /** The API key that was used; null: none. */
  key_id: string | null;
  /** JSON object without secrets. */
  details: string;
  created_at_ms: number;
}

/** How often a source, a workflow, or a component by itself got the credentials of an account, by UTC day. */
export interface AccountUseTable {
  account_id: string;
  /** dc_…, p_…, or sc_… of a component that was configured or run by itself. */
  used_by: string;
  /** YYYY-MM-DD */
  day: string;
  owner_id: string;
  uses: number;
  first_used_at_ms: number;
  last_used_at_ms: number;
}
