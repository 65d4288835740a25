import { AddressPolicy } from '#egress/address-policy.ts';

/** Allows no connection. A name is redirected to a fixed address, since it would be looked up otherwise. */
export function closedPolicy(): AddressPolicy {
  return new AddressPolicy({ allow: [], deny: () => [], connectTo: ['::0.0.0.0:'] });
}
