import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import {
  type ComponentSummary,
  MillraceError,
  type Page,
  type RegistryPackage,
  type RegistryRepository,
} from '#sdk';
import { api } from './client.ts';

export interface RegistryFilter {
  words: string;
  type: '' | 'source' | 'action';
  app: string;
}

const listPageSize = 100;

const nextOf = ({ page_info: { count, end_cursor } }: Page<unknown>) =>
  count < listPageSize ? undefined : end_cursor;

/** Components of the registry, by key, or with words the best matches first; a page at a time. */
export function useRegistry({ words, type, app }: RegistryFilter) {
  return useInfiniteQuery({
    queryKey: ['registry', 'list', words, type, app],
    queryFn: ({ signal, pageParam }) =>
      api<Page<ComponentSummary>>('GET', '/v1/components', {
        signal,
        query: { q: words, type, app, limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
  });
}

/** The registry's entry of a key, without building the component; null: there is none. */
export function useListedComponent(key: string) {
  return useQuery({
    queryKey: ['registry', 'one', key],
    queryFn: async ({ signal }) => {
      const { data } = await api<Page<ComponentSummary>>('GET', '/v1/components', {
        signal,
        query: { q: key, limit: listPageSize },
      });
      return data.find((one) => one.key === key) ?? null;
    },
  });
}

/** For admins of the instance: where components come from, newest first. */
export function usePackages() {
  return useInfiniteQuery({
    queryKey: ['packages'],
    queryFn: ({ signal, pageParam }) =>
      api<Page<RegistryPackage>>('GET', '/v1/registry/packages', {
        signal,
        query: { limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    retry: (failures, error) => failures < 3 && !(error instanceof MillraceError && error.status < 500),
  });
}

/** Between two looks at an update that is under way. */
const updatePollMs = 1_000;

export function isUpdating({ state }: RegistryRepository): boolean {
  return state === 'waiting' || state === 'updating';
}

/** For admins of the instance: Git repositories that components come from, newest first. Read again while one is updated. */
export function useRepositories() {
  return useQuery({
    queryKey: ['repositories'],
    queryFn: async ({ signal }) =>
      (
        await api<Page<RegistryRepository>>('GET', '/v1/registry/repositories', {
          signal,
          query: { limit: listPageSize },
        })
      ).data,
    refetchInterval: ({ state }) => (state.data?.some(isUpdating) === true ? updatePollMs : false),
    retry: (failures, error) => failures < 3 && !(error instanceof MillraceError && error.status < 500),
  });
}
