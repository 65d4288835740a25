import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useSearch } from 'wouter';
import type { EventSummary, Replay, Source } from '#sdk';
import { api } from '~/api/client.ts';
import { useRecentEvents } from '~/api/queries.ts';
import { isUnderWay, useReplays } from '~/api/source-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { formatClock, formatDuration, formatNumber } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReplayListeners, useListenersOf } from './replay-listeners.tsx';

/** Each stretch of events is a replay of its own, and a listener takes a hundred that are not over. */
const stretchesMax = 50;
const rateMax = 100;

/** Events that are kept, sent again to who is subscribed, or to one who is not. */
export function SourceReplay({ source, mayWrite }: { source: Source; mayWrite: boolean }) {
  return (
    <>
      {mayWrite && <ReplayForm source={source} />}
      <Replays source={source} mayWrite={mayWrite} />
    </>
  );
}

function ReplayForm({ source }: { source: Source }) {
  const asked = new URLSearchParams(useSearch());
  const [channel, setChannel] = useState(asked.get('channel') ?? '');
  const [typed, setTyped] = useState(channel);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(() => new Set(asked.getAll('event')));
  const [listeners, setListeners] = useState<ReadonlySet<string>>();
  const [rate, setRate] = useState(20);
  const [confirming, setConfirming] = useState(false);
  const recent = useRecentEvents(source.id, channel);
  const known = useListenersOf(source, channel);
  const events = recent.data ?? [];
  const picked = events.filter(({ id }) => chosen.has(id));
  // The subscribers, unless the user chose others.
  const to = [...(listeners ?? new Set(known.subscribed))];
  const stretches = useMemo(() => stretchesOf(events, chosen), [events, chosen]);
  const problem =
    stretches.length > stretchesMax
      ? `These are ${stretches.length} separate stretches of events; at most ${stretchesMax} are sent at a time.`
      : undefined;
  const isComplete =
    picked.length > 0 && to.length > 0 && problem === undefined && rate >= 1 && rate <= rateMax;
  const showChannel = () => {
    if (typed.trim() === channel) return;
    setChannel(typed.trim());
    setChosen(new Set());
    setListeners(undefined);
  };
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        setConfirming(true);
      }}
    >
      <fieldset className="replay-form">
        <h2>Send events again</h2>
        <div>
          <h3>Which</h3>
          <div className="tools">
            <button
              type="button"
              className="button small"
              disabled={events.length === 0}
              onClick={() => setChosen(new Set(events.map(({ id }) => id)))}
            >
              All
            </button>
            <button type="button" className="button small" onClick={() => setChosen(new Set())}>
              None
            </button>
            <TimeRange onRange={(from, until) => setChosen(within(events, from, until))} />
            <input
              className="input small"
              aria-label="Channel; empty is the default one. Leaving the field shows it"
              placeholder="Channel: default"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              onBlur={showChannel}
            />
          </div>
          {recent.isPending && <Loading what="Loading events" />}
          {recent.error !== null && <Problem error={recent.error} onRetry={() => void recent.refetch()} />}
          {recent.data !== undefined && events.length === 0 && (
            <Empty title="No events are kept of this channel">
              <p>The last 100 of each channel are; they can be sent again from here.</p>
            </Empty>
          )}
          {events.length > 0 && (
            <ul className="picks" aria-label="Events to send again">
              {events.map((event) => (
                <li key={event.id}>
                  <Pick
                    event={event}
                    isChosen={chosen.has(event.id)}
                    onChange={(isChosen) => setChosen(withOrWithout(chosen, event.id, isChosen))}
                  />
                </li>
              ))}
            </ul>
          )}
          {events.length > 0 && (
            <p className="muted">
              {formatNumber(picked.length)} of {formatNumber(events.length)} events chosen. The last 100 of a
              channel are kept.
            </p>
          )}
          {problem !== undefined && <p className="field-problem">{problem}</p>}
        </div>
        <ReplayListeners known={known} chosen={new Set(to)} onChange={setListeners} />
        <div>
          <label className="label" htmlFor="replay-rate">
            Events per second, at most
          </label>
          <input
            id="replay-rate"
            className="input small"
            type="number"
            min={1}
            max={rateMax}
            step={1}
            required
            value={Number.isNaN(rate) ? '' : rate}
            onChange={(event) => setRate(event.target.valueAsNumber)}
          />
        </div>
        <div>
          <button type="submit" className="button primary" disabled={!isComplete}>
            {picked.length === 0
              ? 'Send again …'
              : `Send ${counted(picked.length, 'event')} to ${counted(to.length, 'listener')} …`}
          </button>
        </div>
      </fieldset>
      <Begin
        open={confirming}
        source={source}
        request={{ channel, stretches, to, rate, count: picked.length, nameOf: known.nameOf }}
        onClose={() => setConfirming(false)}
        onBegun={() => setChosen(new Set())}
      />
    </form>
  );
}

