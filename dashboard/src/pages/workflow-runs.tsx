import { Link, useLocation, useSearch } from 'wouter';
import type { Run, Workflow } from '#sdk';
import { isOver, useRuns } from '~/api/workflow-queries.ts';
import { Ago, useNow } from '~/parts/ago.tsx';
import { FlowQueue } from '~/parts/flow-queue.tsx';
import { formatClock, formatDuration, formatNumber } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { FailedSends, RunState, runStates, stateName, tookMs, triggerName } from '~/parts/run-state.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';
import { BulkRunActions } from './bulk-run-actions.tsx';

/** Runs of a workflow, newest first; looked at again every two seconds. */
export function WorkflowRuns({ workflow }: { workflow: Workflow }) {
  const [, navigate] = useLocation();
  const asked = new URLSearchParams(useSearch()).get('state');
  const state = runStates.find((one) => one === asked) ?? '';
  const runs = useRuns(workflow.id, state);
  if (runs.data === undefined) {
    return runs.error === null ? (
      <Loading what="Loading runs" />
    ) : (
      <Problem error={runs.error} onRetry={() => void runs.refetch()} />
    );
  }
  const rows = runs.data.pages.flatMap(({ data }) => data);
  const total = runs.data.pages[0]?.page_info.total_count ?? rows.length;
  return (
    <>
      <div className="tools">
        <label>
          Show{' '}
          <select
            className="select small"
            value={state}
            onChange={({ target: { value } }) =>
              navigate(`/workflows/${workflow.id}${value === '' ? '' : `?state=${value}`}`, { replace: true })
            }
          >
            <option value="">all runs</option>
            {runStates.map((one) => (
              <option key={one} value={one}>
                {stateName(one)}
              </option>
            ))}
          </select>
        </label>
        <span className="muted">
          {formatNumber(total)}, newest first. Runs that ended long ago are removed.
        </span>
        {state !== '' && <BulkRunActions key={state} workflow={workflow} state={state} total={total} />}
      </div>
      {runs.error !== null && <Problem error={runs.error} what="This is not up to date." />}
      {workflow.settings?.flow_control != null && <FlowQueue id={workflow.id} />}
      {rows.length === 0 ? (
        <NoRuns workflow={workflow} state={state} />
      ) : (
        <RunList
          rows={rows}
          total={total}
          needMore={() => {
            if (runs.hasNextPage && !runs.isFetchingNextPage) void runs.fetchNextPage();
          }}
        />
      )}
    </>
  );
}

function NoRuns({ workflow, state }: { workflow: Workflow; state: Run['state'] | '' }) {
  if (state !== '') return <Empty title={`No run is in the state “${stateName(state)}”`} />;
  return (
    <Empty title="Nothing has run yet">
      <p>
        {workflow.active
          ? 'Each event that triggers this workflow is a run, and appears here by itself.'
          : 'The workflow is inactive, so nothing triggers it. A user who may change it can activate it under Settings.'}
      </p>
    </Empty>
  );
}

function RunList({ rows, total, needMore }: { rows: readonly Run[]; total: number; needMore: () => void }) {
  const now = useNow(rows.every(isOver) ? 60_000 : 1_000);
  const longestMs = Math.max(1, ...rows.map((run) => tookMs(run, now) ?? 0));
  return (
    <VirtualList rows={rows} total={total} rowPx={60} label="Runs" needMore={needMore}>
      {(run) => <RunRow run={run} now={now} longestMs={longestMs} />}
    </VirtualList>
  );
}

function RunRow({ run, now, longestMs }: { run: Run; now: number; longestMs: number }) {
  const ms = tookMs(run, now);
  return (
    <Link href={`/runs/${run.id}`} className="row">
      <RunState state={run.state} />
      <span className="row-main">
        <span className="cut">
          <time dateTime={run.created_at}>{formatClock(Date.parse(run.created_at))}</time>{' '}
          <span className="muted">
            by {triggerName(run.source_type)}
            {run.replay_of !== null && ', again'}
          </span>
          <FailedSends count={run.failed_sends} />
        </span>
        <bdi className="cut muted">{whatOf(run)}</bdi>
      </span>
      <span className="muted row-side">
        <Ago ms={Date.parse(run.created_at)} />
      </span>
      <span className="run-took">
        {ms === undefined ? '—' : formatDuration(ms)}
        <span className="run-bar" aria-hidden="true">
          <span
            className={run.state === 'waiting' ? 'waits' : undefined}
            style={{ width: `${((ms ?? 0) / longestMs) * 100}%` }}
          />
        </span>
      </span>
    </Link>
  );
}

function whatOf(run: Run): string {
  if (run.error !== null) {
    const where = run.error.namespace === null ? '' : `${run.error.namespace}: `;
    return oneLine(`${where}${run.error.msg === '' ? run.error.code : run.error.msg}`, 200);
  }
  if (run.wait !== null && run.wait.kind !== 'retry')
    return `until ${formatClock(Date.parse(run.wait.until))}`;
  return oneLine(run.wait_reason ?? run.reason ?? run.id, 200);
}
