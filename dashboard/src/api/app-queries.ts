import { useQuery } from '@tanstack/react-query';
import type { AppOAuthClient, ComponentSummary, Page } from '#sdk';
import { fetchAccounts } from './account-queries.ts';
import { api } from './client.ts';
import type { Data } from './queries.ts';

/** The `org_id` of a new object: none for the user's own. */
export function orgOf(ownerId: string): { org_id?: string } {
  return ownerId.startsWith('o_') ? { org_id: ownerId } : {};
}

/** The client that the owner has at the provider of an app, or how to register one. */
export function useOAuthClient(slug: string, ownerId: string) {
  return useQuery({
    queryKey: ['oauth client', ownerId, slug],
    queryFn: async ({ signal }) =>
      (
        await api<Data<AppOAuthClient>>('GET', `/v1/apps/${slug}/oauth_client`, {
          signal,
          query: { org_id: ownerId },
        })
      ).data,
  });
}

/** How many accounts could not be refreshed without the client. */
export function useAccountsOfClient(clientId: string | undefined) {
  return useQuery({
    queryKey: ['accounts of client', clientId],
    queryFn: async ({ signal }) =>
      (
        await api<Page<unknown>>('GET', '/v1/accounts', {
          signal,
          query: { oauth_app_id: clientId, limit: 1 },
        })
      ).page_info.total_count ?? 0,
    enabled: clientId !== undefined,
  });
}

/** Accounts of an app that an owner has: the newest hundred, and how many there are. */
export function useAccountsOfApp(slug: string, ownerId: string) {
  return useQuery({
    queryKey: ['accounts', ownerId, 'of app', slug],
    queryFn: ({ signal }) => fetchAccounts(ownerId, { app: slug, signal }),
    refetchInterval: 15_000,
  });
}

/** Components of the registry that are of an app. */
export function useComponentsOfApp(slug: string) {
  return useQuery({
    queryKey: ['registry', 'of app', slug],
    queryFn: ({ signal }) =>
      api<Page<ComponentSummary>>('GET', '/v1/components', { signal, query: { app: slug, limit: 100 } }),
  });
}
