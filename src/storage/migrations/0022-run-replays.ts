/** Never edited once released: a change is a new migration. */
export const runReplaysMigration = {
  name: '0022-run-replays',
  statements: [`create index runs_by_replay on runs (replay_of) where replay_of is not null`],
};
