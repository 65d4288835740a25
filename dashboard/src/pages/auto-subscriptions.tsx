import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AutoSubscription } from '#sdk';
import { api } from '~/api/client.ts';
import { useAutoSubscriptions } from '~/api/flow-queries.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { channelWords } from '~/flow/words.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { NamedEnd } from '~/parts/delivery-detail.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { EndField, useEnds } from '~/parts/subscribe-form.tsx';

/** What is subscribed to the errors or logs of whatever is made later. */
export function AutoSubscriptions() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId) === true;
  const all = useAutoSubscriptions(ownerId);
  const [ending, setEnding] = useState<AutoSubscription>();
  return (
    <>
      <p className="muted">
        Errors or logs of every source and workflow that is made from now on go to a listener: each gets a
        subscription of its own when it is made. For what is there already, subscribe to all sources or all
        workflows.
      </p>
      {all.error !== null && <Problem error={all.error} onRetry={() => void all.refetch()} />}
      {all.isPending && <Loading what="Loading automatic subscriptions" />}
      {all.data?.length === 0 && (
        <Empty title="No automatic subscriptions">
          <p>
            {mayWrite
              ? 'Make one below, and no later failure goes unnoticed.'
              : 'A member of this workspace can make one here.'}
          </p>
        </Empty>
      )}
      {all.data !== undefined && all.data.length > 0 && (
        <ul className="rows card flush" aria-label="Automatic subscriptions">
          {all.data.map((one) => (
            <li key={one.id} className="row plain">
              <span className="row-main">
                <span className="cut">
                  <bdi>{channelWords(one.event_name)}</bdi> → <NamedEnd id={one.listener_id} />
                </span>
                <span className="muted cut">
                  made <Ago ms={one.created_at * 1000} />, <code>{one.id}</code>
                </span>
              </span>
              {mayWrite && (
                <button type="button" className="button small" onClick={() => setEnding(one)}>
                  End
                  <span className="off-screen"> {one.id}</span>
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {mayWrite && <SubscribeToNew key={ownerId} ownerId={ownerId} />}
      <EndAutomatic ending={ending} onClose={() => setEnding(undefined)} />
    </>
  );
}

function SubscribeToNew({ ownerId }: { ownerId: string }) {
  const queries = useQueryClient();
  const [channel, setChannel] = useState('$errors');
  const [listener, setListener] = useState('');
  const to = useEnds(ownerId, listener, 'listeners');
  const subscribe = useMutation({
    mutationFn: () =>
      api<Data<AutoSubscription>>('POST', '/v1/auto_subscriptions', {
        query: { org_id: ownerId.startsWith('o_') ? ownerId : undefined },
        body: { event_name: channel, listener_id: to.chosen },
      }),
    onSuccess: () => {
      setListener('');
      void queries.invalidateQueries({ queryKey: ['auto subscriptions'] });
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
      <h2>New automatic subscription</h2>
      <div className="field">
        <label className="label" htmlFor="auto-channel">
          What of all that is made later
        </label>
        <select
          id="auto-channel"
          className="select"
          value={channel}
          onChange={(event) => setChannel(event.target.value)}
        >
          <option value="$errors">Errors</option>
          <option value="$logs">Logs</option>
        </select>
      </div>
      <EndField id="auto-listener" label="Who gets them" ends={to} onChoose={setListener} />
      {subscribe.error !== null && <Problem error={subscribe.error} what="It was not subscribed." />}
      {subscribe.isSuccess && to.chosen === '' && (
        <p className="good" role="status">
          Subscribed to what is made from now on.
        </p>
      )}
      <button type="submit" className="button primary" disabled={subscribe.isPending || to.chosen === ''}>
        {subscribe.isPending ? 'Subscribing …' : 'Subscribe'}
      </button>
    </form>
  );
}

function EndAutomatic({ ending, onClose }: { ending: AutoSubscription | undefined; onClose: () => void }) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: (id: string) => api<void>('DELETE', `/v1/auto_subscriptions/${id}`),
    onSuccess: () => {
      onClose();
      void queries.invalidateQueries({ queryKey: ['auto subscriptions'] });
    },
  });
  return (
    <Confirm
      open={ending !== undefined}
      onClose={() => {
        onClose();
        end.reset();
      }}
      title="End this automatic subscription?"
      action="End automatic subscription"
      busy={end.isPending}
      onConfirm={() => {
        if (ending !== undefined) end.mutate(ending.id);
      }}
    >
      <p>New sources and workflows will not be subscribed to. Existing subscriptions stay.</p>
      {end.error !== null && <Problem error={end.error} what="The automatic subscription was not ended." />}
    </Confirm>
  );
}
