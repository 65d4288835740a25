import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Workspace } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { DeleteOwner } from '~/parts/delete-owner.tsx';
import { Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { WorkspaceRetentionForm } from './workspace-retention.tsx';

/** Name and address of a workspace, for its admins. */
export function WorkspaceSettings({ workspaceId }: { workspaceId: string }) {
  const workspace = useQuery({
    queryKey: ['workspace', workspaceId],
    queryFn: async ({ signal }) =>
      (await api<Data<Workspace>>('GET', `/v1/workspaces/${workspaceId}`, { signal })).data,
  });
  if (workspace.data === undefined) {
    return workspace.error === null ? (
      <Loading />
    ) : (
      <Problem error={workspace.error} onRetry={() => void workspace.refetch()} />
    );
  }
  return (
    <>
      <Change workspace={workspace.data} />
      <WorkspaceRetentionForm workspaceId={workspaceId} />
      <DangerZone workspace={workspace.data} />
    </>
  );
}

function DangerZone({ workspace }: { workspace: Workspace }) {
  return (
    <section className="card" aria-labelledby="danger">
      <h2 id="danger">Danger zone</h2>
      <p className="muted">
        Access, endpoints, timers and runs end at once, and all data is removed.{' '}
        <a href="/docs/guides/retention#delete-a-workspace">What goes, and when</a>
      </p>
      <DeleteOwner
        what="workspace"
        path={`/v1/workspaces/${workspace.id}`}
        field="orgname"
        name={workspace.orgname}
        text="Everything in this workspace is removed, for all its members."
        // Everything that is remembered may be of the workspace.
        onDeleted={() => window.location.assign('/')}
      />
    </section>
  );
}

function Change({ workspace }: { workspace: Workspace }) {
  const queries = useQueryClient();
  const [name, setName] = useState(workspace.name);
  const [email, setEmail] = useState(workspace.email);
  const change = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Workspace>>('PUT', `/v1/workspaces/${workspace.id}`, {
          body: { name: name.trim(), email: email.trim() },
        })
      ).data,
    onSuccess: (changed) => {
      queries.setQueryData(['workspace', workspace.id], changed);
      setName(changed.name);
      setEmail(changed.email);
      void queries.invalidateQueries({ queryKey: ['me'] });
    },
  });
  const isNew = name.trim() !== workspace.name || email.trim() !== workspace.email;
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <h2>Name and address</h2>
      <div className="field">
        <label className="label" htmlFor="workspace-name">
          Name
        </label>
        <input
          id="workspace-name"
          className="input"
          required
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <div className="field">
        <label className="label" htmlFor="workspace-email">
          E-mail address
        </label>
        <input
          id="workspace-email"
          className="input"
          required
          type="email"
          maxLength={254}
          value={email}
          onChange={(event) => setEmail(event.target.value)}
        />
      </div>
      <p className="muted">
        Its short name <code>{workspace.orgname}</code> and its id <code>{workspace.id}</code> stay as they
        are.
      </p>
      {change.error !== null && <Problem error={change.error} what="Nothing was changed." />}
      {change.isSuccess && !isNew && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      <button
        type="submit"
        className="button"
        disabled={!isNew || change.isPending || name.trim() === '' || email.trim() === ''}
      >
        {change.isPending ? 'Saving …' : 'Save'}
      </button>
    </form>
  );
}
