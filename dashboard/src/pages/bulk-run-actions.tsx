import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Run, RunsAnswer, Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { Confirm } from '~/parts/confirm.tsx';
import { formatNumber } from '~/parts/format.ts';
import { Problem } from '~/parts/problem.tsx';
import { stateName } from '~/parts/run-state.tsx';

type BulkOperation = 'cancel' | 'replay' | 'restart';

const operationsOf: Readonly<Partial<Record<Run['state'], readonly BulkOperation[]>>> = {
  queued: ['cancel'],
  running: ['cancel'],
  waiting: ['cancel'],
  failed: ['restart', 'replay'],
  quarantined: ['restart', 'replay'],
  cancelled: ['restart', 'replay'],
};

const words = {
  cancel: { name: 'Cancel all', done: 'cancelled' },
  replay: { name: 'Replay all', done: 'replayed' },
  restart: { name: 'Restart all', done: 'restarted' },
} as const satisfies Record<BulkOperation, object>;

/** What can be done with all runs of a workflow that are in one state. */
export function BulkRunActions({
  workflow,
  state,
  total,
}: {
  workflow: Workflow;
  state: Run['state'];
  total: number;
}) {
  const mayWrite = useMayWrite(workflow.owner_id);
  const operations = operationsOf[state] ?? [];
  if (mayWrite !== true || total === 0 || operations.length === 0) return null;
  return (
    <span className="tools-end">
      {operations.map((operation) => (
        <BulkAction key={operation} {...{ workflow, state, total, operation }} />
      ))}
    </span>
  );
}

type Progress = Pick<RunsAnswer, 'done' | 'failed' | 'failures' | 'remaining'>;

function BulkAction({
  workflow,
  state,
  total,
  operation,
}: {
  workflow: Workflow;
  state: Run['state'];
  total: number;
  operation: BulkOperation;
}) {
  const [open, setOpen] = useState(false);
  const [progress, setProgress] = useState<Progress>();
  const queries = useQueryClient();
  const { name, done } = words[operation];
  const act = useMutation({
    mutationFn: async () => {
      const sum: Progress = { done: 0, failed: 0, failures: [], remaining: 0 };
      let next: { after?: string; until?: string } = {};
      for (;;) {
        const path = `/v1/workflows/${workflow.id}/runs/${operation}`;
        const body = { state, ...next };
        const answer = (await api<Data<RunsAnswer>>('POST', path, { body })).data;
        sum.done += answer.done;
        sum.failed += answer.failed;
        sum.failures.push(...answer.failures);
        sum.remaining = answer.remaining;
        setProgress({ ...sum });
        if (answer.last === null || answer.remaining === 0) return sum;
        next = { after: answer.last, until: answer.until };
      }
    },
    onSettled: () => void queries.invalidateQueries({ queryKey: ['runs', workflow.id] }),
    onSuccess: ({ failed, remaining }) => {
      if (failed + remaining === 0) setOpen(false);
    },
  });
  const count = `${formatNumber(total)} ${total === 1 ? 'run' : 'runs'} in the state “${stateName(state)}”`;
  return (
    <>
      <button
        type="button"
        className="button low"
        onClick={() => {
          setProgress(undefined);
          act.reset();
          setOpen(true);
        }}
      >
        {name}
      </button>
      {progress !== undefined && !open && (
        <span role="status" className="muted">
          {formatNumber(progress.done)} {done}
        </span>
      )}
      <Confirm
        open={open}
        onClose={() => setOpen(false)}
        title={`${name}?`}
        action={name}
        otherwise={act.isSuccess ? 'Close' : operation === 'cancel' ? 'Keep them' : 'Cancel'}
        busy={act.isPending}
        onConfirm={() => act.mutate()}
      >
        {operation === 'cancel' && (
          <p>{count} end now. Effects of their finished steps stay. They can be restarted later.</p>
        )}
        {operation === 'replay' && (
          <p>
            For each of {count}, oldest first, a new run starts with the same event and the current version of
            the workflow. Every step runs again, with its effects.
          </p>
        )}
        {operation === 'restart' && (
          <p>
            For each of {count}, oldest first, a new run of the same version continues at the step where the
            run ended. The steps before it do not run again.
          </p>
        )}
        {operation !== 'cancel' && <p>Runs that were replayed or restarted already are left out.</p>}
        {progress !== undefined && (
          <div role="status">
            <p>
              {formatNumber(progress.done)} {done}
              {progress.failed > 0 && `, ${formatNumber(progress.failed)} not possible`}
              {progress.remaining > 0 && `, ${formatNumber(progress.remaining)} remain`}.
              {act.isSuccess && progress.remaining > 0 && ' Too many runs wait; try again later.'}
            </p>
            {progress.failures[0] !== undefined && <p className="muted">{progress.failures[0].message}</p>}
          </div>
        )}
        {act.error !== null && <Problem error={act.error} />}
      </Confirm>
    </>
  );
}
