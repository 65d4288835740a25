import { Link } from 'wouter';
import type { Source } from '#sdk';
import { useSources } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { Ago } from '~/parts/ago.tsx';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge, HealthReason } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import { ListFilterFields, NoneFits, useListFilter } from '~/parts/list-filter.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReadMore } from '~/parts/read-more.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';

const rowPx = 60;

export function Sources() {
  const { ownerId } = useOwner();
  const filter = useListFilter('/sources');
  const sources = useSources(ownerId, filter.asked, filter.health);
  const mayWrite = useMayWrite(ownerId);
  const total = sources.data?.pages[0]?.page_info.total_count ?? 0;
  const rows = sources.data?.pages.flatMap(({ data }) => data) ?? [];

  return (
    <PageFrame
      title="Sources"
      lead={
        sources.data !== undefined && (
          <p className="muted">
            {formatNumber(total)} {filter.isSet ? 'found' : 'in all'}
          </p>
        )
      }
      actions={
        mayWrite === true && (
          <Link href="/sources/new" className="button primary">
            <Icon name="plus" />
            New source
          </Link>
        )
      }
    >
      {(total > 0 || filter.isSet) && (
        <ListFilterFields filter={filter} search="Search by name, slug or id" />
      )}
      {sources.error !== null && <Problem error={sources.error} onRetry={() => void sources.refetch()} />}
      {sources.isPending && <Loading />}
      {sources.data !== undefined &&
        rows.length === 0 &&
        (filter.isSet ? <NoneFits filter={filter} things="sources" /> : <NoSources ownerId={ownerId} />)}
      {rows.length > 0 && (
        <VirtualList
          rows={rows}
          total={total}
          rowPx={rowPx}
          label="Sources"
          needMore={() => {
            if (sources.hasNextPage && !sources.isFetchingNextPage) void sources.fetchNextPage();
          }}
        >
          {(source) => <SourceRow source={source} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

function SourceRow({ source }: { source: Source }) {
  return (
    <Link href={`/sources/${source.id}`} className="row">
      <HealthBadge health={source.health} />
      <span className="row-main">
        <bdi className="cut row-name">{visible(shortened(source.name, 200))}</bdi>
        <code className="muted cut">{source.id}</code>
      </span>
      <span className="muted row-side">
        {source.health.state === 'failing' ? (
          <HealthReason health={source.health} characters={60} />
        ) : (
          <>
            changed <Ago ms={source.updated_at * 1000} />
          </>
        )}
      </span>
    </Link>
  );
}

function NoSources({ ownerId }: { ownerId: string }) {
  const owner = ownerId.startsWith('o_') ? `, "org_id": "${ownerId}"` : '';
  return (
    <Empty title="No sources yet">
      <p>
        A source is a component that runs on a timer, for each request to its endpoint, or for events of an
        app. <Link href="/sources/new">Choose a component</Link>, or create one from a terminal:
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/sources/ -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"key": "http-new-requests-payload-only", "name": "inbox"${owner}}'`}
      />
      <ReadMore page="guides/sources">Write a source</ReadMore>
    </Empty>
  );
}
