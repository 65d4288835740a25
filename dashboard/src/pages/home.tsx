import { Link } from 'wouter';
import type { Overview, OwnWorkspace } from '#sdk';
import { type Me, useOverview, useSources } from '~/api/queries.ts';
import { Ago, useNow } from '~/parts/ago.tsx';
import { Command } from '~/parts/copy.tsx';
import { Figure } from '~/parts/figure.tsx';
import { formatDuration, formatNumber, formatRunTime } from '~/parts/format.ts';
import { HealthBadge, HealthReason, NextStep } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { RateChart } from '~/parts/rate-chart.tsx';
import { ReadMore } from '~/parts/read-more.tsx';

export function Home() {
  const { me, ownerId } = useOwner();
  const overview = useOverview(ownerId);
  const sources = useSources(ownerId, '');
  const total = sources.data?.pages[0]?.page_info.total_count;
  return (
    <PageFrame
      title="Home"
      actions={
        <Link href="/map" className="button">
          <Icon name="map" />
          See all of it on the flow map
        </Link>
      }
    >
      {overview.error !== null && (
        <Problem
          error={overview.error}
          what="The figures are not up to date."
          onRetry={() => void overview.refetch()}
        />
      )}
      {overview.data === undefined && overview.error === null && <Loading />}
      {overview.data !== undefined && (
        <>
          {total === 0 && hasNone(overview.data.health.workflows) && <FirstSteps ownerId={ownerId} />}
          <section className="card" aria-labelledby="attention">
            <h2 id="attention">Needs attention</h2>
            <Attention overview={overview.data} />
          </section>
          <Figures overview={overview.data} />
          <section className="card" aria-labelledby="quota">
            <h2 id="quota">Used today</h2>
            <Quota used={usedBy(me, ownerId)} />
          </section>
        </>
      )}
    </PageFrame>
  );
}

/** No workflow is in any state. */
function hasNone(counts: Overview['health']['workflows']): boolean {
  return Object.values(counts).every((count) => count === 0);
}

function FirstSteps({ ownerId }: { ownerId: string }) {
  const owner = ownerId.startsWith('o_') ? `, "org_id": "${ownerId}"` : '';
  return (
    <div className="card">
      <Empty title="Nothing listens yet">
        <p>
          A source listens to something (a timer, requests to an address of its own, an app) and emits events.{' '}
          <Link href="/sources/new">Create your first source</Link>, or do it from a terminal:
        </p>
        <Command
          text={`curl -X POST ${window.location.origin}/v1/sources/ -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"key": "http-new-requests-payload-only", "name": "inbox"${owner}}'`}
        />
        <p>
          A workflow does something with each request, mail, tick of a timer or event, in steps that need no
          code. <Link href="/workflows/new">Create a workflow</Link>, from one of ten examples if you like.
        </p>
        <p>
          You have workflows on Pipedream? <Link href="/imports">Import them</Link>.
        </p>
        <ReadMore page="tutorial">Five minutes, from here to a workflow</ReadMore>
      </Empty>
    </div>
  );
}

/** Right after a start a rate would be a guess: so much of a minute has to be over. */
const minuteMin = 0.5;

function Figures({ overview }: { overview: Overview }) {
  const now = useNow(1_000);
  const { minutes, since } = overview.rates;
  const sum = (of: 'events' | 'errors') => minutes.reduce((count, minute) => count + minute[of], 0);
  const recent = minutes.slice(-5);
  const fromMs = Math.max(since, recent[0]?.at ?? 0) * 1000;
  const perMinute =
    recent.reduce((count, { events }) => count + events, 0) / Math.max(minuteMin, (now - fromMs) / 60_000);
  const errors = sum('errors');
  const oldest = [overview.jobs_waiting.oldest_at, overview.deliveries_waiting.oldest_at].filter(
    (at) => at !== null,
  );
  const age = oldest.length === 0 ? 0 : now - Math.min(...oldest) * 1000;
  const waiting = overview.jobs_waiting.count + overview.deliveries_waiting.count;
  const counted = now / 1000 - since < 3600;
  return (
    <section className="card" aria-label="The last hour">
      <dl className="figures">
        <Figure
          name="Events per minute"
          value={perMinute < 10 ? perMinute.toFixed(1) : formatNumber(Math.round(perMinute))}
        >
          over the last 5 minutes
        </Figure>
        <Figure name="Events, last hour" value={formatNumber(sum('events'))}>
          {counted ? (
            <>
              counted since the start, <Ago ms={since * 1000} />
            </>
          ) : (
            'in the last 60 minutes'
          )}
        </Figure>
        <Figure name="Failures, last hour" value={formatNumber(errors)} isBad={errors > 0}>
          {errors > 0
            ? `errors of ${overview.failing.length} of your sources and workflows`
            : counted
              ? 'none since the start'
              : 'none'}
        </Figure>
        <Figure
          name="Oldest waiting"
          value={waiting === 0 ? '—' : formatDuration(Math.max(0, age))}
          isBad={age > 60_000}
        >
          {waiting === 0
            ? 'nothing is due'
            : `${formatNumber(overview.jobs_waiting.count)} runs, ${formatNumber(overview.deliveries_waiting.count)} deliveries`}
        </Figure>
      </dl>
      <RateChart minutes={minutes} />
    </section>
  );
}

