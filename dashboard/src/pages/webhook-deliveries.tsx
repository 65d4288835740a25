import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { RedeliverToWebhookAnswer, Webhook } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useDeliveries } from '~/api/webhook-queries.ts';
import { Confirm } from '~/parts/confirm.tsx';
import { DeliveryList } from '~/parts/delivery-list.tsx';
import { deadStates } from '~/parts/delivery-words.ts';
import { formatNumber } from '~/parts/format.ts';
import { Problem } from '~/parts/problem.tsx';

const kinds = [
  { id: 'all', name: 'all', states: '' },
  { id: 'dead', name: 'dead letters', states: deadStates.join(',') },
  { id: 'open', name: 'still to be sent', states: 'queued,held' },
  { id: 'delivered', name: 'delivered', states: 'delivered' },
] as const;

/** What was and will be sent to a webhook, and sending it again. */
export function WebhookDeliveries({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const [kind, setKind] = useState<(typeof kinds)[number]['id']>('all');
  const states = kinds.find(({ id }) => id === kind)?.states ?? '';
  const deliveries = useDeliveries(`/v1/webhooks/${webhook.id}/deliveries`, states);
  return (
    <>
      <div className="tools">
        <label>
          Show{' '}
          <select
            className="select small"
            aria-label="Deliveries to show"
            value={kind}
            onChange={(event) => setKind(event.target.value as typeof kind)}
          >
            {kinds.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <RedeliverAll webhook={webhook} mayWrite={mayWrite} />
      </div>
      <DeliveryList
        deliveries={deliveries}
        mayWrite={mayWrite}
        empty={
          kind === 'dead'
            ? {
                title: 'No dead letters',
                text: 'Whatever was to be sent to this webhook was taken, or is still tried.',
              }
            : kind === 'all'
              ? {
                  title: 'Nothing was sent yet',
                  text: 'Each event that one of its subscriptions wants appears here by itself, with every attempt.',
                }
              : { title: 'None of this kind', text: 'Choose another under Show.' }
        }
      />
    </>
  );
}

function RedeliverAll({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const [open, setOpen] = useState(false);
  const queries = useQueryClient();
  const dead = useDeliveries(`/v1/webhooks/${webhook.id}/deliveries`, deadStates.join(','));
  const count = dead.data?.pages[0]?.page_info.total_count ?? 0;
  const all = useMutation({
    mutationFn: async () =>
      (await api<Data<RedeliverToWebhookAnswer>>('POST', `/v1/webhooks/${webhook.id}/redeliver`)).data,
    onSuccess: () => {
      setOpen(false);
      for (const key of ['deliveries', 'delivery', 'overview', 'webhook'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <>
      {all.isSuccess && (
        <span className="good" role="status">
          {formatNumber(all.data.queued)} queued again.
        </span>
      )}
      {mayWrite && count > 0 && webhook.state !== 'disabled' && (
        <button type="button" className="button small" onClick={() => setOpen(true)}>
          Redeliver all {formatNumber(count)} dead {count === 1 ? 'letter' : 'letters'}
        </button>
      )}
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          all.reset();
        }}
        title="Redeliver all dead letters?"
        action="Redeliver all"
        busy={all.isPending}
        onConfirm={() => all.mutate()}
      >
        <p>
          Each failed delivery is sent again under its old id, with eight new attempts.
          {webhook.state === 'paused' && ' While the webhook is paused, they are held.'}
        </p>
        {all.error !== null && <Problem error={all.error} what="Nothing was queued." />}
      </Confirm>
    </>
  );
}
