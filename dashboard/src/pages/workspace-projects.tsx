import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { Project } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useProjects, useWorkflowsOfProject } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** Projects group workflows of a workspace. */
export function WorkspaceProjects({ workspaceId }: { workspaceId: string }) {
  const projects = useProjects(workspaceId);
  const mayWrite = useMayWrite(workspaceId) === true;
  return (
    <>
      {projects.error !== null && <Problem error={projects.error} onRetry={() => void projects.refetch()} />}
      {projects.isPending && <Loading what="Loading projects" />}
      {projects.data?.length === 0 && (
        <Empty title="No projects yet">
          <p>
            A project groups workflows of the workspace.{' '}
            {mayWrite
              ? 'Make one here, then say project_id when you make a workflow.'
              : 'A member of the workspace can make one.'}
          </p>
        </Empty>
      )}
      {projects.data !== undefined && projects.data.length > 0 && (
        <ul className="rows stacked" aria-label="Projects">
          {projects.data.map((project) => (
            <li key={project.id} className="card">
              <OneProject project={project} mayWrite={mayWrite} />
            </li>
          ))}
        </ul>
      )}
      {mayWrite && <Create workspaceId={workspaceId} />}
    </>
  );
}

function OneProject({ project, mayWrite }: { project: Project; mayWrite: boolean }) {
  const [open, setOpen] = useState(false);
  const workflows = useWorkflowsOfProject(project.id, open);
  const total = workflows.data?.page_info.total_count ?? 0;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="break">
        <bdi>{visible(shortened(project.name, 200))}</bdi>{' '}
        <span className="muted">
          made <Ago ms={Date.parse(project.created_at)} />
        </span>
      </summary>
      {open && (
        <div className="opened">
          <p className="with-copy">
            <code>{project.id}</code>
            <CopyButton text={project.id} label="Copy the id of the project" />
          </p>
          {workflows.error !== null && (
            <Problem error={workflows.error} onRetry={() => void workflows.refetch()} />
          )}
          {workflows.isPending && <Loading what="Loading its workflows" />}
          {workflows.data !== undefined && total === 0 && <p className="muted">It has no workflows.</p>}
          {workflows.data !== undefined && total > 0 && (
            <>
              <h3>
                {formatNumber(total)} {total === 1 ? 'workflow' : 'workflows'}
              </h3>
              <ul aria-label="Workflows of the project">
                {workflows.data.data.map(({ id, name, active }) => (
                  <li key={id} className="break">
                    <Link href={`/workflows/${id}`}>
                      <bdi>{visible(shortened(name, 200))}</bdi>
                    </Link>
                    {!active && <span className="muted"> (inactive)</span>}
                  </li>
                ))}
              </ul>
              {total > workflows.data.data.length && (
                <p className="muted">The newest {workflows.data.data.length} are shown.</p>
              )}
            </>
          )}
          {mayWrite && <Rename project={project} />}
          {mayWrite && workflows.data !== undefined && <Remove project={project} isEmpty={total === 0} />}
        </div>
      )}
    </details>
  );
}

function Rename({ project }: { project: Project }) {
  const [name, setName] = useState(project.name);
  const queries = useQueryClient();
  const rename = useMutation({
    mutationFn: async () =>
      (await api<Data<Project>>('PUT', `/v1/projects/${project.id}`, { body: { name: name.trim() } })).data,
    onSuccess: (changed) => {
      setName(changed.name);
      void queries.invalidateQueries({ queryKey: ['projects', project.org_id] });
    },
  });
  const isNew = name.trim() !== project.name && name.trim() !== '';
  return (
    <form
      className="tools narrow"
      onSubmit={(event) => {
        event.preventDefault();
        rename.mutate();
      }}
    >
      <label className="grow">
        <span className="label">Name</span>
        <input
          className="input"
          required
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <button type="submit" className="button low" disabled={!isNew || rename.isPending}>
        {rename.isPending ? 'Saving …' : 'Rename'}
      </button>
      {rename.error !== null && <Problem error={rename.error} what="It keeps its name." />}
    </form>
  );
}

function Remove({ project, isEmpty }: { project: Project; isEmpty: boolean }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/projects/${project.id}`),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['projects', project.org_id] }),
  });
  if (!isEmpty)
    return <p className="muted">Only an empty project can be deleted: delete its workflows first.</p>;
  return (
    <div>
      <ConfirmButton
        name="Delete project"
        title="Delete this project?"
        change={remove}
        failure="It is still there."
      >
        <p>
          <strong>
            <bdi>{visible(shortened(project.name, 200))}</bdi>
          </strong>{' '}
          has no workflows. Its id, which scripts may name, is not given again.
        </p>
      </ConfirmButton>
    </div>
  );
}

function Create({ workspaceId }: { workspaceId: string }) {
  const [name, setName] = useState('');
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => api('POST', `/v1/workspaces/${workspaceId}/projects`, { body: { name: name.trim() } }),
    onSuccess: () => {
      setName('');
      void queries.invalidateQueries({ queryKey: ['projects', workspaceId] });
    },
  });
  return (
    <form
      className="card form"
      aria-labelledby="new-project"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <h2 id="new-project">New project</h2>
      <div className="field">
        <label className="label" htmlFor="project-name">
          Name
        </label>
        <input
          id="project-name"
          className="input"
          required
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      {create.error !== null && <Problem error={create.error} what="The project was not made." />}
      <button type="submit" className="button primary" disabled={create.isPending || name.trim() === ''}>
        {create.isPending ? 'Creating …' : 'Create project'}
      </button>
    </form>
  );
}
