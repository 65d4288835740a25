import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type {
  Component,
  ComponentSummary,
  EventSummary,
  Overview,
  OwnWorkspace,
  Page,
  Source,
  Subscription,
  User,
} from '#sdk';
import { api } from './client.ts';

/**
 * Every read of the pages, each with its key. Keys begin with what they are of (`['source', id]`), so that a change can say
 * what it makes stale.
 */

export interface Data<T> {
  data: T;
}

/** u_… is oneself, o_… a workspace; lists of the API have a path for each. */
export function ownerPath(ownerId: string): string {
  return ownerId.startsWith('o_') ? `/v1/workspaces/${ownerId}` : '/v1/users/me';
}

function sourcesPath(ownerId: string): string {
  return ownerId.startsWith('o_') ? `/v1/orgs/${ownerId}/sources` : '/v1/users/me/sources';
}

/** The user who is signed in, with all their workspaces. */
export type Me = User & { orgs: OwnWorkspace[] };

export function useMe() {
  return useQuery({
    queryKey: ['me'],
    queryFn: async ({ signal }): Promise<Me> => {
      const me = (await api<Data<User>>('GET', '/v1/users/me', { signal })).data;
      if ('orgs' in me) return me;
      // On the paid plan it is silent about them.
      return { ...me, orgs: (await api<Data<OwnWorkspace[]>>('GET', '/v1/workspaces', { signal })).data };
    },
    refetchInterval: 60_000,
  });
}

export function useOverview(ownerId: string) {
  return useQuery({
    queryKey: ['overview', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Overview>>('GET', `${ownerPath(ownerId)}/overview`, { signal })).data,
    refetchInterval: 5_000,
  });
}

const listPageSize = 100;

/** Sources of an owner with these words in their name and in this state of health, newest first, a page at a time. */
export function useSources(ownerId: string, words: string, health = '') {
  return useInfiniteQuery({
    queryKey: ['sources', ownerId, words, health],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Source>>('GET', sourcesPath(ownerId), {
        signal,
        query: { limit: listPageSize, q: words, health, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < listPageSize ? undefined : end_cursor,
    placeholderData: keepPreviousData,
    // A user who scrolled far has a hundred pages, which are not fetched again and again.
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 15_000 : false),
  });
}

export function useSource(id: string) {
  return useQuery({
    queryKey: ['source', id],
    queryFn: async ({ signal }) => (await api<Data<Source>>('GET', `/v1/sources/${id}`, { signal })).data,
    refetchInterval: ({ state }) => ((state.data?.runs?.under_way ?? 0) > 0 ? 2_000 : 5_000),
  });
}

export function useComponent(id: string | undefined) {
  return useQuery({ ...componentQuery(id ?? ''), enabled: id !== undefined });
}

/** A saved component by key or id. */
export function componentQuery(id: string) {
  return queryOptions({
    queryKey: ['component', id],
    queryFn: async ({ signal }) =>
      (await api<Data<Component>>('GET', `/v1/components/${encodeURIComponent(id)}`, { signal })).data,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function useRegistryComponent(key: string | undefined) {
  return useQuery({ ...registryComponentQuery(key ?? ''), enabled: key !== undefined });
}

export function registryComponentQuery(key: string) {
  return queryOptions({
    queryKey: ['registry component', key],
    queryFn: async ({ signal }) =>
      (await api<Data<Component>>('GET', `/v1/components/registry/${encodeURIComponent(key)}`, { signal }))
        .data,
    staleTime: 60_000,
  });
}

export function useRegistrySearch(words: string, type: 'source' | 'action') {
  return useQuery({
    queryKey: ['registry', type, words],
    queryFn: ({ signal }) =>
      api<Page<ComponentSummary>>('GET', '/v1/components', { signal, query: { q: words, type, limit: 50 } }),
    placeholderData: keepPreviousData,
  });
}

/** What is kept of a channel of a source, newest first. */
export function useRecentEvents(sourceId: string, channel = '') {
  return useQuery({
    queryKey: ['events', sourceId, channel],
    queryFn: async ({ signal }) =>
      (
        await api<Page<EventSummary>>('GET', `/v1/sources/${sourceId}/event_summaries`, {
          signal,
          query: { limit: 100, event_name: channel },
        })
      ).data,
    // The stream brings what is new.
    staleTime: 0,
    refetchOnWindowFocus: false,
  });
}

export function useSubscriptions(ownerId: string | undefined) {
  return useQuery({
    queryKey: ['subscriptions', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Subscription[]>>('GET', `${ownerPath(ownerId ?? '')}/subscriptions`, { signal })).data,
    enabled: ownerId !== undefined,
  });
}

const listOfKind: Readonly<Record<string, string>> = {
  dc: 'sources',
  p: 'workflows',
  wh: 'webhooks',
};

/** What a source, workflow or webhook is called; undefined: it has no name, or may not be seen. */
export function useNameOf(id: string): string | undefined {
  const list = listOfKind[id.slice(0, id.indexOf('_'))];
  const { data } = useQuery({
    queryKey: ['name', id],
    queryFn: async ({ signal }) =>
      (
        await api<Data<{ name: string | null }>>('GET', `/v1/${list}/${id}`, {
          signal,
          query: { include: 'name' },
        })
      ).data.name,
    enabled: list !== undefined && !id.endsWith('*'),
    staleTime: 60_000,
    retry: false,
  });
  return data ?? undefined;
}
