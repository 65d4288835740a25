import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { App } from '#sdk';
import { useApp } from '~/api/account-queries.ts';
import { useAccountsOfApp, useComponentsOfApp } from '~/api/app-queries.ts';
import { api } from '~/api/client.ts';
import { useMayAdminister, useMayWrite } from '~/api/rights.ts';
import { fieldsOf } from '~/parts/app-fields.tsx';
import { ComponentLink } from '~/parts/component-link.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { Command, CopyButton } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge } from '~/parts/health.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { MarkedText, MarkedWords } from '~/parts/marked-text.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { AppClient } from './app-client.tsx';
import { authWords } from './apps.tsx';

export function AppPage({ slug }: { slug: string }) {
  const { ownerId } = useOwner();
  const app = useApp(slug, ownerId);
  return (
    <LoadedPage query={app} title={`App ${slug}`} list={{ href: '/apps', name: 'All apps' }}>
      {(data) => <Details key={ownerId} app={data} ownerId={ownerId} />}
    </LoadedPage>
  );
}

function Details({ app, ownerId }: { app: App; ownerId: string }) {
  const mayWrite = useMayWrite(ownerId) === true;
  const mayChange = useMayAdminister(app.owner_id) === true;
  const mayAdd = useMayAdminister(ownerId) === true;
  const { name_slug: slug, auth_type } = app;
  const hasAccounts = auth_type !== 'none';
  return (
    <PageFrame
      title={app.name}
      lead={
        <p className="muted facts">
          {app.owner_id !== null && <span className="state good">own</span>}
          <span className="with-copy">
            <code>{slug}</code>
            <CopyButton text={slug} label="Copy the slug" />
          </span>
          <span>
            {auth_type === 'none'
              ? 'without accounts'
              : `accounts are connected with ${authWords[auth_type]}`}
          </span>
          {app.categories.length > 0 && <bdi>{oneLine(app.categories.join(', '), 200)}</bdi>}
        </p>
      }
      actions={
        <>
          {mayChange && (
            <Link href={`/apps/${slug}/edit`} className="button">
              Change
            </Link>
          )}
          {mayAdd && !mayChange && (
            <Link href={`/apps/new?from=${slug}`} className="button">
              Duplicate as custom app
            </Link>
          )}
          {mayWrite && hasAccounts && (
            <Link href={`/accounts/new?app=${slug}`} className="button primary">
              Connect an account
            </Link>
          )}
        </>
      }
    >
      {app.description !== '' && <MarkedText text={app.description} max={2_000} />}
      <PageTabs
        className="tabbed"
        href={`/apps/${slug}`}
        tabs={[
          ...(hasAccounts
            ? [{ id: 'needs', name: 'What an account needs', content: <Needs app={app} /> }]
            : []),
          ...(app.oauth === null
            ? []
            : [{ id: 'client', name: 'OAuth client', content: <AppClient app={app} ownerId={ownerId} /> }]),
          { id: 'components', name: 'Components', content: <Components slug={slug} /> },
          ...(hasAccounts
            ? [{ id: 'accounts', name: 'Accounts', content: <Accounts slug={slug} ownerId={ownerId} /> }]
            : []),
          {
            id: 'definition',
            name: 'Definition',
            content: (
              <>
                <p className="muted">
                  As <code>POST /v1/apps</code> and files of apps have it.
                </p>
                <div className="card">
                  <JsonView value={app.definition} label="Definition" />
                </div>
                {mayChange && app.owner_id !== null && <Remove app={app} ownerId={app.owner_id} />}
              </>
            ),
          },
        ]}
      />
    </PageFrame>
  );
}

