import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { type Account, type AppSummary, MillraceError } from '#sdk';
import { fetchAccounts, useApp, useApps } from '~/api/account-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { AppFields, fieldProblem, fieldsOf } from '~/parts/app-fields.tsx';
import { ConnectWindow } from '~/parts/connect-window.tsx';
import { MarkedWords } from '~/parts/marked-text.tsx';
import { plainWords } from '~/parts/marks.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import { UncataloguedApp } from './uncatalogued-app.tsx';

export function NewAccountPage() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  const slug = new URLSearchParams(useSearch()).get('app') ?? '';
  const app = useApp(slug, ownerId);
  const isUnknown = app.error instanceof MillraceError && app.error.status === 404;
  return (
    <PageFrame title="Connect an account">
      {mayWrite === undefined && <Loading />}
      {mayWrite === false && (
        <Empty title="You can look at this workspace, and not change it">
          <p>Ask one of its admins for the role of a member, or choose My own under Showing.</p>
        </Empty>
      )}
      {mayWrite === true && slug === '' && <Choose ownerId={ownerId} />}
      {mayWrite === true && slug !== '' && (
        <>
          {app.isPending && <Loading />}
          {isUnknown && <UncataloguedApp key={`${slug} ${ownerId}`} slug={slug} ownerId={ownerId} />}
          {app.error !== null && !isUnknown && (
            <Problem error={app.error} onRetry={() => void app.refetch()} />
          )}
          {app.data !== undefined && (
            <Connect key={`${app.data.id} ${ownerId}`} app={app.data} ownerId={ownerId} />
          )}
          <p>
            <Link href="/accounts/new">Choose another app</Link>
          </p>
        </>
      )}
    </PageFrame>
  );
}

function Choose({ ownerId }: { ownerId: string }) {
  const [words, setWords] = useState('');
  const apps = useApps(useSettled(words.trim()), ownerId);
  const found = apps.data?.pages.flatMap(({ data }) => data).filter(({ auth_type }) => auth_type !== 'none');
  return (
    <section className="card" aria-label="Apps">
      <input
        className="input"
        type="search"
        aria-label="Search for an app"
        placeholder="Search for an app"
        maxLength={200}
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {apps.error !== null && <Problem error={apps.error} onRetry={() => void apps.refetch()} />}
      {apps.isPending && <Loading />}
      <ul className="choices">
        {found?.map((app) => (
          <li key={app.id}>
            <Link href={`/accounts/new?app=${encodeURIComponent(app.name_slug)}`} className="choice-row">
              <strong>
                <bdi>{visible(shortened(app.name, 100))}</bdi>
              </strong>{' '}
              <span className="muted">{app.auth_type === 'oauth' ? 'OAuth' : 'keys'}</span>
              <span className="choice-text">{visible(shortened(plainWords(app.description), 200))}</span>
            </Link>
          </li>
        ))}
      </ul>
      {apps.hasNextPage && (
        <button
          type="button"
          className="button"
          disabled={apps.isFetchingNextPage}
          onClick={() => void apps.fetchNextPage()}
        >
          More
        </button>
      )}
      {found?.length === 0 && (
        <p className="muted">
          No app of the catalogue fits.{' '}
          {/^[a-z0-9_-]+$/.test(words.trim()) && (
            <Link href={`/accounts/new?app=${encodeURIComponent(words.trim())}`}>
              Connect an account of {visible(words.trim())}
            </Link>
          )}
        </p>
      )}
    </section>
  );
}

function Connect({ app, ownerId }: { app: AppSummary; ownerId: string }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const fields = fieldsOf(app);
  const [name, setName] = useState('');
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.default ?? ''])),
  );
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));
  const owner = ownerId.startsWith('o_') ? { org_id: ownerId } : {};
  const isByWindow = app.oauth !== null && app.oauth.grant !== 'client_credentials';
  const done = (id: string) => {
    void queries.invalidateQueries({ queryKey: ['accounts'] });
    navigate(`/accounts/${id}`);
  };
  const create = useMutation({
    mutationFn: async () => {
      const { data } = await api<Data<Account>>('POST', '/v1/accounts', {
        body: { app: app.name_slug, name: name.trim() || null, credentials: given, ...owner },
      });
      // The page of the account shows its health, even if the test cannot be requested now.
      return api<Data<Account>>('POST', `/v1/accounts/${data.id}/test`)
        .then((tested) => tested.data)
        .catch(() => data);
    },
    // It holds what was typed.
    gcTime: 0,
    onSuccess: (account) => {
      queries.setQueryData(['account', account.id], account);
      done(account.id);
    },
  });
  const noClient = create.error instanceof MillraceError && create.error.code === 'oauth_client_missing';
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isByWindow) create.mutate();
      }}
    >
      <h2>
        <bdi>{visible(shortened(app.name, 100))}</bdi>
      </h2>
      <p className="muted pre-line">
        <MarkedWords text={app.description} max={500} />
      </p>
      <div className="field">
        <label className="label" htmlFor="account-name">
          Name <span className="muted">(optional)</span>
        </label>
        <input
          id="account-name"
          className="input"
          maxLength={200}
          autoComplete="off"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      {!isByWindow && <AppFields fields={fields} values={values} onChange={setValues} error={create.error} />}
      {create.error !== null && fieldProblem(create.error) === undefined && (
        <Problem error={create.error} what="The account was not connected." />
      )}
      {isByWindow ? (
        <ConnectWindow
          label={`Connect at ${visible(shortened(app.name, 60))}`}
          body={{ app: app.name_slug, name: name.trim() || null, ...owner }}
          marks={async () =>
            (await fetchAccounts(ownerId, { app: app.name_slug })).data.map(({ id }) => ({
              id,
              accountId: id,
            }))
          }
          onDone={done}
        />
      ) : (
        <button type="submit" className="button primary" disabled={create.isPending}>
          {create.isPending ? 'Connecting and testing …' : 'Connect'}
        </button>
      )}
      {app.oauth !== null && (
        <p className={noClient ? 'note' : 'hint below'}>
          It takes an OAuth client of {ownerId.startsWith('o_') ? 'the workspace' : 'yours'} at{' '}
          <bdi>{visible(shortened(app.name, 60))}</bdi>:{' '}
          <Link href={`/apps/${encodeURIComponent(app.name_slug)}`}>see whether there is one</Link>.
        </p>
      )}
    </form>
  );
}
