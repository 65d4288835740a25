import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { AutoSubscription, Flow } from '#sdk';
import { api, type RequestOptions } from './client.ts';
import { useOwnerNames } from './owner-names.ts';
import { type Data, ownerPath } from './queries.ts';

/** The flow map of an owner; `focus` is part of it, even if other objects have no place. */
export function useFlow(ownerId: string, focus?: string) {
  const nameOf = useOwnerNames(ownerId);
  return useQuery({
    queryKey: ['flow', ownerId, focus ?? ''],
    queryFn: async ({ signal }) =>
      (await api<Data<Flow>>('GET', `${ownerPath(ownerId)}/flow`, { signal, query: { focus } })).data,
    // Subscriptions may be to everything of a user or workspace; the map knows only its id.
    select: (flow) => ({
      ...flow,
      nodes: flow.nodes.map((node) => {
        const owner = /^[ou]_/.test(node.id) ? nameOf(node.id) : undefined;
        return owner === undefined ? node : { ...node, name: `Everything of ${owner}` };
      }),
    }),
    // Large answers are many bytes.
    refetchInterval: ({ state }) => ((state.data?.nodes.length ?? 0) > 150 ? 5_000 : 3_000),
    // The previous answer is shown only for the same owner: the next one contains most of it.
    placeholderData: (previous) => (previous?.owner_id === ownerId ? previous : undefined),
  });
}

/** The newest items of a list, refreshed while it is shown. */
export function useLatest<T>(path: string, query: NonNullable<RequestOptions['query']>) {
  return useQuery({
    queryKey: ['latest', path, query],
    queryFn: async ({ signal }) => (await api<Data<T[]>>('GET', path, { signal, query })).data,
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
}

export function useAutoSubscriptions(ownerId: string) {
  return useQuery({
    queryKey: ['auto subscriptions', ownerId],
    queryFn: async ({ signal }) =>
      (
        await api<Data<AutoSubscription[]>>('GET', '/v1/auto_subscriptions', {
          signal,
          query: { org_id: ownerId.startsWith('o_') ? ownerId : undefined },
        })
      ).data,
  });
}
