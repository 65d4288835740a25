import { useQuery } from '@tanstack/react-query';
import { api } from './client.ts';
import { type Data, useMe } from './queries.ts';
import type { Member } from './types.ts';

/** Whether the person administers what this owner has: their own, or a workspace as its admin; undefined while it is not known. */
export function useMayAdminister(ownerId: string | null): boolean | undefined {
  const me = useMe();
  const isWorkspace = ownerId?.startsWith('o_') === true;
  const members = useQuery({
    queryKey: ['members', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Member[]>>('GET', `/v1/workspaces/${ownerId}/members`, { signal })).data,
    enabled: isWorkspace,
    staleTime: 60_000,
  });
  if (ownerId === null) return false;
  if (me.data === undefined) return undefined;
  if (!isWorkspace) return ownerId === me.data.id;
  if (members.data === undefined) return undefined;
  return members.data.some(({ user_id, role }) => user_id === me.data.id && role === 'admin');
}
