import { AddressPolicy, type AddressVerdict } from '#egress/address-policy.ts';

/** Lets nothing out, and counts what tried. */
export class ClosedPolicy extends AddressPolicy {
  refusals = 0;

  constructor() {
    // Led to an address, since names would be looked up.
    super({ allow: [], deny: () => [], connectTo: ['::0.0.0.0:'] });
  }

  override check(address: string, port: number): AddressVerdict {
    this.refusals += 1;
    return super.check(address, port);
  }
}
