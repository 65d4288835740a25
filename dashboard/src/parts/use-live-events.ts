import { useEffect, useRef, useState } from 'react';
import { type EventSummary, pathOf } from '#sdk';
import { client } from '~/api/client.ts';

/** What is kept of a stream, newest first; the service keeps a hundred of each channel. */
const keptMax = 500;
/** What came in between is shown together: a page is not drawn for each of a thousand events a second. */
const drawEveryMs = 250;
/** Maximum of events kept between two renderings; the rate counts all of them. */
const keptPerDraw = 50;
const rateOverMs = 5_000;

export interface LiveEvents {
  state: 'connecting' | 'live' | 'waiting' | 'refused';
  /** Why it is refused. */
  error: unknown;
  /** Newest first. */
  events: readonly EventSummary[];
  /** Events a second, over the last seconds: of all that came, also of those that are not kept. */
  perSecond: number;
  /** Came and were not kept, since the page was opened. */
  leftOut: number;
  /** The stream reported that earlier events may be missing. */
  gap: boolean;
}

const nothing: LiveEvents = {
  state: 'connecting',
  error: undefined,
  events: [],
  perSecond: 0,
  leftOut: 0,
  gap: false,
};

/**
 * The events of a channel of a source as they come; the channel is '' for the default one. `paused`: what comes is kept aside,
 * and shown when the user continues.
 */
export function useLiveEvents(
  sourceId: string,
  channel: string,
  paused: boolean,
): LiveEvents & { aside: number } {
  const [shown, setShown] = useState<LiveEvents>(nothing);
  const [aside, setAside] = useState(0);
  const isPaused = useRef(paused);
  isPaused.current = paused;
  useEffect(() => {
    const abort = new AbortController();
    let current = nothing;
    let fresh: EventSummary[] = [];
    let came = 0;
    let changed = true;
    const counts: { at: number; count: number }[] = [];
    const draw = () => {
      const now = Date.now();
      if (came > 0) counts.push({ at: now, count: came });
      while (counts[0] !== undefined && counts[0].at < now - rateOverMs) counts.shift();
      const perSecond = counts.reduce((sum, { count }) => sum + count, 0) / (rateOverMs / 1000);
      const kept = fresh.slice(-keptPerDraw).reverse();
      if (kept.length > 0 || perSecond !== current.perSecond) changed = true;
      current = {
        ...current,
        perSecond,
        leftOut: current.leftOut + came - kept.length,
        events: kept.length === 0 ? current.events : [...kept, ...current.events].slice(0, keptMax),
      };
      const more = came;
      if (isPaused.current) setAside((count) => count + more);
      else if (changed) {
        setShown(current);
        setAside(0);
        changed = false;
      }
      fresh = [];
      came = 0;
    };
    const timer = setInterval(draw, drawEveryMs);
    const { signal } = abort;
    const become = (change: Partial<LiveEvents>) => {
      current = { ...current, ...change };
      changed = true;
    };
    const stream = client.stream<EventSummary>(
      {
        method: 'GET',
        // Below /v1, where the browser sends the cookie of the session: the stream has another address without it.
        path: pathOf`/v1/sources/${sourceId}/sse`,
        newestPath: pathOf`/v1/sources/${sourceId}/event_summaries`,
        query: { event_name: channel },
      },
      {
        signal,
        failuresMax: Number.POSITIVE_INFINITY,
        onConnect: () => become({ state: 'live' }),
        onReconnect: () => become({ state: 'waiting' }),
      },
    );
    const follow = async () => {
      for await (const message of stream) {
        if (message.type === 'gap') become({ gap: true });
        else {
          came += 1;
          fresh.push(message.data);
          if (fresh.length > 2 * keptPerDraw) fresh = fresh.slice(-keptPerDraw);
        }
      }
      // It ended by itself: the source is gone, and reading it gives the error.
      if (!signal.aborted) await client.sources.get(sourceId, {}, { signal });
    };
    follow().catch((error: unknown) => become({ state: 'refused', error }));
    return () => {
      abort.abort();
      clearInterval(timer);
      setShown(nothing);
      setAside(0);
    };
  }, [sourceId, channel]);
  return { ...shown, aside };
}
