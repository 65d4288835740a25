import { useState } from 'react';
import type { Subscription, Webhook } from '#sdk';
import { useSubscriptions } from '~/api/queries.ts';
import { channelWords } from '~/flow/words.ts';
import { NamedEnd } from '~/parts/delivery-detail.tsx';
import { EndSubscription } from '~/parts/end-subscription.tsx';
import { formatNumber } from '~/parts/format.ts';
import { OwnerLabel } from '~/parts/owner-label.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { SubscribeForm } from '~/parts/subscribe-form.tsx';

const rowsStep = 100;

/** The emitters whose events a webhook receives. */
export function WebhookSubscriptions({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const subscriptions = useSubscriptions(webhook.owner_id);
  const [shown, setShown] = useState(rowsStep);
  const [ending, setEnding] = useState<Subscription>();
  const own = subscriptions.data?.filter(({ listener_id }) => listener_id === webhook.id);
  return (
    <>
      {subscriptions.error !== null && (
        <Problem error={subscriptions.error} onRetry={() => void subscriptions.refetch()} />
      )}
      {subscriptions.isPending && <Loading what="Loading subscriptions" />}
      {own?.length === 0 && (
        <Empty title="It is sent nothing yet">
          <p>
            A subscription says whose events go to this webhook{mayWrite ? ': make the first below.' : '.'}
          </p>
        </Empty>
      )}
      {own !== undefined && own.length > 0 && (
        <ul className="rows card flush" aria-label="Subscriptions">
          {own.slice(0, shown).map((subscription) => (
            <li key={subscription.id} className="row plain">
              <span className="row-main">
                <Emitter id={subscription.emitter_id} ownerId={webhook.owner_id} />
                <span className="muted cut">
                  <bdi>{channelWords(subscription.event_name)}</bdi>, <code>{subscription.id}</code>
                </span>
              </span>
              {mayWrite && (
                <button type="button" className="button small" onClick={() => setEnding(subscription)}>
                  End
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {own !== undefined && own.length > shown && (
        <p>
          <button type="button" className="button" onClick={() => setShown(shown + rowsStep)}>
            Show more of {formatNumber(own.length)}
          </button>
        </p>
      )}
      {mayWrite && <SubscribeForm ownerId={webhook.owner_id} listenerId={webhook.id} />}
      <EndSubscription subscription={ending} onClose={() => setEnding(undefined)} />
    </>
  );
}

const everything: Readonly<Record<string, string>> = { 'dc_*': 'All sources', 'p_*': 'All workflows' };

function Emitter({ id, ownerId }: { id: string; ownerId: string }) {
  if (everything[id] !== undefined) return <span>{everything[id]}</span>;
  if (id.startsWith('o_') || id.startsWith('u_'))
    return (
      <span>
        Everything of <OwnerLabel id={id} ownerId={ownerId} />
      </span>
    );
  return <NamedEnd id={id} />;
}
