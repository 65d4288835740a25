/**
 * Names the group of deployments that may share a process, and so can see its memory: the owner, and the users whose accounts the code uses. Code of
 * one owner that acts for different users does not share.
 */
export function trustDomainOf(ownerId: string, accountOwners: Iterable<string>): string {
  const others = new Set(accountOwners);
  others.delete(ownerId);
  return [ownerId, ...[...others].sort()].join(' ');
}

/** The owner, and then the users whose accounts the code of a trust domain uses. */
export function membersOfDomain(trustDomain: string): string[] {
  return trustDomain.split(' ');
}
