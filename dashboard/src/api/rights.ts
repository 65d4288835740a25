import { useQuery } from '@tanstack/react-query';
import type { Member } from '#sdk';
import { api } from './client.ts';
import { type Data, useMe } from './queries.ts';
import { useSession } from './workspace-queries.ts';

/** Members of a workspace. A user has none, so there is no request. */
export function useMembers(ownerId: string | null | undefined) {
  return useQuery({
    queryKey: ['members', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Member[]>>('GET', `/v1/workspaces/${ownerId}/members`, { signal })).data,
    enabled: ownerId?.startsWith('o_') === true,
    staleTime: 10_000,
  });
}

/** What the person is to this owner: of their own things the admin; undefined while it is not known, null for a stranger. */
export function useRole(ownerId: string | null | undefined): Member['role'] | null | undefined {
  const me = useMe();
  const members = useMembers(ownerId);
  if (ownerId === null) return null;
  if (ownerId === undefined || me.data === undefined) return undefined;
  if (!ownerId.startsWith('o_')) return ownerId === me.data.id ? 'admin' : null;
  if (members.data === undefined) return undefined;
  return members.data.find(({ user_id }) => user_id === me.data.id)?.role ?? null;
}

/** Whether the person may change things of this owner; undefined while it is not known. */
export function useMayWrite(ownerId: string | null | undefined): boolean | undefined {
  const role = useRole(ownerId);
  return role === undefined ? undefined : role === 'admin' || role === 'member';
}

/** Whether the person may do what only admins of a workspace may, and everybody with their own; undefined while it is not known. */
export function useMayAdminister(ownerId: string | null | undefined): boolean | undefined {
  const role = useRole(ownerId);
  return role === undefined ? undefined : role === 'admin';
}

/** Whether the person looks after the instance. */
export function useIsInstanceAdmin(): boolean {
  return useSession().data?.is_admin === true;
}
