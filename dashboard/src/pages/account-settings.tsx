import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { Account, App } from '#sdk';
import { fetchAudit, useAccountUses } from '~/api/account-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { AppFields, fieldProblem, fieldsOf } from '~/parts/app-fields.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { ConnectWindow } from '~/parts/connect-window.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** What may be changed by who connected it, and by admins. */
export function AccountSettings({
  account,
  app,
  mayChange,
}: {
  account: Account;
  /** undefined: the catalogue does not have it. */
  app: App | undefined;
  mayChange: boolean;
}) {
  return (
    <>
      {account.authorized_scopes !== null && (
        <section className="card" aria-labelledby="scopes">
          <h2 id="scopes">What it may do there</h2>
          <p className="break">
            <bdi>{oneLine(account.authorized_scopes.join(' ') || 'no scopes', 2_000)}</bdi>
          </p>
        </section>
      )}
      {!mayChange && (
        <p className="muted">
          Only who connected it, while they are a member of its workspace, and admins of the workspace may
          change this account or see its audit.
        </p>
      )}
      {mayChange && (
        <>
          <Rename account={account} />
          {app?.oauth !== undefined && app.oauth !== null && app.oauth.grant !== 'client_credentials' && (
            <Reconnect account={account} />
          )}
          {app?.auth_type === 'keys' && fieldsOf(app).length > 0 && <Replace account={account} app={app} />}
          <Remove account={account} />
        </>
      )}
    </>
  );
}

/** For `onSuccess` of requests that return the changed account. */
export function useAccountChanged(id: string) {
  const queries = useQueryClient();
  return (changed: Account) => {
    queries.setQueryData(['account', id], changed);
    for (const key of ['accounts', 'account audit', 'overview'])
      void queries.invalidateQueries({ queryKey: [key] });
  };
}

function Rename({ account }: { account: Account }) {
  const [name, setName] = useState(account.name ?? '');
  const change = useMutation({
    mutationFn: async () =>
      (await api<Data<Account>>('PUT', `/v1/accounts/${account.id}`, { body: { name: name.trim() || null } }))
        .data,
    onSuccess: useAccountChanged(account.id),
  });
  const isNew = name.trim() !== (account.name ?? '');
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isNew) change.mutate();
      }}
    >
      <h2>Name</h2>
      <div className="field inline">
        <input
          className="input"
          aria-label="Name of the account"
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <button type="submit" className="button" disabled={!isNew || change.isPending}>
          {change.isPending ? 'Saving …' : 'Save'}
        </button>
      </div>
      {change.error !== null && <Problem error={change.error} />}
    </form>
  );
}

function Reconnect({ account }: { account: Account }) {
  const changed = useAccountChanged(account.id);
  const [isDone, setIsDone] = useState(false);
  const test = useMutation({
    mutationFn: async () => (await api<Data<Account>>('POST', `/v1/accounts/${account.id}/test`)).data,
    onSuccess: changed,
    onError: async () => changed((await api<Data<Account>>('GET', `/v1/accounts/${account.id}`)).data),
  });
  return (
    <section className="card" aria-labelledby="reconnect">
      <h2 id="reconnect">Connect again</h2>
      <p className="muted">
        The same person signs in at the provider again. The account keeps its id, and all sources and
        workflows use the new grant.
      </p>
      <ConnectWindow
        label="Connect again"
        body={{ account_id: account.id }}
        marks={async () =>
          (await fetchAudit(account.id)).data
            .filter(({ action }) => action === 'reconnected')
            .map(({ id }) => ({ id, accountId: account.id }))
        }
        onDone={() => {
          setIsDone(true);
          test.mutate();
        }}
      />
      {isDone && (
        <p className="good" role="status">
          It was connected again.
        </p>
      )}
    </section>
  );
}

function Replace({ account, app }: { account: Account; app: App }) {
  const fields = fieldsOf(app);
  const empty = Object.fromEntries(fields.map((field) => [field.name, field.default ?? '']));
  const [values, setValues] = useState(empty);
  const changed = useAccountChanged(account.id);
  const replace = useMutation({
    mutationFn: async () => {
      const credentials = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));
      const { data } = await api<Data<Account>>('PUT', `/v1/accounts/${account.id}`, {
        body: { credentials },
      });
      return api<Data<Account>>('POST', `/v1/accounts/${account.id}/test`)
        .then((tested) => tested.data)
        .catch(() => data);
    },
    // It holds what was typed.
    gcTime: 0,
    onSuccess: (account) => {
      setValues(empty);
      changed(account);
    },
  });
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        replace.mutate();
      }}
    >
      <h2>Give it other keys</h2>
      <p className="muted">
        Enter all of them again: what is there now is not shown, and is replaced. It keeps its id and all that
        uses it.
      </p>
      <AppFields fields={fields} values={values} onChange={setValues} error={replace.error} />
      {replace.error !== null && fieldProblem(replace.error) === undefined && (
        <Problem error={replace.error} what="The keys were not replaced." />
      )}
      <button type="submit" className="button" disabled={replace.isPending}>
        {replace.isPending ? 'Replacing and testing …' : 'Replace the keys'}
      </button>
      {replace.isSuccess && (
        <p role="status" className={replace.data.error === null ? 'good' : 'muted'}>
          {replace.data.error === null ? 'Replaced.' : 'Replaced: the result of its test is above.'}
        </p>
      )}
    </form>
  );
}

function Remove({ account }: { account: Account }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const uses = useAccountUses(account.id);
  const list = [...(uses.data?.sources ?? []), ...(uses.data?.workflows ?? [])];
  const more = (uses.data?.more.sources ?? 0) + (uses.data?.more.workflows ?? 0);
  const count = list.length + more;
  const isUsed = count > 0;
  const remove = useMutation({
    mutationFn: () =>
      api<void>('DELETE', `/v1/accounts/${account.id}`, { query: { force: isUsed || undefined } }),
    onSuccess: () => {
      navigate('/accounts');
      queries.removeQueries({ queryKey: ['account', account.id] });
      for (const key of ['accounts', 'overview']) void queries.invalidateQueries({ queryKey: [key] });
    },
    // What uses it may have changed since it was shown.
    onError: () => void uses.refetch(),
  });
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Delete</h2>
      <p className="muted">
        This cannot be undone. The grant of an OAuth account is also revoked at its provider.
      </p>
      <ConfirmButton
        name="Delete account"
        disabled={uses.data === undefined}
        title="Delete this account?"
        action={isUsed ? 'Delete it all the same' : 'Delete account'}
        change={remove}
        failure="It was not deleted."
      >
        <p>Its credentials are removed, and this cannot be undone.</p>
        {isUsed ? (
          <>
            <p>
              {count}{' '}
              {count === 1
                ? 'source or workflow uses it, and its'
                : 'sources and workflows use it, and their'}{' '}
              next runs end with an error:
            </p>
            <ul>
              {list.slice(0, 5).map(({ id, name }) => (
                <li key={id}>
                  <bdi>{visible(shortened(name, 60))}</bdi> <code>{id}</code>
                </li>
              ))}
            </ul>
            {count > Math.min(5, list.length) && <p>and {count - Math.min(5, list.length)} more.</p>}
          </>
        ) : (
          <p>Nothing uses it.</p>
        )}
      </ConfirmButton>
    </section>
  );
}
