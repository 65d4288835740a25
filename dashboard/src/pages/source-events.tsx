import { useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState } from 'react';
import { Link } from 'wouter';
import type { EventSummary, Page, Source } from '#sdk';
import { api } from '~/api/client.ts';
import { useRecentEvents } from '~/api/queries.ts';
import { CopyButton } from '~/parts/copy.tsx';
import { formatClock, formatNumber } from '~/parts/format.ts';
import { Icon } from '~/parts/icon.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { type LiveEvents, useLiveEvents } from '~/parts/use-live-events.ts';

const rowPx = 44;

/** The events of a source: what is kept, and what comes while one looks. */
export function SourceEvents({ source, mayWrite }: { source: Source; mayWrite: boolean }) {
  const [channel, setChannel] = useState('');
  const [asked, setAsked] = useState('');
  const [paused, setPaused] = useState(false);
  const [words, setWords] = useState('');
  const [chosenId, setChosenId] = useState<string>();
  const recent = useRecentEvents(source.id, asked);
  const live = useLiveEvents(source.id, asked, paused);
  const { refetch } = recent;
  useEffect(() => {
    // What was emitted between the read of the list and the opening of the stream is in neither.
    if (live.state === 'live') void refetch();
  }, [live.state, refetch]);
  const events = useMemo(() => joined(live.events, recent.data ?? []), [live.events, recent.data]);
  const filtered = useMemo(() => matching(events, words), [events, words]);
  const chosen = events.find(({ id }) => id === chosenId);
  return (
    <>
      <div className="tools">
        <StreamLight live={live} paused={paused} />
        <button
          type="button"
          className="button small"
          aria-pressed={paused}
          onClick={() => setPaused(!paused)}
        >
          <Icon name={paused ? 'play' : 'pause'} size={16} />
          {paused ? `Continue${live.aside > 0 ? ` (${formatNumber(live.aside)} new)` : ''}` : 'Pause'}
        </button>
        <input
          className="input small grow"
          type="search"
          aria-label="Only events with this text"
          placeholder="Only events with this text"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setAsked(channel.trim());
            setChosenId(undefined);
          }}
        >
          <input
            className="input small"
            aria-label="Channel; empty is the default one. Enter shows it"
            placeholder="Channel: default"
            value={channel}
            onChange={(event) => setChannel(event.target.value)}
            onBlur={() => setAsked(channel.trim())}
          />
        </form>
      </div>
      {live.error !== undefined && <Problem error={live.error} what="New events are not shown." />}
      {recent.error !== null && <Problem error={recent.error} onRetry={() => void recent.refetch()} />}
      {live.gap && (
        <p className="note">
          The connection was lost for a while, and some events of that time may be missing.
        </p>
      )}
      {recent.isPending && <Loading what="Loading events" />}
      {recent.data !== undefined && events.length === 0 && (
        <Empty title="No events yet">
          <p>
            {source.active
              ? 'They appear here by themselves, the moment this source emits them.'
              : 'This source is inactive, so it emits nothing. Activate it under Settings.'}
          </p>
        </Empty>
      )}
      {events.length > 0 && (
        <div className={chosen === undefined ? 'split' : 'split two'}>
          <EventList events={filtered} chosenId={chosenId} onChoose={setChosenId} />
          {chosen !== undefined && (
            <EventDetail
              key={chosen.id}
              event={chosen}
              sourceId={source.id}
              mayWrite={mayWrite}
              onClose={() => setChosenId(undefined)}
            />
          )}
        </div>
      )}
      {events.length > 0 && (
        <p className="muted">
          {words.trim() !== '' && `${filtered.length} of `}
          {formatNumber(events.length)} {events.length === 1 ? 'event' : 'events'} shown, newest first.
          {live.leftOut > 0 && ` ${formatNumber(live.leftOut)} more came too fast to show one by one.`}
        </p>
      )}
    </>
  );
}

function StreamLight({ live, paused }: { live: LiveEvents; paused: boolean }) {
  const isLive = live.state === 'live';
  const words = paused ? 'Paused' : isLive ? 'Live' : live.state === 'refused' ? 'Not live' : 'Connecting …';
  return (
    <span className={isLive && !paused ? 'light on' : 'light'}>
      <span role="status">{words}</span>
      {isLive && live.perSecond > 0 && (
        <span className="muted">
          {live.perSecond < 10 ? live.perSecond.toFixed(1) : formatNumber(Math.round(live.perSecond))}/s
        </span>
      )}
    </span>
  );
}

