import { AddressPolicy } from '#egress/address-policy.ts';

/** Lets nothing out. Names lead to an address, since they would be looked up. */
export function closedPolicy(): AddressPolicy {
  return new AddressPolicy({ allow: [], deny: () => [], connectTo: ['::0.0.0.0:'] });
}
