import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { api } from './client.ts';
import type { Data } from './queries.ts';
import type { Page } from './types.ts';

/** What became of a planned run. Times are epoch seconds. */
export interface Tick {
  prop: string;
  planned_at: number;
  recorded_at: number;
  outcome: string;
  /** Null: it did not run. */
  late_by_ms: number | null;
  reason: string | null;
  /** Planned runs this entry stands for. */
  ticks: number;
  /** What became of the run that it started; null: none, or it is not recorded. */
  run: { state: string; error: string | null } | null;
}

export interface Timer {
  prop: string;
  interval_seconds: number | null;
  cron: string | null;
  timezone: string;
  next_at: number;
  planned_at: number[];
}

export interface Replay {
  /** rpl_… */
  id: string;
  /** queueing | sending | finished | cancelled */
  state: string;
  reason: string | null;
  total: number;
  sent: number;
  failed: number;
  waiting: number;
  missed: number;
  listener_id: string;
  event_name: string;
  created_at: number;
}

const ledgerPageSize = 100;

export function useTicks(sourceId: string) {
  return useInfiniteQuery({
    queryKey: ['ticks', sourceId],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Tick>>('GET', `/v1/sources/${sourceId}/ticks`, {
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
      (await api<Data<Timer[]>>('GET', `/v1/sources/${sourceId}/timers`, { signal })).data,
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
