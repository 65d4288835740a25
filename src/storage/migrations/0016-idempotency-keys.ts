/** Never edited once released: a change is a new migration. */
export const idempotencyKeysMigration = {
  name: '0016-idempotency-keys',
  statements: [
    `create table idempotency_keys (
      id text not null primary key, owner_id text not null, subject_id text not null, job_id text not null,
      request_digest text not null, answer text, answer_bytes integer not null, created_at_ms bigint not null)`,
    `create index idempotency_keys_by_time on idempotency_keys (created_at_ms)`,
    `create index idempotency_keys_by_owner on idempotency_keys (owner_id, created_at_ms)`,
    `create index idempotency_keys_by_subject on idempotency_keys (subject_id)`,
    // Few keys have a reply: what the replies of an owner take is summed up over these alone.
    `create index idempotency_keys_with_reply on idempotency_keys (owner_id, answer_bytes) where answer_bytes > 0`,
  ],
};
