import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ServiceAccount } from '#sdk';
import { api } from '~/api/client.ts';
import { useOwnerNames } from '~/api/owner-names.ts';
import type { Data } from '~/api/queries.ts';
import { useKeysAt, useServiceAccounts } from '~/api/sign-in-queries.ts';
import { useApiKeys, useSession } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { Field, fieldAttributes } from '~/parts/field.tsx';
import { KeyList } from '~/parts/key-list.tsx';
import { MakeKey } from '~/parts/make-key.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { roles } from './workspace-members.tsx';

type Role = ServiceAccount['role'];

const pathOf = (workspaceId: string) => `/v1/workspaces/${workspaceId}/service_accounts`;
const nameOf = ({ username }: ServiceAccount) => visible(shortened(username, 100));

/** Users of the workspace for programs, with their keys; for its admins. */
export function ServiceAccounts({ workspaceId }: { workspaceId: string }) {
  const accounts = useServiceAccounts(workspaceId);
  const [openId, setOpenId] = useState<string>();
  return (
    <>
      <p className="muted">
        A service account is a user of this workspace for a program. It has a role and API keys, cannot sign
        in here, and stays when the user who made it leaves.{' '}
        <a href="/docs/guides/people#service-accounts">Read more</a>
      </p>
      {accounts.error !== null && <Problem error={accounts.error} onRetry={() => void accounts.refetch()} />}
      {accounts.isPending && <Loading what="Loading service accounts" />}
      {accounts.data?.length === 0 && (
        <Empty title="No service accounts yet">
          <p>Add one for each program, such as a deployment in CI, so that you can end its access alone.</p>
        </Empty>
      )}
      {accounts.data !== undefined && accounts.data.length > 0 && (
        <ul className="rows stacked" aria-label="Service accounts">
          {accounts.data.map((account) => (
            <li key={account.id} className="card">
              <OneAccount
                account={account}
                isOpen={account.id === openId}
                onToggle={(isOpen) => {
                  if (isOpen) setOpenId(account.id);
                  else if (openId === account.id) setOpenId(undefined);
                }}
              />
            </li>
          ))}
        </ul>
      )}
      <Add workspaceId={workspaceId} onAdded={setOpenId} />
    </>
  );
}

function OneAccount({
  account,
  isOpen,
  onToggle,
}: {
  account: ServiceAccount;
  isOpen: boolean;
  onToggle: (isOpen: boolean) => void;
}) {
  const ownerName = useOwnerNames(account.workspace_id);
  const maker =
    account.created_by === null ? undefined : (ownerName(account.created_by) ?? account.created_by);
  return (
    <details open={isOpen} onToggle={(event) => onToggle(event.currentTarget.open)}>
      <summary className="break">
        <bdi>{nameOf(account)}</bdi> <span className="state off">{account.role}</span>{' '}
        {account.disabled_at !== null && <span className="state bad">disabled</span>}
      </summary>
      {isOpen && (
        <div className="opened">
          <p className="muted wrap">
            <span className="with-copy">
              <code>{account.id}</code>
              <CopyButton text={account.id} label="Copy the id of the service account" />
            </span>{' '}
            made <Ago ms={account.created_at * 1000} />
            {maker !== undefined && (
              <>
                {' '}
                by <bdi>{visible(shortened(maker, 100))}</bdi>
              </>
            )}
          </p>
          {account.disabled_at !== null && (
            <p className="note">
              The admin of this instance disabled it: its keys are refused until it is enabled.
            </p>
          )}
          <RoleOf account={account} />
          <Keys account={account} />
          <p>
            <Remove account={account} />
          </p>
        </div>
      )}
    </details>
  );
}

