/**
 * An `Idempotency-Key` of a request to an endpoint, for 24 hours. Written in the transaction that stores the job, run or
 * record of the request, so that there is one exactly when the request was taken.
 */
export interface IdempotencyKeyTable {
  /** Digest of the endpoint and the key: the same key at two endpoints is two rows. */
  id: string;
  owner_id: string;
  /** The source (dc_…) or workflow (p_…), with which the row is removed. */
  subject_id: string;
  /** The job or run that the request became. */
  job_id: string;
  /** Digest of method, path, query and body. */
  request_digest: string;
  /** How the request was answered (idempotency/kept-answer.ts); null: not yet. A reply of user code is sealed. */
  answer: string | null;
  /** Of the reply that is kept, body and headers, before it was sealed; else 0. */
  answer_bytes: number;
  created_at_ms: number;
}
