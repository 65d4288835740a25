import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { WorkspaceRetention } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';

/** For how many days a workspace keeps what happened, for its admins. */
export function WorkspaceRetentionForm({ workspaceId }: { workspaceId: string }) {
  const retention = useQuery({
    queryKey: ['retention', workspaceId],
    queryFn: async ({ signal }) =>
      (await api<Data<WorkspaceRetention>>('GET', `/v1/workspaces/${workspaceId}/retention`, { signal }))
        .data,
  });
  if (retention.data === undefined) {
    return retention.error === null ? (
      <Loading />
    ) : (
      <Problem error={retention.error} onRetry={() => void retention.refetch()} />
    );
  }
  return <Change retention={retention.data} />;
}

const kinds = [
  { id: 'events_days', name: 'Events' },
  { id: 'runs_days', name: 'Runs' },
  { id: 'deliveries_days', name: 'Deliveries' },
  { id: 'audit_days', name: 'Audit log' },
  { id: 'files_days', name: 'Files' },
] as const;

type Kind = (typeof kinds)[number]['id'];
type Draft = Record<Kind, string>;

/** Bound of the API where the instance has none. */
const daysMax = 36_500;

function draftOf(retention: WorkspaceRetention): Draft {
  const text = (kind: Kind) => String(retention[kind] ?? '');
  return {
    events_days: text('events_days'),
    runs_days: text('runs_days'),
    deliveries_days: text('deliveries_days'),
    audit_days: text('audit_days'),
    files_days: text('files_days'),
  };
}

function Change({ retention }: { retention: WorkspaceRetention }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState(() => draftOf(retention));
  const isChanged = (kind: Kind) => draft[kind].trim() !== draftOf(retention)[kind];
  const change = useMutation({
    mutationFn: async () => {
      // Days that the admin of the instance set may be more than an admin of the workspace may set: they stay where they are not changed.
      const body = Object.fromEntries(
        kinds
          .filter(({ id }) => isChanged(id))
          .map(({ id }) => [id, draft[id].trim() === '' ? null : Number(draft[id])]),
      );
      return (
        await api<Data<WorkspaceRetention>>('PUT', `/v1/workspaces/${retention.workspace_id}/retention`, {
          body,
        })
      ).data;
    },
    onSuccess: (changed) => {
      queries.setQueryData(['retention', retention.workspace_id], changed);
      setDraft(draftOf(changed));
    },
  });
  const problemOf = (kind: Kind): string | undefined => {
    const text = draft[kind].trim();
    const most = retention.instance[kind] ?? daysMax;
    if (text === '' || !isChanged(kind)) return undefined;
    return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= most
      ? undefined
      : `Expected a number of days from 1 to ${most.toLocaleString('en')}.`;
  };
  const isNew = kinds.some(({ id }) => isChanged(id));
  const isGood = kinds.every(({ id }) => problemOf(id) === undefined);
  return (
    <form
      className="card form"
      aria-labelledby="retention"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <h2 id="retention">How long it keeps what happened</h2>
      <p className="muted">
        What is older is removed within an hour, for good.{' '}
        <a href="/docs/guides/retention">What is kept, and for how long</a>
      </p>
      {retention.legal_hold && (
        <p role="status">
          A legal hold of the admin of the instance is in effect: nothing is removed because of its age or
          number.
        </p>
      )}
      {kinds.map(({ id, name }) => {
        const problem = problemOf(id);
        const field = `retention-${id}`;
        const most = retention.instance[id];
        return (
          <div key={id} className="field">
            <label className="label" htmlFor={field}>
              {name}, in days
            </label>
            <p id={`${field}-hint`} className="hint">
              {most === null
                ? 'Leave empty to keep them whatever their age.'
                : `Leave empty for ${most} days, as the instance keeps them.`}
            </p>
            <input
              id={field}
              className="input"
              inputMode="numeric"
              autoComplete="off"
              placeholder="as the instance"
              value={draft[id]}
              aria-invalid={problem !== undefined || undefined}
              aria-describedby={problem === undefined ? `${field}-hint` : `${field}-hint ${field}-problem`}
              onChange={(event) => setDraft({ ...draft, [id]: event.target.value })}
            />
            {problem !== undefined && (
              <p id={`${field}-problem`} className="field-problem" role="alert">
                {problem}
              </p>
            )}
          </div>
        );
      })}
      {change.error !== null && <Problem error={change.error} what="Nothing was changed." />}
      {change.isSuccess && !isNew && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      <button type="submit" className="button" disabled={!isNew || !isGood || change.isPending}>
        {change.isPending ? 'Saving …' : 'Save'}
      </button>
    </form>
  );
}
