import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Subscription } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useSources } from '~/api/queries.ts';
import { useWebhooks } from '~/api/webhook-queries.ts';
import { useWorkflows } from '~/api/workflow-queries.ts';
import { formatNumber } from './format.ts';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { useSettled } from './use-settled.ts';

const channels = [
  { id: 'events', name: 'What it emits', eventName: '', hint: '' },
  {
    id: 'errors',
    name: 'Its errors',
    eventName: '$errors',
    hint: 'Each failure is an event too, with its message and stack: send them to a webhook, or to a workflow that notifies you. A workflow that listens to its own errors would run for each of them.',
  },
  {
    id: 'logs',
    name: 'Its logs',
    eventName: '$logs',
    hint: 'What its code prints, line by line: much, at times.',
  },
  {
    id: 'own',
    name: 'A channel of its own …',
    eventName: '',
    hint: 'A name that its code emits under: $emit(event, { name }).',
  },
] as const;

type ChannelId = (typeof channels)[number]['id'];

/** Makes a subscription of a listener that is given, or that is chosen too. */
export function SubscribeForm({ ownerId, listenerId }: { ownerId: string; listenerId?: string }) {
  const queries = useQueryClient();
  const [emitter, setEmitter] = useState('');
  const [listener, setListener] = useState('');
  const [channel, setChannel] = useState<ChannelId>('events');
  const [ownChannel, setOwnChannel] = useState('');
  const from = useEnds(ownerId, emitter, 'emitters');
  const to = useEnds(ownerId, listener, 'listeners');
  const chosenListener = listenerId ?? to.chosen;
  const eventName =
    channel === 'own' ? ownChannel.trim() : (channels.find(({ id }) => id === channel)?.eventName ?? '');
  const subscribe = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Subscription>>('POST', '/v1/subscriptions', {
          body: { emitter_id: from.chosen, listener_id: chosenListener, event_name: eventName },
        })
      ).data,
    onSuccess: () => {
      setEmitter('');
      for (const key of ['subscriptions', 'flow']) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  const hint = channels.find(({ id }) => id === channel)?.hint ?? '';
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        subscribe.mutate();
      }}
    >
      <h2>New subscription</h2>
      <EndField id="emitter" label="Whose events" ends={from} onChoose={setEmitter} />
      <ChannelField
        channel={channel}
        onChannel={setChannel}
        ownChannel={ownChannel}
        onOwnChannel={setOwnChannel}
        hint={hint}
      />
      {listenerId === undefined && (
        <EndField id="listener" label="Who gets them" ends={to} onChoose={setListener} />
      )}
      {subscribe.error !== null && <Problem error={subscribe.error} what="It was not subscribed." />}
      {subscribe.isSuccess && from.chosen === '' && (
        <p className="good" role="status">
          Subscribed.
        </p>
      )}
      <button
        type="submit"
        className="button primary"
        disabled={
          subscribe.isPending ||
          from.chosen === '' ||
          chosenListener === '' ||
          (channel === 'own' && ownChannel.trim() === '')
        }
      >
        {subscribe.isPending ? 'Subscribing …' : 'Subscribe'}
      </button>
    </form>
  );
}

function ChannelField({
  channel,
  onChannel,
  ownChannel,
  onOwnChannel,
  hint,
}: {
  channel: ChannelId;
  onChannel: (channel: ChannelId) => void;
  ownChannel: string;
  onOwnChannel: (name: string) => void;
  hint: string;
}) {
  return (
    <div className="field">
      <label className="label" htmlFor="channel">
        Which
      </label>
      <select
        id="channel"
        className="select"
        aria-describedby="channel-hint"
        value={channel}
        onChange={(event) => onChannel(event.target.value as ChannelId)}
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
          onChange={(event) => onOwnChannel(event.target.value)}
        />
      )}
      <p className="hint" id="channel-hint">
        {hint}
      </p>
    </div>
  );
}

interface EndGroup {
  name: string;
  ends: readonly { id: string; name: string }[];
}

export interface Ends {
  words: string;
  onWords: (words: string) => void;
  groups: readonly EndGroup[];
  /** Empty: nothing that can be seen is. */
  chosen: string;
  /** What is not among them. */
  hint: string;
  what: string;
  error: unknown;
  retry: () => void;
}

