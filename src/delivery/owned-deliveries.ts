import { ownedRows } from '#storage/owned-rows.ts';

/** Subscriptions go with the owner of the emitters and with that of the listener. */
export const ownedDeliveries = {
  auto_subscriptions: ownedRows('auto_subscriptions', {
    ...{ key: ['id'], owners: ['owner_id', 'listener_owner_id'] },
  }),
  subscriptions: ownedRows('subscriptions', {
    ...{ key: ['id'], owners: ['emitter_owner_id', 'listener_owner_id'], isIndexed: true },
  }),
  deliveries: ownedRows('deliveries', { key: ['id'] }),
  delivery_payloads: ownedRows('delivery_payloads', { key: ['emit_id'] }),
  replays: ownedRows('replays', { key: ['id'], isIndexed: true }),
  webhooks: ownedRows('webhooks', { key: ['id'], isIndexed: true }),
} as const;