function EventList({
  events,
  chosenId,
  onChoose,
}: {
  events: readonly EventSummary[];
  chosenId: string | undefined;
  onChoose: (id: string) => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    getItemKey: (index) => events[index]?.id ?? index,
    overscan: 8,
  });
  if (events.length === 0) return <Empty title="None of the events shown has this text" />;
  return (
    <div className="list card flush events" ref={scroller}>
      <ul aria-label="Events" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start, key }) => {
          const event = events[index];
          return event === undefined ? null : (
            <li
              key={key}
              aria-setsize={events.length}
              aria-posinset={index + 1}
              style={{ transform: `translateY(${start}px)` }}
            >
              <button
                type="button"
                className={event.id === chosenId ? 'row event chosen' : 'row event'}
                aria-pressed={event.id === chosenId}
                onClick={() => onChoose(event.id)}
              >
                <time className="muted event-time" dateTime={new Date(event.indexed_at_ms).toISOString()}>
                  {formatClock(event.indexed_at_ms)}
                </time>
                {event.metadata.summary !== undefined && (
                  <bdi className="cut event-summary">{oneLine(event.metadata.summary, 120)}</bdi>
                )}
                <bdi className="cut event-text">{oneLine(event.event, 300)}</bdi>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function EventDetail({
  event,
  sourceId,
  mayWrite,
  onClose,
}: {
  event: EventSummary;
  sourceId: string;
  mayWrite: boolean;
  onClose: () => void;
}) {
  const whole = useQuery({
    queryKey: ['event', sourceId, event.metadata.name, event.id],
    queryFn: async ({ signal }) => {
      const [ms = '', seq = '0'] = event.id.split('-');
      const page = await api<Page<EventSummary>>('GET', `/v1/sources/${sourceId}/event_summaries`, {
        signal,
        query: {
          limit: 1,
          expand: 'event',
          event_name: event.metadata.name,
          after: `${ms}-${Number(seq) + 1}`,
        },
      });
      return page.data.find(({ id }) => id === event.id);
    },
    enabled: event.truncated === true,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const shown = event.truncated === true ? whole.data : event;
  return (
    <section className="card detail" aria-label={`Event ${event.id}`}>
      <header className="detail-head">
        <h2>
          Event <code>{event.id}</code>
        </h2>
        <div className="with-copy">
          {shown !== undefined && (
            <CopyButton text={JSON.stringify(shown.event, null, 2)} label="Copy the event as JSON" />
          )}
          {mayWrite && (
            <Link
              className="button quiet small"
              href={`/sources/${sourceId}?${new URLSearchParams({ tab: 'replay', event: event.id, channel: event.metadata.name }).toString()}`}
            >
              Send again …
            </Link>
          )}
          <button type="button" className="button quiet small" onClick={onClose}>
            <Icon name="close" size={16} />
            Close
          </button>
        </div>
      </header>
      {whole.error !== null && <Problem error={whole.error} />}
      {shown === undefined && whole.isFetching && <Loading />}
      {shown === undefined && whole.isSuccess && (
        <p className="note">It is no longer kept: only the newest 100 are.</p>
      )}
      {shown !== undefined && (
        <>
          <JsonView value={shown.event} label="What was emitted" />
          <h3>Metadata</h3>
          <JsonView value={shown.metadata} label="Metadata" />
        </>
      )}
    </section>
  );
}

/** Newest first, each once. */
function joined(live: readonly EventSummary[], kept: readonly EventSummary[]): EventSummary[] {
  const byId = new Map(kept.map((event) => [event.id, event]));
  // What the stream brings is whole, what the list has may be cut.
  for (const event of live) byId.set(event.id, event);
  return [...byId.values()].sort((a, b) => compareIds(b.id, a.id));
}

function compareIds(a: string, b: string): number {
  const [aMs = 0, aSeq = 0] = a.split('-').map(Number);
  const [bMs = 0, bSeq = 0] = b.split('-').map(Number);
  return aMs - bMs || aSeq - bSeq;
}

function matching(events: readonly EventSummary[], words: string): readonly EventSummary[] {
  const wanted = words.trim().toLowerCase();
  if (wanted === '') return events;
  return events.filter((event) => textOf(event).includes(wanted));
}

/** Made once for each event, however often one types. */
const texts = new WeakMap<EventSummary, string>();

function textOf(event: EventSummary): string {
  const known = texts.get(event);
  if (known !== undefined) return known;
  const text = `${event.id} ${JSON.stringify(event.event)} ${event.metadata.summary ?? ''}`.toLowerCase();
  texts.set(event, text);
  return text;
}
