import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Webhook } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useWebhook } from '~/api/webhook-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { webhookReason } from '~/parts/delivery-words.ts';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge, HealthNote } from '~/parts/health.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { MapLink } from '~/parts/map-link.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { WebhookDeliveries } from './webhook-deliveries.tsx';
import { WebhookSettings } from './webhook-settings.tsx';
import { WebhookSubscriptions } from './webhook-subscriptions.tsx';

export function WebhookPage({ id }: { id: string }) {
  const webhook = useWebhook(id);
  return (
    <LoadedPage query={webhook} title={`Webhook ${id}`} list={{ href: '/webhooks', name: 'All webhooks' }}>
      {(data) => <Details webhook={data} />}
    </LoadedPage>
  );
}

function Details({ webhook }: { webhook: Webhook }) {
  const mayWrite = useMayWrite(webhook.owner_id) === true;
  return (
    <PageFrame
      title={webhook.name ?? webhook.url}
      actions={<MapLink id={webhook.id} ownerId={webhook.owner_id} />}
      lead={
        <p className="muted facts">
          <HealthBadge health={webhook.health} />
          <span className="with-copy">
            <code>{webhook.id}</code>
            <CopyButton text={webhook.id} label="Copy the id" />
          </span>
          <span className="with-copy">
            <bdi className="break">{visible(shortened(webhook.url, 300))}</bdi>
            <CopyButton text={webhook.url} label="Copy the URL" />
          </span>
          <span>
            changed <Ago ms={webhook.updated_at * 1000} />
          </span>
        </p>
      }
    >
      {webhook.description !== null && (
        <p className="pre-line">{visible(shortened(webhook.description, 2_000))}</p>
      )}
      <Standing webhook={webhook} mayWrite={mayWrite} />
      <PageTabs
        className="tabbed"
        href={`/webhooks/${webhook.id}`}
        tabs={[
          {
            id: 'deliveries',
            name: 'Deliveries',
            content: <WebhookDeliveries webhook={webhook} mayWrite={mayWrite} />,
          },
          {
            id: 'subscriptions',
            name: 'Subscriptions',
            content: <WebhookSubscriptions webhook={webhook} mayWrite={mayWrite} />,
          },
          {
            id: 'settings',
            name: 'Settings',
            content: <WebhookSettings webhook={webhook} mayWrite={mayWrite} />,
          },
        ]}
      />
    </PageFrame>
  );
}

/** Why nothing is sent, or not all of it, and what ends that. */
function Standing({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const queries = useQueryClient();
  const resume = useMutation({
    mutationFn: async () => (await api<Data<Webhook>>('POST', `/v1/webhooks/${webhook.id}/resume`)).data,
    onSuccess: (changed) => {
      queries.setQueryData(['webhook', webhook.id], changed);
      for (const key of ['webhooks', 'deliveries', 'delivery', 'overview'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  const { state, disabled_reason, disabled_at, removed_records } = webhook;
  return (
    <>
      {state === 'disabled' && (
        <section className="card" aria-labelledby="disabled">
          <h2 id="disabled">It was disabled</h2>
          <p>
            {disabled_reason === null
              ? 'The service disabled it'
              : `Because ${webhookReason(disabled_reason) ?? oneLine(disabled_reason, 200)}`}
            {disabled_at !== null && (
              <>
                , <Ago ms={disabled_at * 1000} />
              </>
            )}
            . What is emitted since is kept as a dead letter. Once the receiver is well, enable the webhook
            again; then redeliver what it missed.
          </p>
          {mayWrite && (
            <button
              type="button"
              className="button primary"
              disabled={resume.isPending}
              onClick={() => resume.mutate()}
            >
              {resume.isPending ? 'One moment …' : 'Enable again'}
            </button>
          )}
        </section>
      )}
      {state === 'paused' && (
        <section className="card" aria-labelledby="paused">
          <h2 id="paused">It is paused</h2>
          <p className="muted">What comes is held, for 30 days at most, and is sent when it is resumed.</p>
          {mayWrite && (
            <button
              type="button"
              className="button primary"
              disabled={resume.isPending}
              onClick={() => resume.mutate()}
            >
              {resume.isPending ? 'One moment …' : 'Resume'}
            </button>
          )}
        </section>
      )}
      {resume.error !== null && <Problem error={resume.error} what="The webhook was not changed." />}
      {state === 'active' && <HealthNote kind="webhook" id={webhook.id} health={webhook.health} />}
      {removed_records > 0 && (
        <p className="note">
          {formatNumber(removed_records)} {removed_records === 1 ? 'dead letter was' : 'dead letters were'}{' '}
          deleted, because {removed_records === 1 ? 'it was' : 'they were'} too old or there were too many.
        </p>
      )}
    </>
  );
}
