import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '~/api/client.ts';
import { type Data, useSources, useSubscriptions } from '~/api/queries.ts';
import type { Subscription, Webhook } from '~/api/types.ts';
import { useEmittingWorkflows } from '~/api/webhook-queries.ts';
import { Confirm } from '~/parts/confirm.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { formatNumber } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { useSettled } from '~/parts/use-settled.ts';

const rowsStep = 100;

/** Whose events a webhook is sent. */
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
                <Emitter id={subscription.emitter_id} />
                <span className="muted cut">
                  {channelName(subscription.event_name)}, <code>{subscription.id}</code>
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
      {mayWrite && <Subscribe webhook={webhook} />}
      <EndSubscription subscription={ending} onClose={() => setEnding(undefined)} />
    </>
  );
}

const everything: Readonly<Record<string, string>> = { 'dc_*': 'All sources', 'p_*': 'All workflows' };

function Emitter({ id }: { id: string }) {
  if (everything[id] !== undefined) return <span>{everything[id]}</span>;
  if (id.startsWith('o_') || id.startsWith('u_'))
    return (
      <span>
        Everything of <End id={id} />
      </span>
    );
  return <End id={id} />;
}

function channelName(name: string): string {
  if (name === '') return 'events';
  if (name === '$errors') return 'errors';
  return name === '$logs' ? 'logs' : `channel ${oneLine(name, 100)}`;
}

function EndSubscription({
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
      for (const key of ['subscriptions', 'deliveries']) void queries.invalidateQueries({ queryKey: [key] });
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
      <p>The webhook is sent nothing of it any more, and what is queued for it is cancelled.</p>
      {end.error !== null && <Problem error={end.error} what="It was not ended." />}
    </Confirm>
  );
}

const channels = [
  { id: 'events', name: 'What it emits', eventName: '' },
  { id: 'errors', name: 'Its errors', eventName: '$errors' },
  { id: 'logs', name: 'Its logs', eventName: '$logs' },
  { id: 'own', name: 'A channel of its own …', eventName: '' },
] as const;

function Subscribe({ webhook }: { webhook: Webhook }) {
  const ownerId = webhook.owner_id;
  const queries = useQueryClient();
  const [words, setWords] = useState('');
  const [emitter, setEmitter] = useState('');
  const [channel, setChannel] = useState<(typeof channels)[number]['id']>('events');
  const [ownChannel, setOwnChannel] = useState('');
  const sources = useSources(ownerId, useSettled(words.trim()));
  const workflows = useEmittingWorkflows(ownerId);
  const found = sources.data?.pages[0];
  const wanted = words.trim().toLowerCase();
  const foundWorkflows = (workflows.data ?? []).filter(
    ({ id, name }) => id === wanted || name.toLowerCase().includes(wanted),
  );
  const eventName =
    channel === 'own' ? ownChannel.trim() : (channels.find(({ id }) => id === channel)?.eventName ?? '');
  const isKnown =
    emitter in everything ||
    emitter === ownerId ||
    found?.data.some(({ id }) => id === emitter) === true ||
    foundWorkflows.some(({ id }) => id === emitter);
  const chosen = isKnown ? emitter : '';
  const subscribe = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Subscription>>('POST', '/v1/subscriptions', {
          body: { emitter_id: chosen, listener_id: webhook.id, event_name: eventName },
        })
      ).data,
    onSuccess: () => {
      setEmitter('');
      void queries.invalidateQueries({ queryKey: ['subscriptions'] });
    },
  });
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        subscribe.mutate();
      }}
    >
      <h2>New subscription</h2>
      <div className="field">
        <label className="label" htmlFor="emitter">
          Whose events
        </label>
        <input
          className="input"
          type="search"
          aria-label="Find a source or workflow by its name"
          placeholder="Find a source or workflow by its name"
          maxLength={200}
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        <select
          id="emitter"
          className="select below"
          value={chosen}
          onChange={(event) => setEmitter(event.target.value)}
        >
          <option value="">Choose …</option>
          <optgroup label="All, later ones too">
            {Object.entries(everything).map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
            <option value={ownerId}>Sources and workflows, everything</option>
          </optgroup>
          <optgroup label="Sources">
            {found?.data.map(({ id, name }) => (
              <option key={id} value={id}>
                {visible(shortened(name, 80))} ({id})
              </option>
            ))}
          </optgroup>
          <optgroup label="Workflows">
            {foundWorkflows.map(({ id, name }) => (
              <option key={id} value={id}>
                {visible(shortened(name, 80))} ({id})
              </option>
            ))}
          </optgroup>
        </select>
        {found?.page_info.total_count !== undefined && found.page_info.total_count > found.data.length && (
          <p className="hint">
            The newest {found.data.length} of {formatNumber(found.page_info.total_count)} sources: find others
            by their name.
          </p>
        )}
      </div>
      {sources.error !== null && <Problem error={sources.error} onRetry={() => void sources.refetch()} />}
      {workflows.error !== null && (
        <Problem error={workflows.error} onRetry={() => void workflows.refetch()} />
      )}
      <div className="field">
        <label className="label" htmlFor="channel">
          Which
        </label>
        <select
          id="channel"
          className="select"
          value={channel}
          onChange={(event) => setChannel(event.target.value as typeof channel)}
        >
          {channels.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
        {channel === 'own' && (
          <input
            className="input below"
            aria-label="Name of the channel"
            placeholder="Name of the channel"
            maxLength={1000}
            value={ownChannel}
            onChange={(event) => setOwnChannel(event.target.value)}
          />
        )}
      </div>
      {subscribe.error !== null && <Problem error={subscribe.error} what="It was not subscribed." />}
      {subscribe.isSuccess && chosen === '' && (
        <p className="good" role="status">
          Subscribed.
        </p>
      )}
      <button
        type="submit"
        className="button primary"
        disabled={subscribe.isPending || chosen === '' || (channel === 'own' && ownChannel.trim() === '')}
      >
        {subscribe.isPending ? 'Subscribing …' : 'Subscribe'}
      </button>
    </form>
  );
}
