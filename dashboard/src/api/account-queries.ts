import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { Account, AccountAuditEntry, AccountUses, App, AppSummary, Page } from '#sdk';
import { api } from './client.ts';
import { type Data, useMe } from './queries.ts';
import { useMayAdminister, useMayWrite } from './rights.ts';

const listPageSize = 100;

/** '': any. */
type HealthFilter = Account['health']['state'] | '';

export function fetchAccounts(
  ownerId: string,
  options: { app?: string; health?: HealthFilter; after?: string; signal?: AbortSignal } = {},
): Promise<Page<Account>> {
  const { signal, ...query } = options;
  return api<Page<Account>>('GET', '/v1/accounts', {
    ...(signal === undefined ? {} : { signal }),
    query: { ...query, limit: listPageSize, owner_id: ownerId },
  });
}

export function useAccounts(ownerId: string, health: HealthFilter = '') {
  return useInfiniteQuery({
    queryKey: ['accounts', ownerId, 'with health', health],
    queryFn: ({ signal, pageParam }) => fetchAccounts(ownerId, { health, after: pageParam, signal }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < listPageSize ? undefined : end_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 10_000 : false),
  });
}

/** A new one is tested at once, which is seen as it happens. */
const youngMs = 30_000;

export function useAccount(id: string) {
  return useQuery({
    queryKey: ['account', id],
    queryFn: async ({ signal }) => (await api<Data<Account>>('GET', `/v1/accounts/${id}`, { signal })).data,
    refetchInterval: ({ state: { data } }) =>
      data?.checked_at === null && Date.now() - Date.parse(data.updated_at) < youngMs ? 1_000 : 10_000,
  });
}

/** What the user may do with an account: use it (members), and change it (its creator, and admins). */
export function useAccountRights({ owner_id: ownerId, user_id: userId }: Account) {
  const me = useMe();
  const mayUse = useMayWrite(ownerId) === true;
  const isAdmin = useMayAdminister(ownerId) === true;
  return { mayUse, mayChange: isAdmin || (mayUse && userId === me.data?.id) };
}

export function useAccountUses(id: string) {
  return useQuery({
    queryKey: ['account uses', id],
    queryFn: async ({ signal }) =>
      (await api<Data<AccountUses>>('GET', `/v1/accounts/${id}/uses`, { signal })).data,
    refetchInterval: 15_000,
  });
}

export function fetchAudit(id: string, signal?: AbortSignal): Promise<Page<AccountAuditEntry>> {
  return api<Page<AccountAuditEntry>>('GET', `/v1/accounts/${id}/audit`, {
    ...(signal === undefined ? {} : { signal }),
    query: { limit: listPageSize },
  });
}

export function useAccountAudit(id: string) {
  return useQuery({
    queryKey: ['account audit', id],
    queryFn: ({ signal }) => fetchAudit(id, signal),
    refetchInterval: 15_000,
  });
}

/** The apps of the catalogue that this owner sees, a page at a time: by name, or with `words` the best matches first. */
export function useApps(words: string, ownerId: string, which: { has_components?: '1' } = {}) {
  return useInfiniteQuery({
    queryKey: ['apps', ownerId, words, which],
    queryFn: ({ signal, pageParam }) =>
      api<Page<AppSummary>>('GET', '/v1/apps', {
        signal,
        query: { ...which, q: words, limit: listPageSize, after: pageParam, org_id: ownerId },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < listPageSize ? undefined : end_cursor,
    placeholderData: keepPreviousData,
  });
}

export function useApp(slug: string, ownerId: string) {
  return useQuery({
    queryKey: ['app', ownerId, slug],
    queryFn: async ({ signal }) =>
      (
        await api<Data<App>>('GET', `/v1/apps/${encodeURIComponent(slug)}`, {
          signal,
          query: { org_id: ownerId },
        })
      ).data,
    enabled: slug !== '',
    staleTime: 60_000,
  });
}
