import { AddressPolicy, type AddressVerdict } from '#egress/address-policy.ts';

/** Lets nothing out, and tells when something tried. */
export class ClosedPolicy extends AddressPolicy {
  #next = Promise.withResolvers<void>();

  constructor() {
    // Led to an address, since names would be looked up.
    super({ allow: [], deny: () => [], connectTo: ['::0.0.0.0:'] });
  }

  override check(address: string, port: number): AddressVerdict {
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
    return super.check(address, port);
  }

  /** Settles when the next connection is refused. */
  nextRefusal(): Promise<void> {
    return this.#next.promise;
  }
}
