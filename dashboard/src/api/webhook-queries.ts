import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { Delivery, Page, Webhook } from '#sdk';
import { api } from './client.ts';
import { type Data, ownerPath } from './queries.ts';

const listPageSize = 100;

const nextOf = ({ page_info: { count, end_cursor } }: Page<unknown>) =>
  count < listPageSize ? undefined : end_cursor;

/** A list with several pages is not refreshed, because each page would be requested again. */
const whileShort =
  (everyMs: number) =>
  ({ state }: { state: { data?: { pages: unknown[] } | undefined } }) =>
    state.data?.pages.length === 1 ? everyMs : false;

/** Webhooks of an owner, newest first, a page at a time. */
export function useWebhooks(ownerId: string, health = '') {
  return useInfiniteQuery({
    queryKey: ['webhooks', ownerId, health],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Webhook>>('GET', `${ownerPath(ownerId)}/webhooks`, {
        signal,
        query: { limit: listPageSize, health, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
    refetchInterval: whileShort(15_000),
  });
}

export function useWebhook(id: string, enabled = true) {
  return useQuery({
    queryKey: ['webhook', id],
    queryFn: async ({ signal }) => (await api<Data<Webhook>>('GET', `/v1/webhooks/${id}`, { signal })).data,
    enabled,
    refetchInterval: 10_000,
  });
}

/** A list of deliveries, newest first: `/v1/webhooks/wh_…/deliveries`, `/v1/users/me/dead_letters` … */
export function useDeliveries(path: string, states: string) {
  return useInfiniteQuery({
    queryKey: ['deliveries', path, states],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Delivery>>('GET', path, {
        signal,
        query: { limit: listPageSize, state: states, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
    refetchInterval: whileShort(3_000),
  });
}

/** One delivery with its attempts and what it sends. */
export function useDelivery(id: string) {
  return useQuery({
    queryKey: ['delivery', id],
    queryFn: async ({ signal }) =>
      (await api<Data<Delivery>>('GET', `/v1/deliveries/${id}`, { signal, query: { expand: 'event' } })).data,
    refetchInterval: 3_000,
  });
}
