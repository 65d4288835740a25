/**
 * Steps run once for each item of a map, and steps that run at the same time wait by themselves. Never edited once
 * released: a change is a new migration.
 */
export const controlFlowMigration = {
  name: '0026-control-flow',
  statements: [
    `alter table run_steps rename to run_steps_before`,
    `create table run_steps (
      run_id text not null, owner_id text not null, workflow_id text not null, position integer not null,
      iteration text not null, try integer not null, step_id text not null, namespace text not null, state text not null,
      input text, exports text not null, logs text not null, error text, started_at_ms bigint not null,
      ended_at_ms bigint not null, primary key (run_id, position, iteration, try))`,
    `insert into run_steps (run_id, owner_id, workflow_id, position, iteration, try, step_id, namespace, state, input,
        exports, logs, error, started_at_ms, ended_at_ms)
      select run_id, owner_id, workflow_id, position, '', try, step_id, namespace, state, input, exports, logs, error,
        started_at_ms, ended_at_ms from run_steps_before`,
    `drop table run_steps_before`,
    `alter table run_resumes rename to run_resumes_before`,
    `create table run_resumes (
      run_id text not null, owner_id text not null, position integer not null, iteration text not null,
      try integer not null, kind text not null, request text, created_at_ms bigint not null,
      primary key (run_id, position, iteration, try))`,
    `insert into run_resumes (run_id, owner_id, position, iteration, try, kind, request, created_at_ms)
      select run_id, owner_id, position, '', try, kind, request, created_at_ms from run_resumes_before`,
    `drop table run_resumes_before`,
    `create table run_waits (
      run_id text not null, owner_id text not null, position integer not null, iteration text not null,
      kind text not null, until_ms bigint not null, failures integer not null, resumption text,
      primary key (run_id, position, iteration))`,
  ],
};
