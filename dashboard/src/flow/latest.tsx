import { useState } from 'react';
import { Link } from 'wouter';
import type { Delivery, EventSummary, FlowNode, Run } from '#sdk';
import { useLatest } from '~/api/flow-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { DeliveryDetail } from '~/parts/delivery-detail.tsx';
import { deadStates, deliveryReason, toneOf } from '~/parts/delivery-words.ts';
import { oneLine, visible } from '~/parts/plain-text.ts';
import { RunState } from '~/parts/run-state.tsx';

/** Newest events, runs and deliveries that are shown. */
const latestMax = 5;

/** The last deliveries of a subscription, dead letters first. */
export function LatestDeliveries({
  id,
  hasFailures,
  mayWrite,
}: {
  id: string;
  hasFailures: boolean;
  mayWrite: boolean;
}) {
  const [chosen, setChosen] = useState<string>();
  const path = `/v1/subscriptions/${id}/deliveries`;
  const dead = useLatest<Delivery>(path, { limit: latestMax, state: deadStates.join(',') });
  const latest = useLatest<Delivery>(path, { limit: latestMax });
  if (chosen !== undefined)
    return <DeliveryDetail id={chosen} mayWrite={mayWrite} onClose={() => setChosen(undefined)} />;
  const rows = [
    ...new Map(
      [...((hasFailures && dead.data) || []), ...(latest.data ?? [])].map((row) => [row.id, row]),
    ).values(),
  ];
  if (rows.length === 0)
    return <p className="muted">{latest.isPending ? '…' : 'Nothing was sent along it yet.'}</p>;
  return (
    <ul className="map-latest" aria-label="Last deliveries">
      {rows.map((row) => (
        <li key={row.id}>
          <button type="button" className="link" onClick={() => setChosen(row.id)}>
            <span className={toneOf(row.state)}>{visible(row.state)}</span> <Ago ms={row.created_at * 1000} />
            {row.reason !== null && `: ${deliveryReason(row.reason) ?? oneLine(row.reason, 100)}`}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The last events and errors of a source, or the last runs of a workflow. */
export function Latest({ node: { id, kind } }: { node: FlowNode }) {
  if (kind === 'source')
    return (
      <>
        <LatestEvents id={id} channel="" name="Last events" />
        <LatestEvents id={id} channel="$errors" name="Last errors" />
      </>
    );
  return kind === 'workflow' ? <LatestRuns id={id} /> : null;
}

function LatestEvents({ id, channel, name }: { id: string; channel: string; name: string }) {
  const events = useLatest<EventSummary>(`/v1/sources/${id}/event_summaries`, {
    limit: latestMax,
    event_name: channel,
  });
  if (events.data === undefined || events.data.length === 0) return null;
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      <ul className="map-latest">
        {events.data.map((event) => (
          <li key={event.id} className="cut">
            <span className="muted">
              <Ago ms={event.indexed_at_ms} />
            </span>{' '}
            <Link href={`/sources/${id}${channel === '' ? '' : '?tab=logs'}`}>
              <bdi>{oneLine(event.metadata.summary ?? event.event, 80)}</bdi>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function LatestRuns({ id }: { id: string }) {
  const runs = useLatest<Run>(`/v1/workflows/${id}/runs`, { limit: latestMax });
  if (runs.data === undefined || runs.data.length === 0) return null;
  return (
    <section aria-label="Last runs">
      <h3>Last runs</h3>
      <ul className="map-latest">
        {runs.data.map((run) => (
          <li key={run.id} className="cut">
            <Link href={`/runs/${run.id}`}>
              <RunState state={run.state} /> <Ago ms={Date.parse(run.created_at)} />
              {run.error !== null && <bdi>: {oneLine(run.error.msg, 80)}</bdi>}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
