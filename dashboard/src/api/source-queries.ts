import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { Page, Replay, SourceTick, SourceTimer } from '#sdk';
import { api } from './client.ts';
import type { Data } from './queries.ts';

const ledgerPageSize = 100;

export function useTicks(sourceId: string) {
  return useInfiniteQuery({
    queryKey: ['ticks', sourceId],
    queryFn: ({ signal, pageParam }) =>
      api<Page<SourceTick>>('GET', `/v1/sources/${sourceId}/ticks`, {
        signal,
        query: { limit: ledgerPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < ledgerPageSize ? undefined : end_cursor,
    refetchInterval: 3_000,
  });
}

export function useTimers(sourceId: string, enabled = true) {
  return useQuery({
    queryKey: ['timers', sourceId],
    queryFn: async ({ signal }) =>
      (await api<Data<SourceTimer[]>>('GET', `/v1/sources/${sourceId}/timers`, { signal })).data,
    enabled,
    refetchInterval: 5_000,
  });
}

export function isUnderWay({ state }: Replay): boolean {
  return state === 'queueing' || state === 'sending';
}

/** The last replays of a source's events, newest first. */
export function useReplays(sourceId: string) {
  return useQuery({
    queryKey: ['replays', sourceId],
    queryFn: ({ signal }) =>
      api<Page<Replay>>('GET', `/v1/sources/${sourceId}/replays`, { signal, query: { limit: 50 } }),
    refetchInterval: ({ state }) => (state.data?.data.some(isUnderWay) === true ? 1_000 : 10_000),
  });
}
