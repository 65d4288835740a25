/** A connected account (apn_…). `sealed` is opened only for a runner or an explicit include_credentials. */
export interface AccountTable {
  id: string;
  owner_id: string;
  user_id: string;
  app_slug: string;
  app_id: string;
  app_name: string;
  name: string | null;
  /** Credentials, authenticated encryption under the owner's data key; see accounts/vault.ts. */
  sealed: string;
  created_at_ms: number;
  updated_at_ms: number;
}

/** Data keys, wrapped by the master key. The newest of an owner seals; all of them open. */
export interface DataKeyTable {
  owner_id: string;
  key_id: string;
  wrapped: string;
  created_at_ms: number;
}
