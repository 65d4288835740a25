import { ownedRows } from '#storage/owned-rows.ts';

/** Keys of requests to endpoints of an owner, and of requests that a caller made to the API. */
export const ownedRequestKeys = {
  idempotency_keys: ownedRows('idempotency_keys', {
    ...{ key: ['id'], owners: ['owner_id', 'subject_id'], isIndexed: true },
  }),
} as const;
