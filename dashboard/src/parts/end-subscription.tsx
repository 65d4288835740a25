import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { Page, Subscription } from '#sdk';
import { api } from '~/api/client.ts';
import { Confirm } from './confirm.tsx';
import { formatNumber } from './format.ts';
import { Problem } from './problem.tsx';

/** Asks for confirmation before a subscription ends, and shows what is lost. */
export function EndSubscription({
  subscription,
  onClose,
}: {
  subscription: Subscription | undefined;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: (id: string) => api<void>('DELETE', `/v1/subscriptions/${id}`),
    onSuccess: () => {
      onClose();
      for (const key of ['subscriptions', 'deliveries', 'flow'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <Confirm
      open={subscription !== undefined}
      onClose={() => {
        onClose();
        end.reset();
      }}
      title="End this subscription?"
      action="End subscription"
      busy={end.isPending}
      onConfirm={() => {
        if (subscription !== undefined) end.mutate(subscription.id);
      }}
    >
      <p>
        {subscription?.listener_id.startsWith('wh_') === true ? 'The webhook' : 'The listener'} gets no more
        events, and its queued deliveries are cancelled.
      </p>
      {subscription !== undefined && <Queued id={subscription.id} />}
      {end.error !== null && <Problem error={end.error} what="The subscription was not ended." />}
    </Confirm>
  );
}

function Queued({ id }: { id: string }) {
  const { data: count } = useQuery({
    queryKey: ['queued for', id],
    queryFn: async ({ signal }) =>
      (
        await api<Page<unknown>>('GET', `/v1/subscriptions/${id}/deliveries`, {
          signal,
          query: { state: 'queued,held', limit: 1 },
        })
      ).page_info.total_count,
  });
  if (count === undefined) return null;
  return (
    <p className={count > 0 ? 'bad-text' : 'muted'}>
      {count === 0
        ? 'Nothing is queued for it now.'
        : `${formatNumber(count)} ${count === 1 ? 'delivery is' : 'deliveries are'} queued for it now.`}
    </p>
  );
}
