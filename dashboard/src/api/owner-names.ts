import { useMe } from './queries.ts';
import { useMembers } from './rights.ts';

/**
 * The names of users and workspaces that objects of this owner mention. Undefined for one that may not be read, such as a member who
 * has left.
 */
export function useOwnerNames(ownerId: string | undefined): (id: string) => string | undefined {
  const me = useMe();
  const members = useMembers(ownerId);
  return (id) => {
    if (id === me.data?.id) return me.data.username;
    if (id.startsWith('o_')) return me.data?.orgs?.find((org) => org.id === id)?.name;
    return members.data?.find(({ user_id }) => user_id === id)?.username;
  };
}
