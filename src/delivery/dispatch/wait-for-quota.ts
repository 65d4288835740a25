import type { Clock } from '#lib/clock.ts';
import type { Deliver } from './delivery-dispatcher.ts';

/** The deliveries that owners may have on a day. `takeDelivery` counts one; false: the owner may have no more. */
export interface DeliveryQuota {
  takeDelivery(ownerId: string): boolean;
}

/** Deliveries beyond the quota of their owner are looked at again at each of these marks of the day; 00:00 UTC is one of them. */
const markMs = 15 * 60_000;

/**
 * Nothing acknowledged is lost at the limit of deliveries of a day: what goes beyond waits in the store, with the reason. It is sent
 * when the day turns, or within a quarter of an hour of a higher quota. Those that wait for one mark keep their order.
 */
export function withinQuota(
  { quotas, clock }: { quotas: DeliveryQuota; clock: Clock },
  deliver: Deliver,
): Deliver {
  return async (delivery, signal) => {
    if (quotas.takeDelivery(delivery.ownerId)) return deliver(delivery, signal);
    return { kind: 'postponed', delayMs: markMs - (clock.now() % markMs), reason: 'quota_exceeded' };
  };
}
