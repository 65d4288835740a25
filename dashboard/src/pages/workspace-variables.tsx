import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import type { Variable } from '#sdk';
import { api } from '~/api/client.ts';
import { useMayAdminister, useMayWrite, useMembers } from '~/api/rights.ts';
import {
  useProjects,
  useVariableAudit,
  useVariables,
  type VariableScope,
  variableQuery,
} from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { Command } from '~/parts/copy.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** Environment variables of workflows: of a workspace, of one of its projects, or of a user. */
export function WorkspaceVariables({ ownerId }: { ownerId: string }) {
  const [projectId, setProjectId] = useState('');
  const projects = useProjects(ownerId);
  const isWorkspace = ownerId.startsWith('o_');
  const scope: VariableScope = { ownerId, projectId };
  return (
    <>
      <p className="muted">
        Code of workflows reads a variable as <code>process.env.NAME</code>, and a prop as{' '}
        <code>{'{{process.env.NAME}}'}</code>. The next run finds a change.
        {isWorkspace
          ? ' A variable of a project wins over one of the workspace with the same name.'
          : ' Your own workflows find these; those of a workspace find the variables of the workspace.'}
      </p>
      {projects.data !== undefined && projects.data.length > 0 && (
        <div className="tools">
          <label>
            <span className="label">Variables of</span>
            <select
              className="select"
              value={projectId}
              onChange={(event) => setProjectId(event.target.value)}
            >
              <option value="">the workspace</option>
              {projects.data.map(({ id, name }) => (
                <option key={id} value={id}>
                  project {visible(shortened(name, 60))}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <VariablesOf key={projectId} scope={scope} />
    </>
  );
}

function VariablesOf({ scope }: { scope: VariableScope }) {
  const variables = useVariables(scope);
  const mayWrite = useMayWrite(scope.ownerId) === true;
  const isAdmin = useMayAdminister(scope.ownerId) === true;
  return (
    <>
      {variables.error !== null && (
        <Problem error={variables.error} onRetry={() => void variables.refetch()} />
      )}
      {variables.isPending && <Loading what="Loading variables" />}
      {variables.data?.length === 0 && (
        <Empty title="No variables yet">
          {mayWrite ? (
            <>
              <p>Set one below, or those of a file on the command line:</p>
              <Command text={importCommand(scope)} label="Command that imports a .env file" />
            </>
          ) : (
            <p>A member of the workspace can set them.</p>
          )}
        </Empty>
      )}
      {variables.data !== undefined && variables.data.length > 0 && (
        <ul className="rows stacked" aria-label="Variables">
          {variables.data.map((variable) => (
            <li key={variable.name} className="card">
              <OneVariable variable={variable} scope={scope} mayWrite={mayWrite} />
            </li>
          ))}
        </ul>
      )}
      {mayWrite && <Create scope={scope} />}
      {isAdmin && <Audit scope={scope} />}
    </>
  );
}

function importCommand({ ownerId, projectId }: VariableScope): string {
  const workspace = ownerId.startsWith('o_') ? ` --workspace ${ownerId}` : '';
  return `millrace env import .env${workspace}${projectId === '' ? '' : ` --project ${projectId}`}`;
}

function OneVariable({
  variable,
  scope,
  mayWrite,
}: {
  variable: Variable;
  scope: VariableScope;
  mayWrite: boolean;
}) {
  const [open, setOpen] = useState(false);
  const { name, value, secret, description } = variable;
  const shown = secret ? 'secret' : value === null ? 'value not shown' : visible(shortened(value, 120));
  const head = (
    <>
      <strong className="mono">{name}</strong>{' '}
      {secret || value === null ? (
        <span className="state">{shown}</span>
      ) : (
        <bdi className="muted mono">{shown === '' ? '(empty)' : shown}</bdi>
      )}{' '}
      {description !== '' && <bdi className="muted">{visible(shortened(description, 200))}</bdi>}
    </>
  );
  if (!mayWrite) return <p className="break">{head}</p>;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="break">{head}</summary>
      {open && (
        <div className="opened">
          <p className="muted">
            Changed <Ago ms={Date.parse(variable.updated_at)} />
          </p>
          {/* Made again after each change, so that typed values are not kept. */}
          <Change key={variable.updated_at} variable={variable} scope={scope} />
          <Remove name={name} scope={scope} />
        </div>
      )}
    </details>
  );
}

interface Typed {
  value: string;
  secret: boolean;
  description: string;
}

function useChanged(scope: VariableScope) {
  const queries = useQueryClient();
  return () => {
    for (const key of ['variables', 'variable audit'])
      void queries.invalidateQueries({ queryKey: [key, scope.ownerId] });
  };
}

function put(scope: VariableScope, name: string, body: Partial<Typed>) {
  return api<{ data: Variable }>('PUT', `/v1/variables/${encodeURIComponent(name)}`, {
    query: variableQuery(scope),
    body,
  });
}

function Change({ variable, scope }: { variable: Variable; scope: VariableScope }) {
  const before: Typed = {
    value: variable.value ?? '',
    secret: variable.secret,
    description: variable.description,
  };
  const [typed, setTyped] = useState(before);
  const changed = useChanged(scope);
  const keepsValue = variable.value === null ? typed.value === '' : typed.value === before.value;
  const save = useMutation({
    mutationFn: () =>
      put(scope, variable.name, {
        ...(keepsValue ? {} : { value: typed.value }),
        ...(typed.secret === before.secret ? {} : { secret: typed.secret }),
        ...(typed.description === before.description ? {} : { description: typed.description }),
      }),
    // It holds what was typed.
    gcTime: 0,
    onSuccess: changed,
  });
  const isSame = keepsValue && typed.secret === before.secret && typed.description === before.description;
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Fields typed={typed} onChange={setTyped} keeps={variable.secret} />
      {save.error !== null && <Problem error={save.error} what="The variable was not changed." />}
      <button type="submit" className="button" disabled={isSame || save.isPending}>
        {save.isPending ? 'Saving …' : 'Save'}
      </button>
    </form>
  );
}

function Fields({
  typed,
  onChange,
  keeps = false,
}: {
  typed: Typed;
  onChange: (typed: Typed) => void;
  /** An empty field keeps the stored secret value. */
  keeps?: boolean;
}) {
  const id = useId();
  const common = {
    id: `${id}value`,
    className: 'input mono',
    spellCheck: false,
    value: typed.value,
    onChange: (event: { target: { value: string } }) => onChange({ ...typed, value: event.target.value }),
  };
  return (
    <>
      <div className="field">
        <label className="label" htmlFor={`${id}value`}>
          Value
        </label>
        {keeps && <p className="hint">The present value is not shown. Leave this empty to keep it.</p>}
        {typed.secret ? (
          <input type="password" autoComplete="new-password" {...common} />
        ) : (
          <textarea rows={2} autoComplete="off" {...common} />
        )}
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={typed.secret}
          onChange={(event) => onChange({ ...typed, secret: event.target.checked })}
        />
        Secret: never shown again, and replaced by [redacted] in runs
      </label>
      <div className="field">
        <label className="label" htmlFor={`${id}description`}>
          Description <span className="muted">(optional)</span>
        </label>
        <input
          id={`${id}description`}
          className="input"
          maxLength={500}
          value={typed.description}
          onChange={(event) => onChange({ ...typed, description: event.target.value })}
        />
      </div>
    </>
  );
}

const nothing: Typed = { value: '', secret: false, description: '' };

function Create({ scope }: { scope: VariableScope }) {
  const [name, setName] = useState('');
  const [typed, setTyped] = useState(nothing);
  const changed = useChanged(scope);
  const create = useMutation({
    mutationFn: () => put(scope, name.trim(), typed),
    gcTime: 0,
    onSuccess: () => {
      setName('');
      setTyped(nothing);
      changed();
    },
  });
  return (
    <form
      className="card form"
      aria-labelledby="new-variable"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <h2 id="new-variable">New variable</h2>
      <div className="field">
        <label className="label" htmlFor="variable-name">
          Name
        </label>
        <input
          id="variable-name"
          className="input mono"
          required
          maxLength={256}
          pattern="[A-Za-z_][A-Za-z0-9_]*"
          title="Letters, digits and underscores, not a digit first"
          autoComplete="off"
          spellCheck={false}
          placeholder="API_KEY"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <Fields typed={typed} onChange={setTyped} />
      {create.error !== null && <Problem error={create.error} what="The variable was not set." />}
      <button type="submit" className="button primary" disabled={create.isPending || name.trim() === ''}>
        {create.isPending ? 'Setting …' : 'Set variable'}
      </button>
    </form>
  );
}

function Remove({ name, scope }: { name: string; scope: VariableScope }) {
  const changed = useChanged(scope);
  const remove = useMutation({
    mutationFn: () =>
      api<void>('DELETE', `/v1/variables/${encodeURIComponent(name)}`, { query: variableQuery(scope) }),
    onSuccess: changed,
  });
  return (
    <div>
      <ConfirmButton
        name="Delete variable"
        title="Delete this variable?"
        change={remove}
        failure="It was not deleted."
      >
        <p>
          <strong className="mono">{name}</strong> is not set from the next run on. Steps whose required props
          name it fail.
        </p>
      </ConfirmButton>
    </div>
  );
}

const actionWords: Readonly<Record<string, string>> = {
  created: 'set',
  updated: 'changed',
  deleted: 'deleted',
};

function Audit({ scope }: { scope: VariableScope }) {
  const [open, setOpen] = useState(false);
  const audit = useVariableAudit(scope, open);
  const members = useMembers(scope.ownerId);
  const nameOf = (id: string) => {
    const member = members.data?.find(({ user_id }) => user_id === id);
    return member === undefined ? visible(id) : visible(shortened(member.username, 100));
  };
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Who changed variables</summary>
      {open && audit.error !== null && <Problem error={audit.error} onRetry={() => void audit.refetch()} />}
      {open && audit.isPending && <Loading what="Loading the audit log" />}
      {open && audit.data?.data.length === 0 && <p className="muted">Nothing is recorded yet.</p>}
      {open && audit.data !== undefined && audit.data.data.length > 0 && (
        <ul className="rows card flush" aria-label="Changes of variables">
          {audit.data.data.map((entry) => (
            <li key={entry.id} className="row plain">
              <span className="row-main">
                <span className="cut">
                  <bdi className="row-name">{nameOf(entry.user_id)}</bdi>{' '}
                  {actionWords[entry.action] ?? visible(entry.action)} <code>{visible(entry.name)}</code>
                </span>
                <span className="muted cut">with {visible(entry.key_id)}</span>
              </span>
              <span className="muted row-side">
                <Ago ms={Date.parse(entry.created_at)} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}
