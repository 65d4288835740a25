import { ownedRows } from '#storage/owned-rows.ts';
import { deleteComponentListsOf } from './workflow-store.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedWorkflows = {
  triggers: ownedRows('triggers', { key: ['workflow_id', 'id'] }),
  test_events: ownedRows('test_events', { key: ['id'] }),
  templates: ownedRows('templates', { key: ['id', 'owner_id'], isIndexed: true }),
  deployments: ownedRows('deployments', { key: ['id'], beside: deleteComponentListsOf }),
  workflows: ownedRows('workflows', { key: ['id'], isIndexed: true }),
} as const;