function RoleOf({ account }: { account: ServiceAccount }) {
  const queries = useQueryClient();
  const put = useMutation({
    mutationFn: async (role: Role) =>
      (
        await api<Data<ServiceAccount>>('PUT', `${pathOf(account.workspace_id)}/${account.id}`, {
          body: { role },
        })
      ).data,
    onSuccess: async () => {
      void queries.invalidateQueries({ queryKey: ['members', account.workspace_id] });
      await queries.invalidateQueries({ queryKey: ['service accounts', account.workspace_id] });
    },
  });
  const id = `role-${account.id}`;
  return (
    <div>
      <label className="label" htmlFor={id}>
        Role
      </label>
      <select
        id={id}
        className="select small"
        value={put.isPending ? put.variables : account.role}
        disabled={put.isPending}
        onChange={(event) => put.mutate(event.target.value as Role)}
      >
        {roles.map(({ role, may }) => (
          <option key={role} value={role}>
            {role}: {may}
          </option>
        ))}
      </select>
      {put.error !== null && <Problem error={put.error} what="The role was not changed." />}
    </div>
  );
}

function Keys({ account }: { account: ServiceAccount }) {
  const place = {
    path: `${pathOf(account.workspace_id)}/${account.id}/keys`,
    queryKey: ['service account keys', account.id],
  };
  const keys = useKeysAt(place.path, place.queryKey);
  const session = useSession();
  const own = useApiKeys();
  return (
    <>
      {keys.error !== null && <Problem error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.isPending && <Loading what="Loading its keys" />}
      {keys.data?.length === 0 && <p className="muted">It has no keys, so no program can use it.</p>}
      {keys.data !== undefined && keys.data.length > 0 && (
        <KeyList
          keys={keys.data}
          place={place}
          label={`API keys of ${nameOf(account)}`}
          mayRevoke={() => true}
        />
      )}
      {keys.data !== undefined && (
        <MakeKey
          place={place}
          maker={own.data?.find(({ id }) => id === session.data?.key_id)}
          placeholder="deploy from CI"
        />
      )}
    </>
  );
}

function Remove({ account }: { account: ServiceAccount }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `${pathOf(account.workspace_id)}/${account.id}`),
    onSuccess: () => {
      for (const key of ['service accounts', 'members'])
        void queries.invalidateQueries({ queryKey: [key, account.workspace_id] });
    },
  });
  return (
    <ConfirmButton
      name="Delete service account"
      title="Delete this service account?"
      action="Delete service account"
      change={remove}
      failure="It was not deleted."
    >
      <p>
        All keys of{' '}
        <strong>
          <bdi>{nameOf(account)}</bdi>
        </strong>{' '}
        end at once and for good. What it made stays with the workspace.
      </p>
    </ConfirmButton>
  );
}

function Add({ workspaceId, onAdded }: { workspaceId: string; onAdded: (id: string) => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('member');
  const add = useMutation({
    mutationFn: async () =>
      (
        await api<Data<ServiceAccount>>('POST', pathOf(workspaceId), {
          body: { name: name.trim(), role },
        })
      ).data,
    onSuccess: async ({ id }) => {
      setName('');
      onAdded(id);
      void queries.invalidateQueries({ queryKey: ['members', workspaceId] });
      await queries.invalidateQueries({ queryKey: ['service accounts', workspaceId] });
    },
  });
  const hint = 'Letters, digits, dot, hyphen and underscore. An ending is added, which keeps it unique.';
  return (
    <form
      className="card form"
      aria-labelledby="add-service-account"
      onSubmit={(event) => {
        event.preventDefault();
        add.mutate();
      }}
    >
      <h2 id="add-service-account">Add a service account</h2>
      <Field id="service-account-name" name="Name" hint={hint}>
        <input
          {...fieldAttributes({ id: 'service-account-name', hint })}
          className="input"
          required
          maxLength={50}
          autoComplete="off"
          spellCheck={false}
          placeholder="deploy-bot"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </Field>
      <fieldset className="field">
        <legend className="label">Role</legend>
        {roles.map((one) => (
          <label key={one.role} className="pick">
            <input
              type="radio"
              name="service-account-role"
              value={one.role}
              checked={role === one.role}
              onChange={() => setRole(one.role)}
            />
            <span>
              {one.role} <span className="muted">{one.may}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {add.error !== null && <Problem error={add.error} what="The service account was not added." />}
      <button type="submit" className="button primary" disabled={add.isPending || name.trim() === ''}>
        {add.isPending ? 'Adding …' : 'Add'}
      </button>
    </form>
  );
}
