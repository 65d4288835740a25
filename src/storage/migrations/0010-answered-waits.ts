/** Never edited once released: a change is a new migration. */
export const answeredWaitsMigration = {
  name: '0010-answered-waits',
  statements: [
    // A request for a wait that had not begun was the only kind of row. It belongs to the first wait of its step.
    `alter table run_resumes rename to run_resumes_before`,
    `create table run_resumes (
      run_id text not null, owner_id text not null, position integer not null, try integer not null, kind text not null,
      request text, created_at_ms bigint not null, primary key (run_id, position, try))`,
    `insert into run_resumes (run_id, owner_id, position, try, kind, request, created_at_ms)
      select run_id, owner_id, position, 1, kind, request, created_at_ms from run_resumes_before`,
    `drop table run_resumes_before`,
  ],
};
