import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { useLocation } from 'wouter';
import type { Run, RunDetail, Workflow, WorkflowStep } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { isOver } from '~/api/workflow-queries.ts';
import { stepsToRestartFrom } from '~/editing/run-tree.ts';
import { Confirm } from '~/parts/confirm.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** What can be done with a run now, each with what it means before it is done. */
export function RunActions({
  run,
  steps,
  version,
  workflow,
}: {
  run: RunDetail;
  /** The steps of the version that was run; undefined while they are not known. */
  steps: readonly WorkflowStep[] | undefined;
  version: number | undefined;
  workflow: Workflow | undefined;
}) {
  const restartable = steps === undefined ? [] : stepsToRestartFrom(run, steps);
  return (
    <>
      {!isOver(run) && (
        <Action run={run} operation="cancel" name="Cancel run" title="Cancel this run?">
          <p>The run ends now. Effects of its finished steps stay.</p>
          <p>You can restart it later from one of its steps.</p>
        </Action>
      )}
      {isOver(run) && restartable.length > 0 && (
        <Restart run={run} from={restartable} version={version} workflow={workflow} />
      )}
      <ReplayRun run={run} workflow={workflow} />
      <KeepEvent run={run} />
    </>
  );
}

function ReplayRun({ run, workflow }: { run: RunDetail; workflow: Workflow | undefined }) {
  const edit = useEditedEvent(run);
  return (
    <Action
      run={run}
      operation="replay"
      name="Replay"
      title="Run all of it again?"
      body={edit.body}
      isReady={edit.isGood}
    >
      <p>
        A new run starts with the current version of the workflow
        {workflow !== undefined && workflow.deployment_id === run.deployment_id && ', as this run did'}. Every
        step runs again, with its effects. This run stays as it is.
      </p>
      {edit.field}
    </Action>
  );
}

/** Keeps the event of the run with its workflow. */
function KeepEvent({ run }: { run: RunDetail }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  const queries = useQueryClient();
  const keep = useMutation({
    mutationFn: async () =>
      api('PUT', `/v1/workflows/${run.workflow_id}/test_events/${encodeURIComponent(name.trim())}`, {
        body: { run_id: run.id },
      }),
    onSuccess: () => {
      setOpen(false);
      void queries.invalidateQueries({ queryKey: ['test-events', run.workflow_id] });
    },
  });
  return (
    <>
      <button
        type="button"
        className="button"
        onClick={() => {
          keep.reset();
          setOpen(true);
        }}
      >
        Keep event
      </button>
      {keep.isSuccess && (
        <span role="status" className="good">
          Kept.
        </span>
      )}
      <Confirm
        open={open}
        onClose={() => setOpen(false)}
        title="Keep the event of this run?"
        action="Keep event"
        busy={keep.isPending}
        isReady={name.trim() !== ''}
        onConfirm={() => keep.mutate()}
      >
        <p>
          It becomes a test event of the workflow: steps are tested with it in the editor, and the workflow
          runs with it from the tab Test events. One of the same name is replaced.
        </p>
        <label className="label" htmlFor={id}>
          Name
        </label>
        <input
          id={id}
          className="input"
          maxLength={100}
          placeholder="a large order"
          value={name}
          onChange={({ target: { value } }) => setName(value)}
        />
        {keep.error !== null && <Problem error={keep.error} />}
      </Confirm>
    </>
  );
}

/** The event of the run, which may be changed for the next one. */
function useEditedEvent(run: RunDetail) {
  const id = useId();
  const before = JSON.stringify(run.event, null, 2);
  const [text, setText] = useState(before);
  const event = parsed(text);
  const field = (
    <details>
      <summary>With another event</summary>
      <label className="label" htmlFor={id}>
        Event, as JSON
      </label>
      <textarea
        id={id}
        className="input code"
        rows={10}
        spellCheck={false}
        value={text}
        onChange={({ target: { value } }) => setText(value)}
      />
      {event === undefined && <p className="bad">This is not JSON.</p>}
    </details>
  );
  return { field, isGood: event !== undefined, body: text === before ? {} : { event: event?.value } };
}

function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function Restart({
  run,
  from,
  version,
  workflow,
}: {
  run: RunDetail;
  from: readonly string[];
  version: number | undefined;
  workflow: Workflow | undefined;
}) {
  const atFault = from.find((namespace) => namespace === run.error?.namespace);
  const usual = run.state === 'succeeded' ? from[0] : (atFault ?? from.at(-1));
  const [chosen, setChosen] = useState(usual ?? '');
  const step = from.includes(chosen) ? chosen : (usual ?? '');
  const edit = useEditedEvent(run);
  return (
    <Action
      run={run}
      operation="restart"
      name="Restart"
      title="Restart this run?"
      body={{ from_step: step, ...edit.body }}
      isReady={edit.isGood}
      isPrimary={run.state !== 'succeeded'}
    >
      <label>
        <span className="label">From step</span>
        <select className="select" value={step} onChange={(event) => setChosen(event.target.value)}>
          {from.map((namespace) => (
            <option key={namespace} value={namespace}>
              {visible(namespace)}
            </option>
          ))}
        </select>
      </label>
      <p>
        A new run begins with the same version
        {version === undefined ? '' : ` (${version})`}. <strong>{visible(step)}</strong> and the steps after
        it run, and do again what they may have done already; those before it do not run: what they exported
        is taken over. This run stays as it is.
      </p>
      {edit.field}
      {workflow !== undefined && workflow.deployment_id !== run.deployment_id && (
        <p className="note">
          The workflow has a newer version. If that version fixes the failure, use Replay instead.
        </p>
      )}
      {run.state === 'quarantined' && (
        <p className="note">
          It is in quarantine since its process went down again and again; it may do so once more.
        </p>
      )}
    </Action>
  );
}

function Action({
  run,
  operation,
  name,
  title,
  body,
  isPrimary = false,
  isReady = true,
  children,
}: {
  run: RunDetail;
  operation: 'cancel' | 'restart' | 'replay';
  name: string;
  title: string;
  body?: unknown;
  isPrimary?: boolean;
  /** False: what was entered has a mistake. */
  isReady?: boolean;
  children: ReactNode;
}) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: async () =>
      (await api<Data<Run>>('POST', `/v1/runs/${run.id}/${operation}`, body === undefined ? {} : { body }))
        .data,
    onSuccess: ({ id }) => {
      void queries.invalidateQueries({ queryKey: ['runs', run.workflow_id] });
      if (id === run.id) void queries.invalidateQueries({ queryKey: ['run', id] });
      else navigate(`/runs/${id}`);
    },
    // It may have ended meanwhile: then other actions are possible.
    onError: () => void queries.invalidateQueries({ queryKey: ['run', run.id] }),
  });
  return (
    <ConfirmButton
      name={name}
      look={isPrimary ? 'button primary' : 'button'}
      title={title}
      otherwise={operation === 'cancel' ? 'Keep it running' : 'Cancel'}
      isReady={isReady}
      change={act}
    >
      {children}
    </ConfirmButton>
  );
}
