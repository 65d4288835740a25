import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { RunDetail, RunSend, WorkflowStep } from '#sdk';
import { useMayWrite } from '~/api/rights.ts';
import { isOver, useDeployment, useRun, useWorkflow } from '~/api/workflow-queries.ts';
import { Ago, useNow } from '~/parts/ago.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { formatClock, formatDuration } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { FailedSends, RunState, tookMs, triggerName } from '~/parts/run-state.tsx';
import { StackView } from '~/parts/stack-view.tsx';
import { codeOf } from '~/parts/step-parts.tsx';
import { RunActions } from './run-actions.tsx';
import { RunSteps } from './run-steps.tsx';

/** Waits of branches and items that are listed. */
const waitsShown = 20;

/** One run: why it failed, what each step got, gave and printed, and what can be done. */
export function RunPage({ id }: { id: string }) {
  const run = useRun(id);
  if (run.data === undefined) {
    return (
      <PageFrame title={`Run ${id}`}>
        {run.error === null ? (
          <Loading />
        ) : (
          <>
            <Problem error={run.error} onRetry={() => void run.refetch()} />
            <p>
              <Link href="/workflows">All workflows</Link>
            </p>
          </>
        )}
      </PageFrame>
    );
  }
  return (
    <>
      {run.error !== null && <Problem error={run.error} what="This may not be up to date." />}
      <Details run={run.data} />
    </>
  );
}

function Details({ run }: { run: RunDetail }) {
  const workflow = useWorkflow(run.workflow_id);
  const deployment = useDeployment(run.deployment_id);
  const mayWrite = useMayWrite(run.owner_id) === true;
  const now = useNow(isOver(run) ? 60_000 : 1_000);
  const ms = tookMs(run, now);
  const steps = deployment.data?.steps;
  return (
    <PageFrame
      title={`Run of ${workflow.data?.name ?? run.workflow_id}`}
      lead={
        <>
          <p className="muted facts">
            <RunState state={run.state} />
            <FailedSends count={run.failed_sends} />
            <span>
              <time dateTime={run.created_at}>{formatClock(Date.parse(run.created_at))}</time>,{' '}
              <Ago ms={Date.parse(run.created_at)} />
            </span>
            <span>{ms === undefined ? 'has not begun' : `took ${formatDuration(ms)}`}</span>
            <span>started by {triggerName(run.source_type)}</span>
            {deployment.data !== undefined && <span>version {deployment.data.number}</span>}
          </p>
          <p className="muted facts">
            <Link href={`/workflows/${run.workflow_id}`}>All runs of this workflow</Link>
            <span className="with-copy">
              <code className="break">{run.id}</code>
              <CopyButton text={run.id} label="Copy the id" />
            </span>
            {run.replay_of !== null && <Link href={`/runs/${run.replay_of}`}>The run that it repeats</Link>}
          </p>
        </>
      }
      actions={
        mayWrite && (
          <RunActions run={run} steps={steps} version={deployment.data?.number} workflow={workflow.data} />
        )
      }
    >
      {run.wait !== null && (
        <p className="note">
          {run.wait.kind === 'branches'
            ? 'It waits for branches: the first of them continues at '
            : `It waits (${visible(run.wait.kind)}) until `}
          {formatClock(Date.parse(run.wait.until))}, <Ago ms={Date.parse(run.wait.until)} />.
          {run.wait.kind === 'retry' && run.wait_reason !== null && (
            <bdi> {oneLine(run.wait_reason, 500)}.</bdi>
          )}
        </p>
      )}
      {run.waits.length > 0 && run.wait?.kind !== 'delay' && (
        <ul className="note" aria-label="Waits">
          {run.waits.slice(0, waitsShown).map(({ namespace, iteration, kind, until, position }) => (
            <li key={`${position} ${iteration}`}>
              {visible(namespace)}
              {iteration !== '' && ` [${iteration}]`} waits ({visible(kind)}) until{' '}
              {formatClock(Date.parse(until))}
            </li>
          ))}
          {run.waits.length > waitsShown && <li>and {run.waits.length - waitsShown} more</li>}
        </ul>
      )}
      {run.reason !== null && (
        <p className="note">
          {run.state === 'not_triggered' ? 'Did not begin' : 'Ended before its last step'}:{' '}
          <bdi>{oneLine(run.reason, 500)}</bdi>
        </p>
      )}
      {run.queue !== null && run.queue.state !== 'started' && (
        <p className="note">
          Waits for its turn: <bdi>{oneLine(run.queue.reason, 500)}</bdi>
        </p>
      )}
      {run.flow_warning !== null && (
        <p className="note">
          Key of flow control: <bdi>{oneLine(run.flow_warning, 500)}</bdi>
        </p>
      )}
      {run.error !== null && (
        <Failure
          error={run.error}
          steps={steps}
          run={run}
          mayEdit={mayWrite && workflow.data !== undefined}
        />
      )}
      {deployment.error !== null && (
        <Problem
          error={deployment.error}
          what="Its version cannot be shown, so steps that did not run are missing."
        />
      )}
      <RunSteps run={run} steps={steps} now={now} />
      <section className="card" aria-labelledby="event">
        <h2 id="event">What triggered it</h2>
        <JsonView value={run.event} label="Event" />
      </section>
      {run.sends.length > 0 && <Sends sends={run.sends} />}
    </PageFrame>
  );
}

