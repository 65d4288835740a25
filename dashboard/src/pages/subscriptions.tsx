import { useState } from 'react';
import { Link } from 'wouter';
import type { FlowEdge, FlowNode, Subscription } from '#sdk';
import { useFlow } from '~/api/flow-queries.ts';
import { useOwnerNames } from '~/api/owner-names.ts';
import { useSubscriptions } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { edgeFailures } from '~/flow/troubles.ts';
import { channelWords, nameOf, pageOf, rateWords } from '~/flow/words.ts';
import { Ago } from '~/parts/ago.tsx';
import { EndSubscription } from '~/parts/end-subscription.tsx';
import { formatNumber } from '~/parts/format.ts';
import { Icon } from '~/parts/icon.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SubscribeForm } from '~/parts/subscribe-form.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';
import { AutoSubscriptions } from './auto-subscriptions.tsx';

/** All subscriptions: search, add and remove them. */
export function Subscriptions() {
  const { ownerId } = useOwner();
  return (
    <PageFrame
      title="Subscriptions"
      lead={<p className="muted">Each says whose events go to which webhook, workflow or source.</p>}
      actions={
        <Link href="/map" className="button">
          <Icon name="map" />
          Flow map
        </Link>
      }
    >
      <PageTabs
        key={ownerId}
        className="tabbed"
        href="/subscriptions"
        tabs={[
          { id: 'all', name: 'Subscriptions', content: <List /> },
          { id: 'automatic', name: 'Automatic', content: <AutoSubscriptions /> },
        ]}
      />
    </PageFrame>
  );
}

function List() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId) === true;
  const subscriptions = useSubscriptions(ownerId);
  const flow = useFlow(ownerId);
  const nameOfUser = useOwnerNames(ownerId);
  const [words, setWords] = useState('');
  const [ending, setEnding] = useState<Subscription>();
  const nodes = new Map(flow.data?.nodes.map((node) => [node.id, node]));
  const edges = new Map(flow.data?.edges.map((edge) => [edge.id, edge]));
  const wanted = words.trim().toLowerCase();
  const rows = (subscriptions.data ?? []).filter(
    ({ id, emitter_id, listener_id, event_name }) =>
      wanted === '' ||
      [
        id,
        emitter_id,
        listener_id,
        event_name,
        nodes.get(emitter_id)?.name,
        nodes.get(listener_id)?.name,
      ].some((text) => text?.toLowerCase().includes(wanted) === true),
  );
  return (
    <>
      {subscriptions.error !== null && (
        <Problem error={subscriptions.error} onRetry={() => void subscriptions.refetch()} />
      )}
      {subscriptions.isPending && <Loading what="Loading subscriptions" />}
      {subscriptions.data?.length === 0 && (
        <Empty title="Nothing is subscribed yet">
          <p>
            Without a subscription events are kept and can be read, but go nowhere.{' '}
            {mayWrite ? 'Make the first one below.' : 'A member of this workspace can make one here.'}
          </p>
        </Empty>
      )}
      {subscriptions.data !== undefined && subscriptions.data.length > 0 && (
        <>
          <div className="search">
            <Icon name="search" />
            <input
              className="input"
              type="search"
              aria-label="Find subscriptions"
              placeholder="Find by name, id or channel"
              maxLength={200}
              value={words}
              onChange={(event) => setWords(event.target.value)}
            />
          </div>
          {rows.length === 0 ? (
            <Empty title="None is called so">
              <p>
                Names are known of what is on the flow map: the busiest {formatNumber(nodes.size)}. Others are
                found by their ids.
              </p>
            </Empty>
          ) : (
            <VirtualList
              key={wanted}
              label="Subscriptions"
              rows={rows}
              total={rows.length}
              rowPx={76}
              needMore={() => {}}
            >
              {(subscription) => (
                <Row
                  subscription={subscription}
                  emitter={nodes.get(subscription.emitter_id)}
                  listener={nodes.get(subscription.listener_id)}
                  edge={edges.get(subscription.id)}
                  by={nameOfUser(subscription.user_id) ?? subscription.user_id}
                  onEnd={mayWrite ? () => setEnding(subscription) : undefined}
                />
              )}
            </VirtualList>
          )}
          <p className="muted">
            {formatNumber(rows.length)} {rows.length === 1 ? 'subscription' : 'subscriptions'}
            {rows.length < subscriptions.data.length && ` of ${formatNumber(subscriptions.data.length)}`},
            newest first.
          </p>
        </>
      )}
      {mayWrite && <SubscribeForm key={ownerId} ownerId={ownerId} />}
      <EndSubscription subscription={ending} onClose={() => setEnding(undefined)} />
    </>
  );
}

function Row({
  subscription,
  emitter,
  listener,
  edge,
  by,
  onEnd,
}: {
  subscription: Subscription;
  emitter: FlowNode | undefined;
  listener: FlowNode | undefined;
  edge: FlowEdge | undefined;
  by: string;
  /** Undefined: the user may not end it. */
  onEnd: (() => void) | undefined;
}) {
  const { id, emitter_id, listener_id, event_name, created_at } = subscription;
  const failures = edge === undefined ? [] : edgeFailures(edge);
  return (
    <div className="row subscription">
      <span className="row-main">
        <span className="cut row-name">
          <Name id={emitter_id} node={emitter} /> → <Name id={listener_id} node={listener} />
        </span>
        <span className="muted cut">
          <bdi>{channelWords(event_name)}</bdi>
          {edge?.deliveries != null && `, ${rateWords(edge.deliveries.per_minute)}`}
          {failures.length > 0 && (
            <span className={edge?.failing === true ? 'bad-text' : undefined}>, {failures.join(', ')}</span>
          )}
        </span>
        <span className="muted cut small-text">
          made by <bdi>{oneLine(by, 60)}</bdi> <Ago ms={created_at * 1000} />, <code>{id}</code>
        </span>
      </span>
      {onEnd !== undefined && (
        <button type="button" className="button small" onClick={onEnd}>
          End
          <span className="off-screen"> {id}</span>
        </button>
      )}
    </div>
  );
}

function Name({ id, node }: { id: string; node: FlowNode | undefined }) {
  const href = pageOf(id);
  const name = <bdi>{nameOf(id, node)}</bdi>;
  return href === undefined ? name : <Link href={href}>{name}</Link>;
}