function Needs({ app }: { app: App }) {
  const fields = fieldsOf(app);
  const { oauth } = app;
  const test = app.definition.test_request as { kind?: string; url?: string } | undefined;
  return (
    <>
      {oauth !== null && (
        <section className="card endpoint" aria-labelledby="oauth">
          <h2 id="oauth">
            OAuth {oauth.version}
            {oauth.grant === 'client_credentials' ? ', as the client itself' : ''}
          </h2>
          <p>
            {oauth.grant === 'client_credentials'
              ? 'The client itself is the account.'
              : 'A user of the provider consents in a window of the provider.'}{' '}
            This needs an OAuth client. Register one at the provider, with exactly this redirect URI:
          </p>
          <Command text={oauth.redirect_uri} label="Copy the redirect URI" />
          {oauth.scopes.length > 0 && (
            <p className="break">
              Scopes: <bdi>{oneLine(oauth.scopes.join(' '), 1_000)}</bdi>
            </p>
          )}
        </section>
      )}
      {fields.length > 0 && (
        <section className="card" aria-labelledby="fields">
          <h2 id="fields">What is filled in</h2>
          <dl className="props">
            {fields.map((field) => (
              <div key={field.name}>
                <dt>
                  <bdi>{visible(shortened(field.label, 100))}</bdi> <code>{field.name}</code>
                  <span className="muted">
                    {field.secret === true ? ', secret' : ''}
                    {field.optional === true || field.default !== null ? ', optional' : ''}
                  </span>
                </dt>
                <dd className="pre-line">
                  <MarkedWords text={field.description ?? ''} max={500} />
                  {field.default !== null && (
                    <span className="muted"> Default: {oneLine(field.default, 100)}</span>
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      <p className="muted break">
        {test === undefined
          ? 'It has no test request: its accounts count as working.'
          : `Accounts are tested with ${
              test.url === undefined
                ? `a connection (${oneLine(test.kind ?? 'http', 40)})`
                : oneLine(test.url, 300)
            }.`}
      </p>
    </>
  );
}

function Components({ slug }: { slug: string }) {
  const found = useComponentsOfApp(slug);
  const total = found.data?.page_info.total_count ?? 0;
  return (
    <section className="card" aria-label="Components">
      {found.error !== null && <Problem error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {found.data?.data.length === 0 && (
        <p className="muted">
          The registry has none. They come with a package, such as{' '}
          <code>@pipedream/{slug.replaceAll('_', '-')}</code>, if there is one of that name;{' '}
          <Link href="/registry">the registry</Link> says which are there.
        </p>
      )}
      <ul className="choices">
        {found.data?.data.map((component) => (
          <li key={component.key}>
            <ComponentLink component={component} />
          </li>
        ))}
      </ul>
      {found.data !== undefined && total > found.data.data.length && (
        <p>
          <Link href={`/registry?app=${slug}`}>All {formatNumber(total)}</Link>
        </p>
      )}
    </section>
  );
}

function Accounts({ slug, ownerId }: { slug: string; ownerId: string }) {
  const accounts = useAccountsOfApp(slug, ownerId);
  const rows = accounts.data?.data ?? [];
  const total = accounts.data?.page_info.total_count ?? rows.length;
  return (
    <section className="card" aria-label="Accounts">
      {accounts.error !== null && <Problem error={accounts.error} onRetry={() => void accounts.refetch()} />}
      {accounts.isPending && <Loading />}
      {accounts.data !== undefined && rows.length === 0 && (
        <p className="muted">There is none of this app.</p>
      )}
      <ul className="plain-list">
        {rows.map((account) => (
          <li key={account.id} className="facts">
            <HealthBadge health={account.health} />
            <Link href={`/accounts/${account.id}`}>
              <bdi>{visible(shortened(account.name || account.id, 100))}</bdi>
            </Link>
          </li>
        ))}
      </ul>
      {total > rows.length && <p className="muted">And {formatNumber(total - rows.length)} more.</p>}
    </section>
  );
}

function Remove({ app, ownerId }: { app: App; ownerId: string }) {
  const [open, setOpen] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const slug = app.name_slug;
  const accounts = useAccountsOfApp(slug, ownerId);
  const count = accounts.data?.page_info.total_count ?? 0;
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/apps/${slug}`, { query: { org_id: ownerId } }),
    onSuccess: () => {
      navigate('/apps');
      queries.removeQueries({ queryKey: ['app'] });
      void queries.invalidateQueries({ queryKey: ['apps'] });
    },
    onError: () => void accounts.refetch(),
  });
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Delete</h2>
      {count > 0 ? (
        <p className="muted">
          {formatNumber(count)} {count === 1 ? 'account is' : 'accounts are'} of it: an app can be deleted
          once there are none.
        </p>
      ) : (
        <>
          <p className="muted">
            Deletes the app and its OAuth client. Its components stay. This cannot be undone.
          </p>
          <button
            type="button"
            className="button danger"
            disabled={accounts.data === undefined}
            onClick={() => setOpen(true)}
          >
            Delete app
          </button>
        </>
      )}
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          remove.reset();
        }}
        title="Delete this app?"
        action="Delete app"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
      >
        <p>
          <strong>
            <bdi>{visible(shortened(app.name, 200))}</bdi>
          </strong>{' '}
          is taken out of the catalogue, with its OAuth client. This cannot be undone.
        </p>
        {remove.error !== null && <Problem error={remove.error} what="It was not deleted." />}
      </Confirm>
    </section>
  );
}