function Failure({
  error,
  steps,
  run,
  mayEdit,
}: {
  error: NonNullable<RunDetail['error']>;
  steps: readonly WorkflowStep[] | undefined;
  run: RunDetail;
  mayEdit: boolean;
}) {
  const message = `${error.code}: ${error.msg}`;
  return (
    <section className="card failure" aria-labelledby="failure">
      <h2 id="failure">
        {error.namespace === null ? 'Why it failed' : `Failed in ${visible(error.namespace)}`}
      </h2>
      <pre className="failure-text">{visible(message)}</pre>
      <StackView
        stack={error.stack}
        message={message}
        code={codeOf(steps?.find(({ namespace }) => namespace === error.namespace))}
      />
      {mayEdit && error.namespace !== null && (
        <p>
          <Link
            href={`/workflows/${run.workflow_id}/edit?step=${encodeURIComponent(error.namespace)}&run=${run.id}`}
          >
            Edit this step, and try it with what this run had
          </Link>
        </p>
      )}
    </section>
  );
}

const sendStates: Readonly<Record<RunSend['state'], { name: string; look: string }>> = {
  queued: { name: 'Queued', look: 'off' },
  sent: { name: 'Sent', look: 'good' },
  failed: { name: 'Failed', look: 'bad' },
};

function Sends({ sends }: { sends: readonly RunSend[] }) {
  return (
    <section className="card" aria-labelledby="sends">
      <h2 id="sends">What it sent</h2>
      <ol className="sends">
        {sends.map((send, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: they stand in the order in which they were sent, and only their state changes.
          <li key={index}>
            <Folded
              summary={
                <>
                  <span className={`state ${sendStates[send.state]?.look ?? 'off'}`}>
                    {sendStates[send.state]?.name ?? send.state}
                  </span>{' '}
                  <code>{visible(send.kind)}</code> <bdi className="muted">{oneLine(send.payload, 100)}</bdi>
                </>
              }
            >
              <JsonView value={send.payload} label="What was sent" />
              {send.result !== null && <JsonView value={send.result} label="Result" />}
            </Folded>
            {send.state === 'failed' && <p className="hint">{reasonOf(send.result)}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function reasonOf(result: unknown): string {
  const error = typeof result === 'object' && result !== null && 'error' in result ? result.error : result;
  return oneLine(error, 500);
}

function Folded({ summary, children }: { summary: ReactNode; children: ReactNode }) {
  return (
    <details>
      <summary>{summary}</summary>
      {children}
    </details>
  );
}
