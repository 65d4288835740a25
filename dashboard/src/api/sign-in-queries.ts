import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ApiKey, Identity, Page, ServiceAccount, SignedInSession, SignInMethods } from '#sdk';
import { api } from './client.ts';
import type { Data } from './queries.ts';

const listPageSize = 100;

/** How users sign in here. Answered to everyone. */
export function useSignInMethods() {
  return useQuery({
    queryKey: ['sign-in methods'],
    queryFn: async ({ signal }) =>
      (await api<Data<SignInMethods>>('GET', '/v1/session/methods', { signal })).data,
    staleTime: 10_000,
  });
}

/** The accounts at the provider that are linked to the user. */
export function useIdentities() {
  return useQuery({
    queryKey: ['identities'],
    queryFn: async ({ signal }) =>
      (await api<Data<Identity[]>>('GET', '/v1/users/me/identities', { signal })).data,
  });
}

/** The user's sessions, newest first, a page at a time. */
export function useSessions() {
  return useInfiniteQuery({
    queryKey: ['sessions'],
    queryFn: ({ signal, pageParam }) =>
      api<Page<SignedInSession>>('GET', '/v1/users/me/sessions', {
        signal,
        query: { limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < listPageSize ? undefined : end_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 15_000 : false),
  });
}

/** Service accounts of a workspace, oldest first: the service takes a hundred at most. */
export function useServiceAccounts(workspaceId: string) {
  return useQuery({
    queryKey: ['service accounts', workspaceId],
    queryFn: async ({ signal }) =>
      (await api<Data<ServiceAccount[]>>('GET', `/v1/workspaces/${workspaceId}/service_accounts`, { signal }))
        .data,
    refetchInterval: 15_000,
  });
}

/** Keys at a path of the API, newest first: a user has a hundred at most. */
export function useKeysAt(path: string, queryKey: readonly unknown[]) {
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) =>
      (await api<Page<ApiKey>>('GET', path, { signal, query: { limit: listPageSize } })).data,
    refetchInterval: 15_000,
  });
}

/** Leaves the dashboard for the page of the provider, which sends the browser back to `returnTo`. */
export async function goToProvider(
  path: '/v1/session/single_sign_on' | '/v1/users/me/identities',
  returnTo: string,
): Promise<void> {
  const { data } = await api<Data<{ url: string }>>('POST', path, { body: { return_to: returnTo } });
  window.location.assign(data.url);
}