function Attention({ overview }: { overview: Overview }) {
  const { attention, failing, dead_letters, quarantined_runs, deliveries_waiting: waiting } = overview;
  const now = useNow(10_000);
  const named = new Set(attention.map(({ id }) => id));
  // Objects that failed and work again; what is failing still is named above them.
  const recovered = failing.filter(({ id }) => !named.has(id));
  const waitsLong = waiting.oldest_at !== null && now - waiting.oldest_at * 1000 > 60_000;
  const isFine =
    attention.length + recovered.length + dead_letters + quarantined_runs.length === 0 && !waitsLong;
  if (isFine) return <AllWell overview={overview} />;
  return (
    <ul className="attention">
      {attention.map(({ kind, id, name, health }) => (
        <li key={id}>
          <HealthBadge health={health} />{' '}
          <Link href={`/${kind}s/${id}`}>
            {kindNames[kind]} <bdi className="cut">{visible(shortened(name, 100))}</bdi>
          </Link>
          <p>
            <HealthReason health={health} />
          </p>
          <p className="muted">
            <NextStep kind={kind} id={id} health={health} />
          </p>
        </li>
      ))}
      {waitsLong && waiting.oldest_at !== null && (
        <li>
          {formatNumber(waiting.count)} {waiting.count === 1 ? 'delivery waits' : 'deliveries wait'}
          <p className="muted">
            the oldest since <Ago ms={waiting.oldest_at * 1000} />; <Link href="/webhooks">see webhooks</Link>
          </p>
        </li>
      )}
      {dead_letters > 0 && (
        <li>
          <Link href="/dead-letters">
            {formatNumber(dead_letters)}
            {dead_letters >= 1000 ? ' or more' : ''} {dead_letters === 1 ? 'delivery' : 'deliveries'} failed
          </Link>
          <p className="muted">Dead letters: each shows its reason and can be redelivered.</p>
        </li>
      )}
      {quarantined_runs.map((one) => (
        <TroubleItem key={one.id} one={one} href={`/runs/${one.id}`} what="Run is in quarantine" />
      ))}
      {recovered.map(({ id, name, errors, last_at }) => (
        <li key={id}>
          <Link href={id.startsWith('dc_') ? `/sources/${id}?tab=logs` : `/workflows/${id}?state=failed`}>
            <bdi className="cut">{visible(shortened(name, 100))}</bdi> failed{' '}
            {errors === 1 ? 'once' : `${formatNumber(errors)} times`} within the last hour
          </Link>
          <p className="muted">
            last <Ago ms={last_at * 1000} />
          </p>
        </li>
      ))}
    </ul>
  );
}

const kindNames = { source: 'Source', workflow: 'Workflow', webhook: 'Webhook', account: 'Account' } as const;

/** Names what was checked: an empty list alone would not show that anything was. */
function AllWell({ overview }: { overview: Overview }) {
  const { health } = overview;
  const states = ['healthy', 'untested', 'paused'] as const;
  const counted = states.flatMap((state) => {
    const count = Object.values(health).reduce((sum, kind) => sum + kind[state], 0);
    return count === 0 ? [] : [`${formatNumber(count)} ${state}`];
  });
  if (counted.length === 0) return <p className="muted">There is nothing to look at yet.</p>;
  const waits = overview.jobs_waiting.count + overview.deliveries_waiting.count > 0;
  return (
    <>
      <p className="good">{waits ? 'Nothing fails.' : 'Nothing fails, and nothing waits.'}</p>
      <p className="muted">Sources, workflows, webhooks and accounts: {counted.join(', ')}.</p>
    </>
  );
}

function TroubleItem({
  one,
  href,
  what,
}: {
  one: Overview['quarantined_runs'][number];
  href: string;
  what: string;
}) {
  return (
    <li>
      <Link href={href}>
        {what}: <bdi className="cut">{visible(shortened(one.name ?? one.id, 100))}</bdi>
      </Link>
      <p className="muted">
        {one.reason !== null && `${oneLine(one.reason, 200)}, `}
        {one.since !== null && <Ago ms={one.since * 1000} />}
      </p>
    </li>
  );
}

type Use = Pick<
  OwnWorkspace,
  | 'daily_compute_time_quota'
  | 'daily_compute_time_used'
  | 'daily_invocations_quota'
  | 'daily_invocations_used'
> &
  Partial<Pick<OwnWorkspace, 'daily_credits_quota' | 'daily_credits_used'>>;

function usedBy(me: Me, ownerId: string): Use | undefined {
  const workspace = me.orgs.find(({ id }) => id === ownerId);
  if (workspace !== undefined) return workspace;
  return 'daily_invocations_quota' in me ? me : undefined;
}

function Quota({ used }: { used: Use | undefined }) {
  if (used === undefined) return <p className="muted">A paid plan has no quota for a day.</p>;
  return (
    <div className="quotas">
      <Bar
        name="Invocations"
        used={used.daily_invocations_used}
        quota={used.daily_invocations_quota}
        show={formatNumber}
      />
      <Bar
        name="Run time"
        used={used.daily_compute_time_used}
        quota={used.daily_compute_time_quota}
        show={formatRunTime}
      />
      {used.daily_credits_quota !== undefined && (
        <Bar
          name="Credits"
          used={used.daily_credits_used ?? 0}
          quota={used.daily_credits_quota}
          show={formatNumber}
        />
      )}
      <p className="muted">The day begins at 00:00 UTC.</p>
    </div>
  );
}

function Bar({
  name,
  used,
  quota,
  show,
}: {
  name: string;
  used: number;
  quota: number;
  show: (value: number) => string;
}) {
  const share = quota === 0 ? 1 : Math.min(1, used / quota);
  return (
    <div className="quota">
      <div className="quota-line">
        <span>{name}</span>
        <span className="muted">
          {show(used)} of {show(quota)}
        </span>
      </div>
      <meter aria-label={name} min={0} max={1} low={0.8} high={0.95} optimum={0} value={share} />
    </div>
  );
}
