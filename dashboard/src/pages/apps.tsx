import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { AppSummary } from '#sdk';
import { useApps } from '~/api/account-queries.ts';
import { useMayAdminister } from '~/api/rights.ts';
import { formatNumber } from '~/parts/format.ts';
import { Icon } from '~/parts/icon.tsx';
import { plainWords } from '~/parts/marks.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SearchField } from '~/parts/search-field.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import { VirtualList } from '~/parts/virtual-list.tsx';

/** How accounts of an app are connected, in words. */
export const authWords = { oauth: 'OAuth', keys: 'keys', none: 'no accounts' } as const;

/** The catalogue: the apps that users can connect, custom apps among them. */
export function Apps() {
  const { ownerId } = useOwner();
  const [, navigate] = useLocation();
  const [words, setWords] = useState(new URLSearchParams(useSearch()).get('q') ?? '');
  const [withComponents, setWithComponents] = useState(false);
  const mayAdminister = useMayAdminister(ownerId) === true;
  const asked = useSettled(words.trim());
  const apps = useApps(asked, ownerId, withComponents ? { has_components: '1' } : {});
  const rows = apps.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = apps.data?.pages[0]?.page_info.total_count ?? rows.length;
  return (
    <PageFrame
      title="Apps"
      lead={
        <p className="muted">
          Apps you can connect{apps.data !== undefined && `: ${formatNumber(total)} apps`}
        </p>
      }
      actions={
        mayAdminister && (
          <Link href="/apps/new" className="button primary">
            <Icon name="plus" />
            New app
          </Link>
        )
      }
    >
      <div className="tools">
        <SearchField
          label="Search for an app"
          value={words}
          onChange={(text) => {
            setWords(text);
            navigate(text.trim() === '' ? '/apps' : `/apps?q=${encodeURIComponent(text.trim())}`, {
              replace: true,
            });
          }}
        />
        <label className="check">
          <input
            type="checkbox"
            checked={withComponents}
            onChange={(event) => setWithComponents(event.target.checked)}
          />
          Only with components in the registry
        </label>
      </div>
      {apps.error !== null && <Problem error={apps.error} onRetry={() => void apps.refetch()} />}
      {apps.isPending && <Loading />}
      {apps.data !== undefined && rows.length === 0 && (
        <Empty title="No app of the catalogue fits">
          <p>
            You can connect accounts of an app that is not in the catalogue.{' '}
            {mayAdminister && (
              <>
                To test its accounts and to get a form for them, <Link href="/apps/new">add the app</Link>.
              </>
            )}
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <VirtualList
          label="Apps"
          rows={rows}
          total={total}
          needMore={() => {
            if (apps.hasNextPage && !apps.isFetchingNextPage) void apps.fetchNextPage();
          }}
        >
          {(app) => <AppRow app={app} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

function AppRow({ app: { name_slug, name, description, auth_type, owner_id } }: { app: AppSummary }) {
  return (
    <Link href={`/apps/${name_slug}`} className="row">
      <span className="row-main">
        <span className="cut">
          <bdi className="row-name">{visible(shortened(name, 200))}</bdi>{' '}
          <code className="muted">{name_slug}</code>
        </span>
        <bdi className="muted cut">{oneLine(plainWords(description), 300)}</bdi>
      </span>
      {owner_id !== null && <span className="state good">own</span>}
      <span className="muted row-side">{authWords[auth_type]}</span>
    </Link>
  );
}
