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

/** The role of the user with this owner: admin of their own objects; undefined while it is unknown, null for a stranger. */
export function useRole(ownerId: string | null | undefined): Member['role'] | null | undefined {
  const me = useMe();
  const members = useMembers(ownerId);
  if (ownerId === null) return null;
  if (ownerId === undefined || me.data === undefined) return undefined;
  if (!ownerId.startsWith('o_')) return ownerId === me.data.id ? 'admin' : null;
  if (members.data === undefined) return undefined;
  return members.data.find(({ user_id }) => user_id === me.data.id)?.role ?? null;
}

/** True when the user may change objects of this owner; undefined while it is unknown. */
export function useMayWrite(ownerId: string | null | undefined): boolean | undefined {
  const role = useRole(ownerId);
  return role === undefined ? undefined : role === 'admin' || role === 'member';
}

/** True when the user has the rights of a workspace's admin, which users have for their own objects; undefined while it is unknown. */
export function useMayAdminister(ownerId: string | null | undefined): boolean | undefined {
  const role = useRole(ownerId);
  return role === undefined ? undefined : role === 'admin';
}

/** True when the user is the admin of the instance. */
export function useIsInstanceAdmin(): boolean {
  return useSession().data?.is_admin === true;
}
