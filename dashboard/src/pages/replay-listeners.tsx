import { useState } from 'react';
import type { Source } from '#sdk';
import { useSources, useSubscriptions } from '~/api/queries.ts';
import { useWebhooks } from '~/api/webhook-queries.ts';
import { useWorkflows } from '~/api/workflow-queries.ts';
import { Loading } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

export interface KnownListeners {
  /** Ids of those who are subscribed to the channel of the source. */
  subscribed: readonly string[];
  /** Others of the same owner: the newest hundred of each kind. */
  others: readonly { id: string; name: string }[];
  nameOf: (id: string) => string | undefined;
  isPending: boolean;
  error: Error | null;
  retry: () => void;
}

/** The listeners that get what a source emits on a channel, and the others that could. */
export function useListenersOf(source: Source, channel: string): KnownListeners {
  const ownerId = source.owner_id;
  const subscriptions = useSubscriptions(ownerId);
  const webhooks = useWebhooks(ownerId);
  const workflows = useWorkflows(ownerId, '');
  const sources = useSources(ownerId, '');
  const names = new Map<string, string>();
  for (const { id, name, url } of webhooks.data?.pages.flatMap(({ data }) => data) ?? [])
    names.set(id, name ?? url);
  for (const { id, name } of workflows.data?.pages[0]?.data ?? []) names.set(id, name);
  for (const { id, name } of sources.data?.pages[0]?.data ?? []) names.set(id, name);
  const emitters = new Set([source.id, 'dc_*', ownerId]);
  const subscribed = new Set(
    (subscriptions.data ?? [])
      .filter(({ emitter_id, event_name }) => emitters.has(emitter_id) && event_name === channel)
      .map(({ listener_id }) => listener_id),
  );
  return {
    subscribed: [...subscribed],
    others: [...names]
      .filter(([id]) => id !== source.id && !subscribed.has(id))
      .map(([id, name]) => ({ id, name })),
    nameOf: (id) => names.get(id),
    isPending: subscriptions.isPending,
    error: subscriptions.error,
    retry: () => void subscriptions.refetch(),
  };
}

export function ReplayListeners({
  known,
  chosen,
  onChange,
}: {
  known: KnownListeners;
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
}) {
  const [added, setAdded] = useState<readonly string[]>([]);
  const shown = [...known.subscribed, ...added.filter((id) => !known.subscribed.includes(id))];
  const change = (id: string, isIn: boolean) =>
    onChange(new Set(isIn ? [...chosen, id] : [...chosen].filter((other) => other !== id)));
  return (
    <div>
      <h3>Listeners</h3>
      {known.isPending && <Loading what="Loading subscriptions" />}
      {known.error !== null && <Problem error={known.error} onRetry={known.retry} />}
      {!known.isPending && known.subscribed.length === 0 && (
        <p className="muted">This channel has no subscribers. Choose the listeners.</p>
      )}
      {shown.length > 0 && (
        <ul className="picks" aria-label="Listeners">
          {shown.map((id) => (
            <li key={id}>
              <label className="pick">
                <input
                  type="checkbox"
                  checked={chosen.has(id)}
                  onChange={({ target }) => change(id, target.checked)}
                />
                <bdi className="cut">{oneLine(known.nameOf(id) ?? kindOf(id), 100)}</bdi>
                <code className="muted">{id}</code>
                {!known.subscribed.includes(id) && <span className="muted">not subscribed</span>}
              </label>
            </li>
          ))}
        </ul>
      )}
      <select
        className="select small below"
        aria-label="Listener without a subscription"
        value=""
        onChange={({ target: { value } }) => {
          if (value === '') return;
          setAdded([...added, value]);
          change(value, true);
        }}
      >
        <option value="">Add a listener without a subscription …</option>
        {known.others
          .filter(({ id }) => !added.includes(id))
          .map(({ id, name }) => (
            <option key={id} value={id}>
              {kindOf(id)}: {visible(shortened(name, 60))} ({id})
            </option>
          ))}
      </select>
    </div>
  );
}

function kindOf(id: string): string {
  return id.startsWith('wh_') ? 'Webhook' : id.startsWith('p_') ? 'Workflow' : 'Source';
}
