/**
 * Who made a change: a person with an API key or a session, a service account, an OAuth client with an access token, a request without any
 * of these (a link, or credentials in its body), or the operator by a command on the data folder.
 */
export const auditActorKinds = ['user', 'service_account', 'oauth_client', 'public', 'operator'] as const;
export type AuditActorKind = (typeof auditActorKinds)[number];

/** A change, with who made it. Rows outlive everything that they name, and hold no secret. Times are epoch ms. */
export interface AuditRecordTable {
  id: string;
  /** u_… or o_… that the changed object belongs to; null: the instance. */
  owner_id: string | null;
  actor_kind: AuditActorKind;
  /** u_… or oac_…; null: not known. */
  user_id: string | null;
  /** key_… or tok_…; null: none. */
  key_id: string | null;
  /** ses_…; null: none. */
  session: string | null;
  address: string | null;
  /** The `operationId`, `METHOD path` of a route without one, or a command of the operator. */
  operation: string;
  /** The name of the collection in the path, such as `webhooks`; null: none is named. */
  object_kind: string | null;
  object_id: string | null;
  /** The HTTP status of the answer; null: the service stopped before it. */
  status: number | null;
  /** JSON object of the fields that changed; null: the object was not there, or its fields are not recorded. */
  before: string | null;
  after: string | null;
  /** JSON object: parameters of the path and query, and fields of the body. */
  parameters: string;
  request_id: string | null;
  created_at_ms: number;
}