function Pick({
  event,
  isChosen,
  onChange,
}: {
  event: EventSummary;
  isChosen: boolean;
  onChange: (isChosen: boolean) => void;
}) {
  return (
    <label className="pick">
      <input type="checkbox" checked={isChosen} onChange={({ target }) => onChange(target.checked)} />
      <time className="muted event-time" dateTime={new Date(event.indexed_at_ms).toISOString()}>
        {formatClock(event.indexed_at_ms)}
      </time>
      {event.metadata.summary !== undefined && (
        <bdi className="cut event-summary">{oneLine(event.metadata.summary, 120)}</bdi>
      )}
      <bdi className="cut event-text">{oneLine(event.event, 200)}</bdi>
    </label>
  );
}

function TimeRange({ onRange }: { onRange: (fromMs: number, untilMs: number) => void }) {
  const [from, setFrom] = useState('');
  const [until, setUntil] = useState('');
  const choose = (nextFrom: string, nextUntil: string) => {
    setFrom(nextFrom);
    setUntil(nextUntil);
    if (nextFrom === '' && nextUntil === '') return;
    const untilMs = nextUntil === '' ? Number.POSITIVE_INFINITY : Date.parse(nextUntil) + 999;
    onRange(nextFrom === '' ? 0 : Date.parse(nextFrom), untilMs);
  };
  return (
    <>
      <label>
        From{' '}
        <input
          className="input small"
          type="datetime-local"
          step={1}
          value={from}
          onChange={(event) => choose(event.target.value, until)}
        />
      </label>
      <label>
        until{' '}
        <input
          className="input small"
          type="datetime-local"
          step={1}
          value={until}
          onChange={(event) => choose(from, event.target.value)}
        />
      </label>
    </>
  );
}

interface ReplayRequest {
  channel: string;
  stretches: readonly { start: string; end: string }[];
  to: readonly string[];
  rate: number;
  count: number;
  nameOf: (id: string) => string | undefined;
}

/** Says what would happen, and does it: a replay for each stretch of events and each listener. */
function Begin({
  open,
  source,
  request,
  onClose,
  onBegun,
}: {
  open: boolean;
  source: Source;
  request: ReplayRequest;
  onClose: () => void;
  onBegun: () => void;
}) {
  const { channel, stretches, to, rate, count, nameOf } = request;
  const queries = useQueryClient();
  const begin = useMutation({
    mutationFn: async () => {
      for (const listener of to) {
        for (const { start, end } of stretches) {
          await api('POST', `/v1/sources/${source.id}/replay`, {
            body: { listener_id: listener, event_name: channel, start_id: start, end_id: end, rate },
          });
        }
      }
    },
    onSuccess: () => {
      onClose();
      onBegun();
    },
    // Also when one of several was refused: those before it have begun.
    onSettled: () => queries.invalidateQueries({ queryKey: ['replays', source.id] }),
  });
  const kinds = new Set(to.map((id) => id.split('_', 1)[0]));
  return (
    <Confirm
      open={open}
      onClose={() => {
        onClose();
        begin.reset();
      }}
      title={`Send ${counted(count, 'event')} again?`}
      action="Send again"
      busy={begin.isPending}
      onConfirm={() => begin.mutate()}
    >
      <p>
        {counted(count * to.length, 'delivery', 'deliveries')}, the oldest event first, within{' '}
        {formatDuration(Math.max(1000, (count / rate) * 1000))} at the soonest:
      </p>
      <ul>
        {to.map((id) => (
          <li key={id}>
            {counted(count, 'event')} to <bdi>{oneLine(nameOf(id) ?? '', 80)}</bdi> <code>{id}</code>
          </li>
        ))}
      </ul>
      {kinds.has('wh') && (
        <p>
          Webhooks get each under a new <code>webhook-id</code>: a receiver that has seen an event before
          tells by <code>x-pd-event-id</code>.
        </p>
      )}
      {(kinds.has('p') || kinds.has('dc')) && <p>Workflows and sources run once more for each event.</p>}
      {begin.error !== null && (
        <Problem error={begin.error} what="Not all of it was begun: what was is in the list of replays." />
      )}
    </Confirm>
  );
}

