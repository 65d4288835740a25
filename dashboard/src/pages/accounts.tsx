import { Link } from 'wouter';
import type { Account } from '#sdk';
import { useAccounts } from '~/api/account-queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { lifeOf } from '~/parts/account-life.tsx';
import { Ago } from '~/parts/ago.tsx';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import { ListFilterFields, NoneFits, useListFilter } from '~/parts/list-filter.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';

export function Accounts() {
  const { ownerId } = useOwner();
  const filter = useListFilter('/accounts');
  const accounts = useAccounts(ownerId, filter.health);
  const mayWrite = useMayWrite(ownerId) === true;
  const rows = accounts.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = accounts.data?.pages[0]?.page_info.total_count ?? rows.length;
  return (
    <PageFrame
      title="Accounts"
      lead={
        accounts.data !== undefined && (
          <p className="muted">
            {formatNumber(total)} {filter.isSet ? 'found' : 'in all'}
          </p>
        )
      }
      actions={
        mayWrite && (
          <Link href="/accounts/new" className="button primary">
            <Icon name="plus" />
            Connect an account
          </Link>
        )
      }
    >
      {(total > 0 || filter.isSet) && <ListFilterFields filter={filter} />}
      {accounts.error !== null && <Problem error={accounts.error} onRetry={() => void accounts.refetch()} />}
      {accounts.isPending && <Loading />}
      {accounts.data !== undefined &&
        rows.length === 0 &&
        (filter.isSet ? (
          <NoneFits filter={filter} things="accounts" />
        ) : (
          <NoAccounts ownerId={ownerId} mayWrite={mayWrite} />
        ))}
      {rows.length > 0 && (
        <VirtualList
          label="Accounts"
          rows={rows}
          total={total}
          needMore={() => {
            if (accounts.hasNextPage && !accounts.isFetchingNextPage) void accounts.fetchNextPage();
          }}
        >
          {(account) => <AccountRow account={account} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

function AccountRow({ account }: { account: Account }) {
  const { id, name, app, error, checked_at } = account;
  return (
    <Link href={`/accounts/${id}`} className="row">
      <HealthBadge health={account.health} />
      <span className="row-main">
        <bdi className="cut row-name">{visible(shortened(name || app.name, 200))}</bdi>
        <bdi className="muted cut">
          {visible(shortened(app.name, 100))}
          {error === null ? '' : `: ${oneLine(error, 200)}`}
        </bdi>
      </span>
      <span className="muted row-side">
        {lifeOf(account) ??
          (checked_at === null ? (
            'not tested'
          ) : (
            <>
              tested <Ago ms={Date.parse(checked_at)} />
            </>
          ))}
      </span>
    </Link>
  );
}

function NoAccounts({ ownerId, mayWrite }: { ownerId: string; mayWrite: boolean }) {
  const body = {
    app: 'sendgrid',
    name: 'ours',
    credentials: { api_key: '…' },
    ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
  };
  return (
    <Empty title="No accounts yet">
      <p>
        With an account, sources and workflows act for you at an app; its credentials are sealed.{' '}
        {mayWrite ? (
          <>
            <Link href="/accounts/new">Choose an app and connect one</Link>, or do it from a terminal:
          </>
        ) : (
          'A member of this workspace can connect one, here or from a terminal:'
        )}
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/accounts -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '${JSON.stringify(body)}'`}
      />
    </Empty>
  );
}
