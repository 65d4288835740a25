import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Delivery, DeliveryAttempt } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useNameOf } from '~/api/queries.ts';
import { useDelivery, useWebhook } from '~/api/webhook-queries.ts';
import { Ago } from './ago.tsx';
import { CopyButton } from './copy.tsx';
import { deliveryReason, isOpen, toneOf } from './delivery-words.ts';
import { formatClock, formatDuration } from './format.ts';
import { Icon } from './icon.tsx';
import { JsonView } from './json-view.tsx';
import { Loading } from './page.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';

/** One delivery: what is sent, the outcome of each attempt, and redelivery. */
export function DeliveryDetail({
  id,
  mayWrite,
  onClose,
}: {
  id: string;
  mayWrite: boolean;
  onClose: () => void;
}) {
  const delivery = useDelivery(id);
  return (
    <section className="card detail" aria-label={`Delivery ${id}`}>
      <header className="detail-head">
        <h2>
          Delivery <code className="break">{id}</code>
        </h2>
        <div className="with-copy">
          <CopyButton text={id} label="Copy the id of the delivery" />
          <button type="button" className="button quiet small" onClick={onClose}>
            <Icon name="close" size={16} />
            Close
          </button>
        </div>
      </header>
      {delivery.error !== null && <Problem error={delivery.error} onRetry={() => void delivery.refetch()} />}
      {delivery.isPending && <Loading />}
      {delivery.data !== undefined && <Known delivery={delivery.data} mayWrite={mayWrite} />}
    </section>
  );
}

function Known({ delivery, mayWrite }: { delivery: Delivery; mayWrite: boolean }) {
  const isToWebhook = delivery.listener_id.startsWith('wh_');
  const webhook = useWebhook(delivery.listener_id, isToWebhook).data;
  return (
    <>
      <p className="facts">
        <span className={toneOf(delivery.state)}>{visible(delivery.state)}</span>
        {delivery.reason !== null && (
          <span>{deliveryReason(delivery.reason) ?? oneLine(delivery.reason, 200)}</span>
        )}
        {delivery.next_attempt_at !== null && (
          <span>
            next attempt <Ago ms={delivery.next_attempt_at * 1000} />
          </span>
        )}
      </p>
      <p className="muted break">
        From <NamedEnd id={delivery.emitter_id} /> to <NamedEnd id={delivery.listener_id} />
        {delivery.event_name !== '' && (
          <>
            , channel <bdi>{oneLine(delivery.event_name, 100)}</bdi>
          </>
        )}
        , emitted <Ago ms={Number(delivery.event_id.split('-', 1)[0])} />
      </p>
      <Again delivery={delivery} mayWrite={mayWrite} isDisabled={webhook?.state === 'disabled'} />
      <h3>Attempts</h3>
      {delivery.attempts.length === 0 ? (
        <p className="muted">
          {isToWebhook
            ? 'There was none.'
            : 'None is noted: it goes to a source or workflow of this service.'}
        </p>
      ) : (
        <ol className="attempts">
          {delivery.attempts.map((attempt) => (
            <AttemptItem key={attempt.at_ms} attempt={attempt} />
          ))}
        </ol>
      )}
      <h3>{isToWebhook ? 'Request' : 'Event'}</h3>
      {webhook !== undefined && (
        <div>
          <pre className="quoted">{requestHead(delivery, webhook.url)}</pre>
          <p className="hint">In addition, each attempt has a timestamp and signatures of its own.</p>
        </div>
      )}
      {'event' in delivery ? (
        <JsonView value={delivery.event} label="What is sent" />
      ) : (
        <p className="note">What it sent is no longer kept.</p>
      )}
    </>
  );
}

function requestHead(delivery: Delivery, url: string): string {
  return visible(
    [
      `POST ${shortened(url, 300)}`,
      'content-type: application/json',
      `webhook-id: ${delivery.id}`,
      `x-pd-emitter-id: ${delivery.emitter_id}`,
      `x-pd-event-id: ${delivery.event_id}`,
    ].join('\n'),
  );
}

function AttemptItem({ attempt }: { attempt: DeliveryAttempt }) {
  return (
    <li className="attempt">
      <p>
        <time className="muted" dateTime={new Date(attempt.at_ms).toISOString()}>
          {formatClock(attempt.at_ms)}
        </time>{' '}
        <strong>
          {attempt.status === undefined
            ? oneLine(attempt.error ?? 'no answer', 300)
            : `answered ${attempt.status}`}
        </strong>{' '}
        <span className="muted">after {formatDuration(Math.max(1, attempt.latency_ms))}</span>
      </p>
      {attempt.response !== undefined && attempt.response !== '' && (
        <pre className="quoted">{visible(shortened(attempt.response, 1_100))}</pre>
      )}
    </li>
  );
}

function Again({
  delivery,
  mayWrite,
  isDisabled,
}: {
  delivery: Delivery;
  mayWrite: boolean;
  isDisabled: boolean;
}) {
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: async () =>
      (await api<Data<Delivery>>('POST', `/v1/deliveries/${delivery.id}/redeliver`)).data,
    onSuccess: (queued) => {
      queries.setQueryData(['delivery', delivery.id], { event: delivery.event, ...queued });
      for (const key of ['deliveries', 'delivery', 'overview'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  if (!mayWrite) return null;
  const isPossible = !isOpen(delivery.state) && 'event' in delivery;
  if (isPossible && isDisabled) {
    return (
      <p className="note">
        The webhook is disabled: <Link href={`/webhooks/${delivery.listener_id}`}>enable it again</Link>{' '}
        first, then this can be redelivered.
      </p>
    );
  }
  return (
    <>
      {isPossible && (
        <button type="button" className="button" disabled={again.isPending} onClick={() => again.mutate()}>
          {again.isPending ? 'One moment …' : delivery.state === 'delivered' ? 'Send it again' : 'Redeliver'}
        </button>
      )}
      {again.isSuccess && (
        <p className="good" role="status">
          It was queued again.
        </p>
      )}
      {again.error !== null && <Problem error={again.error} what="It was not queued." />}
    </>
  );
}

/** An emitter or a listener by its name, or by its id where it has none. */
export function NamedEnd({ id }: { id: string }) {
  return <End id={id} name={useNameOf(id)} />;
}

/** An emitter, a listener, or an account, by its id unless its name is given. */
export function End({ id, name }: { id: string; name?: string | undefined }) {
  const href = id.startsWith('dc_')
    ? `/sources/${id}`
    : id.startsWith('wh_')
      ? `/webhooks/${id}`
      : id.startsWith('p_')
        ? `/workflows/${id}`
        : id.startsWith('apn_')
          ? `/accounts/${id}`
          : undefined;
  const shown =
    name === undefined ? (
      <code>{visible(shortened(id, 60))}</code>
    ) : (
      <bdi>{visible(shortened(name, 60))}</bdi>
    );
  return href === undefined || id.endsWith('*') ? shown : <Link href={href}>{shown}</Link>;
}
