import type { Source, SourceTick, SourceTimer } from '#sdk';
import { useTicks, useTimers } from '~/api/source-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { formatDuration, formatNumber } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** The timers of a source, and the outcome of each tick. */
export function SourceTimers({ source }: { source: Source }) {
  const timers = useTimers(source.id);
  const ticks = useTicks(source.id);
  const rows = ticks.data?.pages.flatMap(({ data }) => data);
  return (
    <>
      {timers.error !== null && (
        <Problem
          error={timers.error}
          what="The next runs are not known."
          onRetry={() => void timers.refetch()}
        />
      )}
      {timers.isPending && <Loading what="Loading timers" />}
      {timers.data?.length === 0 && (
        <p className="note">
          {source.active
            ? 'No run is planned: its schedule has come to its end.'
            : 'This source is inactive, so no run is planned. Activate it under Settings.'}
        </p>
      )}
      {timers.data !== undefined && timers.data.length > 0 && (
        <div className="columns">
          {timers.data.map((timer) => (
            <Planned key={timer.prop} timer={timer} />
          ))}
        </div>
      )}
      <h2>Schedule ledger</h2>
      {ticks.error !== null && <Problem error={ticks.error} onRetry={() => void ticks.refetch()} />}
      {ticks.isPending && <Loading what="Loading the ledger" />}
      {rows?.length === 0 && (
        <Empty title="Nothing has been due yet">
          <p>Each planned run appears here, also one that was late, skipped or missed, with its reason.</p>
        </Empty>
      )}
      {rows !== undefined && rows.length > 0 && (
        <>
          <Ledger rows={rows} hasNames={new Set(rows.map(({ prop }) => prop)).size > 1} />
          <p className="muted">The last 100 are kept, newest first. Times are those of your time zone.</p>
          {ticks.hasNextPage && (
            <p>
              <button
                type="button"
                className="button"
                disabled={ticks.isFetchingNextPage}
                onClick={() => void ticks.fetchNextPage()}
              >
                Show older ones
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}

function Planned({ timer }: { timer: SourceTimer }) {
  const [next, ...later] = timer.planned_at;
  return (
    <section className="card" aria-label={`Timer ${timer.prop}`}>
      <h2>
        <bdi>{oneLine(timer.prop, 100)}</bdi>
      </h2>
      <p>{scheduleOf(timer)}</p>
      {next !== undefined && (
        <p>
          <strong>
            Next run <Ago ms={next * 1000} />
          </strong>
          , {timeOf(next)}
        </p>
      )}
      {later.length > 0 && (
        <>
          <p className="muted">Then:</p>
          <ul className="planned">
            {later.map((at) => (
              <li key={at}>{timeOf(at)}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function scheduleOf({ interval_seconds: seconds, cron, timezone }: SourceTimer) {
  if (cron === null) return `Every ${formatDuration((seconds ?? 0) * 1000)}`;
  return (
    <>
      <code>{oneLine(cron, 200)}</code> in {oneLine(timezone, 60)}
    </>
  );
}

const tickTones: Readonly<Record<SourceTick['outcome'], { name: string; tone: string }>> = {
  fired: { name: 'started', tone: 'state off' },
  late: { name: 'late', tone: 'state warn' },
  skipped: { name: 'skipped', tone: 'state warn' },
  missed: { name: 'missed', tone: 'state bad' },
};

const runTones: Readonly<Record<NonNullable<SourceTick['run']>['state'], { name: string; tone: string }>> = {
  queued: { name: 'queued', tone: 'state off' },
  running: { name: 'running', tone: 'state busy' },
  succeeded: { name: 'succeeded', tone: 'state good' },
  failed: { name: 'failed', tone: 'state bad' },
  waiting: { name: 'waiting', tone: 'state busy' },
  cancelled: { name: 'cancelled', tone: 'state off' },
  quarantined: { name: 'in quarantine', tone: 'state bad' },
  not_triggered: { name: 'not run', tone: 'state off' },
  lost: { name: 'lost', tone: 'state bad' },
  not_kept: { name: 'not kept', tone: 'state off' },
};

/** A tick that started a run has the state of that run; its delay is shown beside it. */
function lookOf({ outcome, run }: SourceTick): { name: string; tone: string } {
  const known = run === null ? tickTones[outcome] : runTones[run.state];
  return known ?? { name: oneLine(run?.state ?? outcome, 20), tone: 'state off' };
}

function Ledger({ rows, hasNames }: { rows: readonly SourceTick[]; hasNames: boolean }) {
  return (
    <ol className="ledger card flush" aria-label="Outcome of each planned run">
      {rows.map((tick) => {
        const { name, tone } = lookOf(tick);
        return (
          <li key={`${tick.prop} ${tick.planned_at} ${tick.outcome}`}>
            <time className="ledger-time" dateTime={new Date(tick.planned_at * 1000).toISOString()}>
              {timeOf(tick.planned_at)}
            </time>
            <span className="ledger-state">
              <span className={tone}>{name}</span>
            </span>
            <span className="break">
              {hasNames && (
                <>
                  <code>
                    <bdi>{oneLine(tick.prop, 60)}</bdi>
                  </code>{' '}
                </>
              )}
              {explained(tick)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function explained(tick: SourceTick): string {
  const { outcome, late_by_ms: lateMs, recorded_at, planned_at, reason, ticks, run } = tick;
  const why = reason === 'quota_exceeded' ? 'the quota of its owner was used up' : oneLine(reason ?? '', 300);
  if (lateMs !== null) {
    const ran = `started at ${timeOf(Math.round(planned_at + lateMs / 1000))}`;
    const start = outcome === 'late' ? `${ran}, ${formatDuration(lateMs)} after its time` : `${ran}, in time`;
    const error = oneLine(run?.error ?? '', 300);
    return error === '' ? start : `${start}: ${error}`;
  }
  if (outcome !== 'missed') return why;
  const first = ticks === 1 ? 'One planned run' : `${formatNumber(ticks)} planned runs`;
  return `${first} until ${timeOf(recorded_at)}: ${why}`;
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString();
}
