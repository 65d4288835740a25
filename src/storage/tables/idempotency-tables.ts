/**
 * An `Idempotency-Key` of a request, for 24 hours. The key of a request to an endpoint is written in the transaction that stores
 * the job, run or record of the request, so that there is one exactly when the request was taken. The key of a request to the API
 * is written before the request is carried out.
 */
export interface IdempotencyKeyTable {
  /** Digest of the key and of the endpoint or, at the API, the caller: the same key at two endpoints is two rows. */
  id: string;
  owner_id: string;
  /** The source (dc_…) or workflow (p_…), with which the row is removed; at the API the caller (u_… or oac_…). */
  subject_id: string;
  /** The job or run that the request became; at the API the id of the request. */
  job_id: string;
  /** Digest of method, path, query and body. */
  request_digest: string;
  /** How the request was answered (idempotency/kept-answer.ts); null: not yet. A reply of user code is sealed. */
  answer: string | null;
  /** Size of the stored reply, body and headers, before it was sealed; 0 without one. */
  answer_bytes: number;
  created_at_ms: number;
  /** The node that carries out a request to the API; '': no node carries it out, and the outcome is unknown. Null for endpoints. */
  node: string | null;
  /** What the caller of the API was allowed to do then (identity/kept-rights.ts), as JSON. Null for endpoints. */
  rights: string | null;
}
