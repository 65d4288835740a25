/** Finds the owners whose jobs wait behind those of another, without reading past these. Never edited once released. */
export const jobOwnersMigration = {
  name: '0041-job-owners',
  statements: [
    `create index jobs_queued_by_owner on jobs (owner_id, run_at_ms, created_at_ms) where state = 'queued'`,
  ],
};
