import { useQuery } from '@tanstack/react-query';
import { api } from './client.ts';
import { type Data, useMe } from './queries.ts';
import type { Member } from './types.ts';

/** Whether the person administers what this owner has: their own, or a workspace as its admin. */
export function useMayAdminister(ownerId: string | null): boolean {
  const me = useMe();
  const isWorkspace = ownerId?.startsWith('o_') === true;
  const members = useQuery({
    queryKey: ['members', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Member[]>>('GET', `/v1/workspaces/${ownerId}/members`, { signal })).data,
    enabled: isWorkspace,
    staleTime: 60_000,
  });
  if (me.data === undefined || ownerId === null) return false;
  if (!isWorkspace) return ownerId === me.data.id;
  return members.data?.some(({ user_id, role }) => user_id === me.data.id && role === 'admin') === true;
}