/** The emitters and listeners of an owner, searched by name. */
export function useEnds(ownerId: string, chosen: string, end: 'emitters' | 'listeners'): Ends {
  const [words, setWords] = useState('');
  const settled = useSettled(words.trim());
  const sources = useSources(ownerId, settled);
  const workflows = useWorkflows(ownerId, settled);
  const webhooks = useWebhooks(ownerId);
  const foundSources = sources.data?.pages[0];
  const foundWorkflows = workflows.data?.pages[0];
  const wanted = words.trim().toLowerCase();
  const foundWebhooks = (webhooks.data?.pages[0]?.data ?? [])
    .map(({ id, name, url }) => ({ id, name: name === null ? url : `${name}, ${url}` }))
    .filter(({ id, name }) => id.toLowerCase() === wanted || name.toLowerCase().includes(wanted));
  const things: EndGroup[] = [
    ...(end === 'listeners' ? [{ name: 'Webhooks', ends: foundWebhooks }] : []),
    { name: 'Sources', ends: foundSources?.data ?? [] },
    { name: 'Workflows', ends: foundWorkflows?.data ?? [] },
  ];
  if (end === 'listeners') things.splice(1, 2, ...things.slice(1).reverse());
  const isId =
    /^(dc|p|wh)_\w+$/.test(words.trim()) && (end === 'listeners' || !words.trim().startsWith('wh_'));
  const isListed = things.some(({ ends }) => ends.some(({ id }) => id === words.trim()));
  const groups: EndGroup[] = [
    ...(end === 'emitters'
      ? [
          {
            name: 'All, later ones too',
            ends: [
              { id: 'dc_*', name: 'All sources' },
              { id: 'p_*', name: 'All workflows' },
              { id: ownerId, name: 'Sources and workflows, everything' },
            ],
          },
        ]
      : []),
    ...(isId && !isListed ? [{ name: 'This id', ends: [{ id: words.trim(), name: words.trim() }] }] : []),
    ...things,
  ];
  const lists = [
    { name: 'sources', page: foundSources },
    { name: 'workflows', page: foundWorkflows },
    { name: 'webhooks', page: end === 'listeners' && wanted === '' ? webhooks.data?.pages[0] : undefined },
  ];
  const left = lists.flatMap(({ name, page }) =>
    page?.page_info.total_count !== undefined && page.page_info.total_count > page.data.length
      ? [`${formatNumber(page.data.length)} of ${formatNumber(page.page_info.total_count)} ${name}`]
      : [],
  );
  return {
    words,
    onWords: setWords,
    groups,
    chosen: groups.some(({ ends }) => ends.some(({ id }) => id === chosen)) ? chosen : '',
    hint: left.length === 0 ? '' : `The newest ${left.join(', ')}: find others by their name or id.`,
    what: end === 'emitters' ? 'a source or workflow' : 'a webhook, workflow or source',
    error: sources.error ?? workflows.error ?? (end === 'listeners' ? webhooks.error : null),
    retry: () => {
      for (const query of [sources, workflows, webhooks]) void query.refetch();
    },
  };
}

export function EndField({
  id,
  label,
  ends,
  onChoose,
}: {
  id: string;
  label: string;
  ends: Ends;
  onChoose: (id: string) => void;
}) {
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
      </label>
      <input
        className="input"
        type="search"
        aria-label={`Find ${ends.what} by its name`}
        placeholder={`Find ${ends.what} by its name`}
        maxLength={200}
        value={ends.words}
        onChange={(event) => ends.onWords(event.target.value)}
      />
      <select
        id={id}
        className="select below"
        value={ends.chosen}
        onChange={(event) => onChoose(event.target.value)}
      >
        <option value="">Choose …</option>
        {ends.groups.map((group) => (
          <optgroup key={group.name} label={group.name}>
            {group.ends.map((one) => (
              <option key={one.id} value={one.id}>
                {visible(shortened(one.name, 80))} {group.name.startsWith('All') ? '' : `(${one.id})`}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
      <p className="hint">{ends.hint}</p>
      {ends.error !== null && <Problem error={ends.error} onRetry={ends.retry} />}
    </div>
  );
}
