import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedRuns = {
  run_sends: ownedRows('run_sends', { key: ['run_id', 'number'] }),
  run_waits: ownedRows('run_waits', { key: ['run_id', 'position', 'iteration'] }),
  run_resumes: ownedRows('run_resumes', { key: ['run_id', 'position', 'iteration', 'try'] }),
  run_steps: ownedRows('run_steps', { key: ['run_id', 'position', 'iteration', 'try'] }),
  runs: ownedRows('runs', { key: ['id'] }),
} as const;
