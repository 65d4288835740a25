/**
 * Names those that code may share a process with, that is, may see the memory of: the owner, and the people whose accounts it
 * uses. Code of one owner that acts for different people shares none.
 */
export function trustDomainOf(ownerId: string, accountOwners: Iterable<string>): string {
  const others = new Set(accountOwners);
  others.delete(ownerId);
  return [ownerId, ...[...others].sort()].join(' ');
}
