import { useMutation } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Account } from '#sdk';
import {
  useAccount,
  useAccountAudit,
  useAccountRights,
  useAccountUses,
  useApp,
} from '~/api/account-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { lifeOf } from '~/parts/account-life.tsx';
import { Ago } from '~/parts/ago.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { HealthBadge } from '~/parts/health.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { OwnerLabel } from '~/parts/owner-label.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { AccountSettings, useAccountChanged } from './account-settings.tsx';

export function AccountPage({ id }: { id: string }) {
  const account = useAccount(id);
  return (
    <LoadedPage query={account} title={`Account ${id}`} list={{ href: '/accounts', name: 'All accounts' }}>
      {(data) => <Details account={data} />}
    </LoadedPage>
  );
}

function Details({ account }: { account: Account }) {
  const { mayUse, mayChange } = useAccountRights(account);
  const app = useApp(account.app.name_slug, account.owner_id);
  const life = lifeOf(account);
  const times = [
    ['tested', account.checked_at],
    ['refreshed', account.last_refreshed_at],
    ['connected', account.created_at],
  ] as const;
  return (
    <PageFrame
      title={account.name || account.app.name}
      lead={
        <p className="muted facts">
          <HealthBadge health={account.health} />
          <span className="with-copy">
            <code>{account.id}</code>
            <CopyButton text={account.id} label="Copy the id" />
          </span>
          {app.data === undefined ? (
            <bdi>{visible(shortened(account.app.name, 100))}</bdi>
          ) : (
            <Link href={`/apps/${encodeURIComponent(account.app.name_slug)}`}>
              <bdi>{visible(shortened(account.app.name, 100))}</bdi>
            </Link>
          )}
          {times.map(
            ([what, at]) =>
              at !== null && (
                <span key={what}>
                  {what} <Ago ms={Date.parse(at)} />
                </span>
              ),
          )}
          {life !== undefined && <span>{life}</span>}
        </p>
      }
    >
      {account.error !== null && (
        <Problem
          error={account.error}
          what={
            account.dead
              ? 'The provider refused it for good: connect it again, under Settings.'
              : account.health.state === 'failing'
                ? 'It does not work.'
                : 'The last test or refresh could not be done.'
          }
        />
      )}
      {mayUse && !account.dead && <TestNow account={account} />}
      <PageTabs
        className="tabbed"
        href={`/accounts/${account.id}`}
        tabs={[
          { id: 'uses', name: 'What uses it', content: <Uses account={account} /> },
          ...(mayChange
            ? [
                {
                  id: 'audit',
                  name: 'Audit log',
                  content: <Audit id={account.id} ownerId={account.owner_id} />,
                },
              ]
            : []),
          {
            id: 'settings',
            name: 'Settings',
            content: <AccountSettings account={account} app={app.data} mayChange={mayChange} />,
          },
        ]}
      />
    </PageFrame>
  );
}

function TestNow({ account }: { account: Account }) {
  const test = useMutation({
    mutationFn: async () => (await api<Data<Account>>('POST', `/v1/accounts/${account.id}/test`)).data,
    onSuccess: useAccountChanged(account.id),
  });
  return (
    <div className="tools">
      <button type="button" className="button" disabled={test.isPending} onClick={() => test.mutate()}>
        {test.isPending ? 'Testing …' : 'Test now'}
      </button>
      {test.isSuccess && (
        <span role="status">
          {test.data.checked_at === null
            ? 'This app has no test request.'
            : test.data.error === null
              ? 'Tested: it works.'
              : 'Tested: the result is above.'}
        </span>
      )}
      {test.error !== null && <Problem error={test.error} what="It was not tested." />}
    </div>
  );
}

const usesShown = 30;

function Uses({ account }: { account: Account }) {
  const uses = useAccountUses(account.id);
  const list = [...(uses.data?.sources ?? []), ...(uses.data?.workflows ?? [])];
  const more = (uses.data?.more.sources ?? 0) + (uses.data?.more.workflows ?? 0);
  const used = uses.data?.used ?? [];
  return (
    <section className="card" aria-label="What uses it">
      {uses.isPending && <Loading />}
      {uses.error !== null && <Problem error={uses.error} onRetry={() => void uses.refetch()} />}
      {uses.data !== undefined && list.length + more === 0 && (
        <p className="muted">No source and no workflow does.</p>
      )}
      <ul className="plain-list" aria-label="Sources and workflows">
        {list.map(({ id, name, active }) => (
          <li key={id}>
            <bdi>{visible(shortened(name, 100))}</bdi> <End id={id} />
            {active ? '' : ' (inactive)'}
          </li>
        ))}
      </ul>
      {more > 0 && <p className="muted">And {more} more, of others or too many to list.</p>}
      {used.length > 0 && (
        <>
          <h3>When they were given its credentials</h3>
          <ul className="plain-list muted" aria-label="Days of use">
            {used.slice(0, usesShown).map((use) => (
              <li key={`${use.id} ${use.day}`}>
                {use.day} <End id={use.id} /> {use.uses} {use.uses === 1 ? 'time' : 'times'}, last{' '}
                <Ago ms={Date.parse(use.last_used_at)} />
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Audit({ id, ownerId }: { id: string; ownerId: string }) {
  const audit = useAccountAudit(id);
  return (
    <section className="card" aria-label="Audit">
      {audit.isPending && <Loading />}
      {audit.error !== null && <Problem error={audit.error} onRetry={() => void audit.refetch()} />}
      <ul className="plain-list" aria-label="What was done with it">
        {audit.data?.data.map((entry) => (
          <li key={entry.id}>
            <strong>{visible(entry.action.replaceAll('_', ' '))}</strong> by{' '}
            {entry.user_id === null ? 'the service' : <OwnerLabel id={entry.user_id} ownerId={ownerId} />}{' '}
            <span className="muted">
              <Ago ms={Date.parse(entry.created_at)} />
            </span>
            {Object.keys(entry.details).length > 0 && (
              <bdi className="muted break"> {oneLine(entry.details, 300)}</bdi>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
