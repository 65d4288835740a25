import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useParams } from 'wouter';
import type { Import, ImportedWorkflow, UndoneImport, Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import { isUnderWay, useActivity, useImport } from '~/api/import-queries.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { formatNumber } from '~/parts/format.ts';
import { ImportQuestions } from '~/parts/import-questions/import-questions.tsx';
import { type ChosenAccounts, questionsOfImport } from '~/parts/import-questions/question.ts';
import {
  ImportCounts,
  ImportedObjects,
  ImportedWorkflows,
  NeededForAll,
  NewAddresses,
} from '~/parts/import-report.tsx';
import { ImportState } from '~/parts/import-state.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

export function ImportPage() {
  const { id = '' } = useParams();
  const query = useImport(id);
  return (
    <LoadedPage query={query} title={`Import ${id}`} list={{ href: '/imports', name: 'All imports' }}>
      {(one) => <OneImport key={id} one={one} />}
    </LoadedPage>
  );
}

function OneImport({ one }: { one: Import }) {
  const { id, state, error, report, progress, kept, owner_id: ownerId, created_at } = one;
  const mayWrite = useMayWrite(ownerId) === true;
  const underWay = isUnderWay(one);
  const ids = report.workflows.flatMap(({ workflow_id }) => (workflow_id === null ? [] : [workflow_id]));
  const activity = useActivity(ownerId, ids, !underWay && ids.length > 0);
  const [undone, setUndone] = useState<UndoneImport>();
  return (
    <PageFrame
      title={`Import of ${new Date(created_at).toLocaleString()}`}
      lead={
        <p className="muted facts">
          <ImportState state={state} />
          <span>
            started <Ago ms={Date.parse(created_at)} />
          </span>
          <code>{id}</code>
        </p>
      }
      actions={
        mayWrite &&
        !underWay && (
          <>
            {activity.data !== undefined && <ActivateReady one={one} active={activity.data} />}
            {state !== 'undone' && <Undo one={one} onUndone={setUndone} />}
          </>
        )
      }
    >
      {underWay && <Progress {...progress} />}
      {state === 'asking' && <Asking one={one} mayWrite={mayWrite} />}
      {state === 'failed' && (
        <div className="problem" role="alert">
          <div>
            <strong>The import failed.</strong>
            <p className="break">{visible(shortened(error ?? '', 2_000))}</p>
            <p>What it had made stays. Import again, or undo it.</p>
          </div>
        </div>
      )}
      {undone !== undefined && <Undone undone={undone} workflows={report.workflows} />}
      {state === 'undone' && undone === undefined && (
        <div className="note">
          <p>This import was undone. Below is what it had done.{kept.length > 0 && ' Left as they are:'}</p>
          <KeptObjects kept={kept} workflows={report.workflows} />
        </div>
      )}
      {((!underWay && state !== 'asking') || report.workflows.length > 0) && (
        <section className="card" aria-label="Counts">
          <ImportCounts report={report} isPlan={false} />
        </section>
      )}
      {report.workflows.length + report.problems.length > 0 && (
        <ImportedWorkflows
          report={report}
          isPlan={false}
          active={activity.data ?? (state === 'undone' ? new Map() : undefined)}
        />
      )}
      <ImportedObjects report={report} isPlan={false} />
      {!underWay && state !== 'asking' && state !== 'undone' && (
        <>
          <NewAddresses report={report} />
          <NeededForAll report={report} />
        </>
      )}
    </PageFrame>
  );
}

/** An import that waits for answers, which the program that started it gives, or a user here. */
function Asking({ one, mayWrite }: { one: Import; mayWrite: boolean }) {
  const { id, owner_id: ownerId, project_id: projectId } = one;
  const queries = useQueryClient();
  const [accounts, setAccounts] = useState<ChosenAccounts>({});
  // What was answered is not asked again when the page is refreshed.
  const [questions] = useState(() => questionsOfImport(one.questions));
  const answer = useMutation({
    mutationFn: async () =>
      (await api<Data<Import>>('POST', `/v1/imports/${id}/answers`, { body: { accounts } })).data,
    onSuccess: (answered) => queries.setQueryData(['import', id], answered),
  });
  return (
    <>
      <div className="note">
        <p>
          This import waits for answers. It ends 24 hours after it was started if none come, and nothing of it
          stays.
        </p>
      </div>
      {mayWrite && (
        <ImportQuestions
          questions={questions}
          scope={{ ownerId, projectId: projectId ?? '' }}
          accounts={accounts}
          onAccounts={setAccounts}
          use={{
            ...{ mutate: () => answer.mutate(), isPending: answer.isPending, error: answer.error },
            ...{ name: 'Import with these answers', busyName: 'Starting …' },
            failure: 'The import was not started.',
          }}
        />
      )}
    </>
  );
}

function Progress({ done, total }: Import['progress']) {
  const text = `${formatNumber(done)} of ${formatNumber(total)} imported`;
  return (
    <section className="card" aria-label="Progress">
      <p role="status">{text} …</p>
      <progress className="import-progress" aria-label={text} value={done} max={Math.max(1, total)} />
      <p className="muted">The import continues when you leave this page.</p>
    </section>
  );
}

/** Ready: exists here, inactive, was active there, and needs nothing by hand. */
function readyOf({ report }: Import, active: ReadonlyMap<string, boolean | undefined>): ImportedWorkflow[] {
  return report.workflows.filter(
    ({ status, was_active, workflow_id }) =>
      status !== 'by_hand' && was_active && workflow_id !== null && active.get(workflow_id) === false,
  );
}

function ActivateReady({ one, active }: { one: Import; active: ReadonlyMap<string, boolean | undefined> }) {
  const [open, setOpen] = useState(false);
  const queries = useQueryClient();
  const ready = readyOf(one, active);
  const activate = useMutation({
    mutationFn: async () => {
      // One after the other: each deploys its sources and may run code.
      for (const { workflow_id } of ready)
        await api<Data<Workflow>>('PUT', `/v1/workflows/${workflow_id}`, { body: { active: true } });
    },
    onSuccess: () => setOpen(false),
    onSettled: () => {
      for (const key of ['workflow activity', 'workflows', 'workflow'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  if (ready.length === 0 && !open) return null;
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>
        Activate all that are ready
      </button>
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          activate.reset();
        }}
        title={`Activate ${ready.length === 1 ? '1 workflow' : `${formatNumber(ready.length)} workflows`}?`}
        action="Activate"
        look="button primary"
        busy={activate.isPending}
        isReady={ready.length > 0}
        onConfirm={() => activate.mutate()}
      >
        <p>None of them needs anything by hand. Workflows that were inactive on Pipedream stay inactive.</p>
        <ul className="findings">
          {ready.map(({ old_id, name, status }) => (
            <li key={old_id}>
              <bdi>{visible(shortened(name, 100))}</bdi>
              {status === 'check' && <span className="muted"> · has findings to check</span>}
            </li>
          ))}
        </ul>
        {activate.error !== null && <Problem error={activate.error} what="Not all of them were activated." />}
      </Confirm>
    </>
  );
}

function Undo({ one: { id }, onUndone }: { one: Import; onUndone: (undone: UndoneImport) => void }) {
  const queries = useQueryClient();
  const undo = useMutation({
    mutationFn: async () => (await api<Data<UndoneImport>>('POST', `/v1/imports/${id}/undo`)).data,
    onSuccess: (undone) => {
      onUndone(undone);
      for (const key of ['import', 'imports', 'workflow activity', 'workflows', 'variables'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <ConfirmButton
      name="Undo import"
      title="Undo this import?"
      change={undo}
      failure="The import was not undone."
    >
      <p>
        The workflows, sources, webhooks, subscriptions, data stores and variables that it made are deleted,
        with the runs and addresses of the workflows.
      </p>
      <p>
        What was changed or used since stays: workflows that were deployed, renamed or activated, data stores
        with entries, variables with another value. Workflows that the import updated stay as they are.
      </p>
    </ConfirmButton>
  );
}

function Undone({
  undone: { removed, kept },
  workflows,
}: {
  undone: UndoneImport;
  workflows: readonly ImportedWorkflow[];
}) {
  return (
    <div className="note" role="status">
      <p>
        Undone: {removed === 1 ? '1 object was' : `${formatNumber(removed)} objects were`} removed
        {kept.length === 0 ? '.' : `, and ${formatNumber(kept.length)} left as they are:`}
      </p>
      <KeptObjects kept={kept} workflows={workflows} />
    </div>
  );
}

function KeptObjects({ kept, workflows }: Pick<Import, 'kept'> & { workflows: readonly ImportedWorkflow[] }) {
  if (kept.length === 0) return null;
  const names = new Map(workflows.map(({ workflow_id, name }) => [workflow_id, name]));
  return (
    <ul className="findings">
      {kept.map(({ kind, id, reason }) => (
        <li key={`${kind} ${id}`}>
          {kind.replace('_', ' ')} <bdi>{visible(shortened(names.get(id) ?? id, 100))}</bdi>:{' '}
          {visible(reason)}
        </li>
      ))}
    </ul>
  );
}
