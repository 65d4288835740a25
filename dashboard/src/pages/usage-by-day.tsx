import { useState } from 'react';
import type { OwnWorkspace, Usage } from '#sdk';
import { useUsage } from '~/api/workspace-queries.ts';
import { DayChart, dayName } from '~/parts/day-chart.tsx';
import { formatNumber, formatRunTime } from '~/parts/format.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';

const ranges = [7, 14, 30] as const;

type Measure = 'invocations' | 'compute_ms' | 'credits' | 'events' | 'deliveries';

const measures: readonly { id: Measure; name: string; what: string; show: (value: number) => string }[] = [
  {
    id: 'invocations',
    name: 'Invocations',
    what: 'Times that code of a source or a workflow was called.',
    show: formatNumber,
  },
  { id: 'compute_ms', name: 'Run time', what: 'How long that code ran.', show: formatRunTime },
  {
    id: 'credits',
    name: 'Credits',
    what: 'Started 30 seconds of run time at 256 MB; at least one for a run of a workflow.',
    show: formatNumber,
  },
  {
    id: 'events',
    name: 'Events',
    what: 'Emitted by sources and workflows, log lines and errors apart.',
    show: formatNumber,
  },
  {
    id: 'deliveries',
    name: 'Deliveries',
    what: 'Attempts to deliver events to listeners.',
    show: formatNumber,
  },
];

/** What the owner that is shown used on each day, against what a day may use. */
export function UsageByDay() {
  const { me, ownerId } = useOwner();
  const usage = useUsage(ownerId);
  const [range, setRange] = useState<number>(30);
  if (usage.data === undefined) {
    return usage.error === null ? (
      <Loading what="Loading usage" />
    ) : (
      <Problem error={usage.error} onRetry={() => void usage.refetch()} />
    );
  }
  const days = usage.data.slice(-range);
  const quotas: Partial<OwnWorkspace> = me.orgs.find(({ id }) => id === ownerId) ?? me;
  const quotaOf: Record<Measure, number | undefined> = {
    invocations: quotas.daily_invocations_quota,
    compute_ms: quotas.daily_compute_time_quota,
    credits: quotas.daily_credits_quota,
    events: undefined,
    deliveries: undefined,
  };
  return (
    <>
      {usage.error !== null && <Problem error={usage.error} what="The figures are not up to date." />}
      <div className="tools">
        <label>
          <span className="off-screen">Days to show</span>
          <select
            className="select small"
            value={range}
            onChange={(event) => setRange(Number(event.target.value))}
          >
            {ranges.map((count) => (
              <option key={count} value={count}>
                the last {count} days
              </option>
            ))}
          </select>
        </label>
        <span className="muted">Days begin at 00:00 UTC.</span>
      </div>
      {measures.map(({ id, name, what, show }) => {
        const total = days.reduce((sum, day) => sum + day[id], 0);
        return (
          <section key={id} className="card" aria-labelledby={`usage-${id}`}>
            <h2 id={`usage-${id}`}>{name}</h2>
            <p className="muted">
              {what} <strong>{show(total)}</strong> in {range} days, {show(days.at(-1)?.[id] ?? 0)} today.
            </p>
            <DayChart
              name={`${name} by day`}
              days={days.map((day) => ({ day: day.day, value: day[id] }))}
              show={show}
              quota={quotaOf[id]}
            />
          </section>
        );
      })}
      <details className="card">
        <summary>The same as a table</summary>
        <UsageTable days={days} />
      </details>
      <p className="muted">
        Counted for what belongs here, and not for who made it. What is stored is not part of it.
      </p>
    </>
  );
}

function UsageTable({ days }: { days: readonly Usage[] }) {
  return (
    <div className="table-scroll">
      <table className="table figures-only">
        <caption className="off-screen">Usage by day, the latest first</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            {measures.map(({ id, name }) => (
              <th key={id} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days.toReversed().map((day) => (
            <tr key={day.day}>
              <th scope="row">{dayName(day.day)}</th>
              {measures.map(({ id, show }) => (
                <td key={id}>{show(day[id])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
