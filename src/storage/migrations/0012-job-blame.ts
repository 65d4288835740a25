/** Never edited once released: a change is a new migration. */
export const jobBlameMigration = {
  name: '0012-job-blame',
  statements: [
    `alter table jobs add column losses integer not null default 0`,
    `alter table jobs add column blames integer not null default 0`,
    `alter table jobs add column alone integer not null default 0`,
    `create index jobs_suspect on jobs (run_at_ms) where state = 'queued' and losses > 1`,
  ],
};
