import { ownedRows } from '#storage/owned-rows.ts';
import { deleteGroupsOf } from './flow-queue-store.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedFlow = {
  flow_runs: ownedRows('flow_runs', { key: ['run_id'] }),
  flow_unbegun: ownedRows('flow_unbegun', { key: ['subject_id', 'ended_ms', 'run_id'] }),
  flow_queues: ownedRows('flow_queues', { key: ['subject_id'], beside: deleteGroupsOf }),
} as const;
