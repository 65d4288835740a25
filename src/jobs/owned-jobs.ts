import { ownedRows } from '#storage/owned-rows.ts';
import { isNoDeletion } from './job-store.ts';

/** What an owner has in the queue, running jobs too: what a run causes is not stored once its job is gone. */
export const ownedJobs = {
  jobs: ownedRows('jobs', { key: ['id'], only: isNoDeletion }),
} as const;
