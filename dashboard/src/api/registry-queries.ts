import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { ApiError, api } from './client.ts';
import type { ListedComponent, Page } from './types.ts';

/** What components come from. */
export interface RegistryPackage {
  /** pkg_… */
  id: string;
  kind: 'npm' | 'folder';
  name: string;
  version: string;
  integrity: string;
  apps: string[];
  keys: { key: string; version: string; type: 'source' | 'action' }[];
  /** Files that were left out. */
  problems: { path: string; message: string }[];
  created_at: number;
}

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
      api<Page<ListedComponent>>('GET', '/v1/components', {
        signal,
        query: { q: words, type, app, limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
  });
}

/** What the registry says of a key without building it; null: it has none of this key. */
export function useListedComponent(key: string) {
  return useQuery({
    queryKey: ['registry', 'one', key],
    queryFn: async ({ signal }) => {
      const { data } = await api<Page<ListedComponent>>('GET', '/v1/components', {
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
    retry: (failures, error) => failures < 3 && !(error instanceof ApiError && error.status < 500),
  });
}
