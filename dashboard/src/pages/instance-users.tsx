import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type CreateUserAnswer, MillraceError } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useUsers } from '~/api/workspace-queries.ts';
import { formatNumber } from '~/parts/format.ts';
import { Icon } from '~/parts/icon.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SecretOnce } from '~/parts/secret-once.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import { VirtualList } from '~/parts/virtual-list.tsx';
import { UserDetail } from './user-detail.tsx';

/** All users, and a form to add one. */
export function InstanceUsers() {
  const [words, setWords] = useState('');
  const users = useUsers(useSettled(words));
  const rows = users.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = users.data?.pages[0]?.page_info.total_count ?? 0;
  const [chosen, setChosen] = useState<string>();
  const detail = rows.find(({ id }) => id === chosen);
  return (
    <>
      <Create />
      <div className="tools">
        <div className="search grow">
          <Icon name="search" />
          <input
            className="input"
            type="search"
            aria-label="Search users"
            placeholder="Name, e-mail address or id"
            maxLength={200}
            value={words}
            onChange={(event) => setWords(event.target.value)}
          />
        </div>
        {users.data !== undefined && (
          <span className="muted" role="status">
            {formatNumber(total)} {total === 1 ? 'user' : 'users'}
          </span>
        )}
      </div>
      {users.error !== null && <Problem error={users.error} onRetry={() => void users.refetch()} />}
      {users.isPending && <Loading what="Loading users" />}
      {users.data !== undefined && rows.length === 0 && <p>No user has this name.</p>}
      {rows.length > 0 && (
        <div className={detail === undefined ? 'split' : 'split two'}>
          <VirtualList
            label="Users"
            rows={rows}
            total={total}
            needMore={() => {
              if (users.hasNextPage && !users.isFetchingNextPage) void users.fetchNextPage();
            }}
          >
            {(user) => (
              <button
                type="button"
                className={user.id === chosen ? 'row chosen' : 'row'}
                aria-expanded={user.id === chosen}
                onClick={() => setChosen(user.id === chosen ? undefined : user.id)}
              >
                <span className="row-main">
                  <bdi className="cut row-name">{visible(shortened(user.username, 100))}</bdi>
                  <bdi className="muted cut">
                    {/* The address of a service account is made up. */}
                    {user.kind === 'service' ? 'service account' : visible(shortened(user.email, 200))}
                  </bdi>
                </span>
                {user.is_admin && <span className="state busy">admin</span>}
                {user.disabled_at !== null && <span className="state bad">disabled</span>}
              </button>
            )}
          </VirtualList>
          {detail !== undefined && <UserDetail key={detail.id} user={detail} />}
        </div>
      )}
    </>
  );
}

function Create() {
  const [username, setUsername] = useState('');
  const [email, setEmail] = useState('');
  const [made, setMade] = useState<{ username: string; secret: string }>();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: async () =>
      (
        await api<Data<CreateUserAnswer>>('POST', '/v1/users', {
          body: { username: username.trim(), email: email.trim() },
        })
      ).data,
    // What is no longer looked at forgets the key.
    gcTime: 0,
    onSuccess: (user) => {
      setMade({ username: user.username, secret: user.api_key });
      setUsername('');
      setEmail('');
      void queries.invalidateQueries({ queryKey: ['users'] });
    },
  });
  const parameter = create.error instanceof MillraceError ? create.error.details.parameter : undefined;
  const problemOf = (field: 'username' | 'email') =>
    parameter === field ? visible(create.error?.message ?? '') : undefined;
  if (made !== undefined) {
    const { origin } = window.location;
    return (
      <>
        <SecretOnce
          secret={made.secret}
          name="API key"
          title={`The first key of ${visible(shortened(made.username, 100))}`}
        >
          <strong>The key is shown only once.</strong> Send it in a safe way: with it the user signs in at{' '}
          <code className="break">{origin}</code>, and makes keys of their own.
        </SecretOnce>
        <p>
          <button
            type="button"
            className="button"
            onClick={() => {
              setMade(undefined);
              create.reset();
            }}
          >
            I have kept it
          </button>
        </p>
      </>
    );
  }
  return (
    <details className="card">
      <summary>New user</summary>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <Field
          id="username"
          label="User name"
          value={username}
          onChange={setUsername}
          problem={problemOf('username')}
        />
        <Field
          id="email"
          label="E-mail address"
          value={email}
          onChange={setEmail}
          problem={problemOf('email')}
        />
        {create.error !== null && parameter !== 'username' && parameter !== 'email' && (
          <Problem error={create.error} what="The user was not made." />
        )}
        <button
          type="submit"
          className="button primary"
          disabled={create.isPending || username.trim() === '' || email.trim() === ''}
        >
          {create.isPending ? 'Creating …' : 'Create user'}
        </button>
      </form>
    </details>
  );
}

function Field({
  id,
  label,
  value,
  onChange,
  problem,
}: {
  id: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
  problem: string | undefined;
}) {
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
      </label>
      <input
        id={id}
        className="input"
        required
        maxLength={254}
        autoComplete="off"
        spellCheck={false}
        value={value}
        aria-invalid={problem !== undefined || undefined}
        aria-describedby={problem === undefined ? undefined : `${id}-problem`}
        onChange={(event) => onChange(event.target.value)}
      />
      {problem !== undefined && (
        <p id={`${id}-problem`} className="field-problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