function Replays({ source, mayWrite }: { source: Source; mayWrite: boolean }) {
  const replays = useReplays(source.id);
  const rows = replays.data?.data;
  return (
    <section className="replays" aria-label="Replays">
      <h2>Replays</h2>
      {replays.isPending && <Loading what="Loading replays" />}
      {replays.error !== null && <Problem error={replays.error} onRetry={() => void replays.refetch()} />}
      {rows?.length === 0 && (
        <Empty title="No events of this source were sent again yet">
          <p>
            {mayWrite
              ? 'Choose events above; the progress and the outcome of each replay appear here.'
              : 'The progress and the outcome of each replay appear here.'}
          </p>
        </Empty>
      )}
      {rows !== undefined && rows.length > 0 && (
        <ul className="rows card flush" aria-label="Replays, newest first">
          {rows.map((replay) => (
            <ReplayRow key={replay.id} replay={replay} sourceId={source.id} mayWrite={mayWrite} />
          ))}
        </ul>
      )}
    </section>
  );
}

const tones: Readonly<Record<string, string>> = { finished: 'state good', cancelled: 'state off' };

function ReplayRow({ replay, sourceId, mayWrite }: { replay: Replay; sourceId: string; mayWrite: boolean }) {
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/replays/${replay.id}`),
    onSettled: () => queries.invalidateQueries({ queryKey: ['replays', sourceId] }),
  });
  const done = replay.sent + replay.failed;
  const isOpen = isUnderWay(replay);
  return (
    <li className="row plain">
      <span className="row-main">
        <span className="facts">
          <span className={replay.failed > 0 ? 'state bad' : (tones[replay.state] ?? 'state busy')}>
            {replay.failed > 0 && replay.state === 'finished' ? 'finished, not all arrived' : replay.state}
          </span>
          <span>
            to <End id={replay.listener_id} />
          </span>
          <span className="muted">
            <Ago ms={replay.created_at * 1000} />
          </span>
        </span>
        <span className="muted">
          {whatCameOf(replay)}
          {replay.failed > 0 &&
            replay.listener_id.startsWith('wh_') &&
            '. The deliveries of the webhook say why.'}
        </span>
        {cancel.error !== null && <Problem error={cancel.error} what="It was not cancelled." />}
      </span>
      {isOpen && (
        <progress
          className="replay-progress"
          max={Math.max(1, replay.total)}
          value={done}
          aria-label={`${done} of ${replay.total} events`}
        />
      )}
      {isOpen && mayWrite && (
        <button
          type="button"
          className="button small"
          disabled={cancel.isPending}
          onClick={() => cancel.mutate()}
        >
          Cancel
        </button>
      )}
    </li>
  );
}

function whatCameOf({ total, sent, failed, waiting, missed, reason, event_name: channel }: Replay): string {
  return [
    `${formatNumber(sent)} of ${counted(total, 'event')} sent`,
    ...(failed > 0 ? [`${formatNumber(failed)} not delivered`] : []),
    ...(waiting > 0 ? [`${formatNumber(waiting)} waiting`] : []),
    ...(missed > 0 ? [`${formatNumber(missed)} gone before their turn`] : []),
    ...(channel === '' ? [] : [`channel ${oneLine(channel, 60)}`]),
    ...(reason === null ? [] : [oneLine(reason.replaceAll('_', ' '), 100)]),
  ].join(', ');
}

/** Adjacent events, as ranges: the list is newest first. */
function stretchesOf(events: readonly EventSummary[], chosen: ReadonlySet<string>) {
  const found: { start: string; end: string }[] = [];
  let isInside = false;
  for (const { id } of [...events].reverse()) {
    const last = found.at(-1);
    if (!chosen.has(id)) isInside = false;
    else if (isInside && last !== undefined) last.end = id;
    else {
      found.push({ start: id, end: id });
      isInside = true;
    }
  }
  return found;
}

function within(events: readonly EventSummary[], fromMs: number, untilMs: number): ReadonlySet<string> {
  return new Set(events.filter(({ indexed_at_ms: ms }) => ms >= fromMs && ms <= untilMs).map(({ id }) => id));
}

function withOrWithout(set: ReadonlySet<string>, id: string, isIn: boolean): ReadonlySet<string> {
  const next = new Set(set);
  if (isIn) next.add(id);
  else next.delete(id);
  return next;
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}
