import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { useSources } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import type { Source } from '~/api/types.ts';
import { Ago } from '~/parts/ago.tsx';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge, HealthReason } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReadMore } from '~/parts/read-more.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import { VirtualList } from '~/parts/virtual-list.tsx';

const rowPx = 60;

export function Sources() {
  const { ownerId } = useOwner();
  const [, navigate] = useLocation();
  const initial = new URLSearchParams(useSearch()).get('q') ?? '';
  const [words, setWords] = useState(initial);
  const asked = useSettled(words.trim());
  const sources = useSources(ownerId, asked);
  const mayWrite = useMayWrite(ownerId);
  const total = sources.data?.pages[0]?.page_info.total_count ?? 0;
  const rows = sources.data?.pages.flatMap(({ data }) => data) ?? [];

  const change = (text: string) => {
    setWords(text);
    navigate(text.trim() === '' ? '/sources' : `/sources?q=${encodeURIComponent(text.trim())}`, {
      replace: true,
    });
  };

  return (
    <PageFrame
      title="Sources"
      lead={
        sources.data !== undefined && (
          <p className="muted">
            {formatNumber(total)} {asked === '' ? 'in all' : 'found'}
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
      {(total > 0 || asked !== '') && (
        <div className="search">
          <Icon name="search" />
          <input
            className="input"
            type="search"
            aria-label="Search by name, slug or id"
            placeholder="Search by name, slug or id"
            value={words}
            maxLength={200}
            onChange={(event) => change(event.target.value)}
          />
        </div>
      )}
      {sources.error !== null && <Problem error={sources.error} onRetry={() => void sources.refetch()} />}
      {sources.isPending && <Loading />}
      {sources.data !== undefined &&
        rows.length === 0 &&
        (asked === '' ? <NoSources ownerId={ownerId} /> : <NoneFound words={asked} />)}
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
        A source is a component that runs: on a timer, for each request to its own address, or for events of
        an app. <Link href="/sources/new">Choose a component</Link>, or create one from a terminal:
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/sources/ -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"key": "http-new-requests-payload-only", "name": "inbox"${owner}}'`}
      />
      <ReadMore page="guides/sources">Write a source</ReadMore>
    </Empty>
  );
}

function NoneFound({ words }: { words: string }) {
  return (
    <Empty title="None of your sources is called so">
      <p>
        Nothing has “<bdi>{visible(words)}</bdi>” in its name, slug or id. Another workspace may: choose it
        under Showing.
      </p>
    </Empty>
  );
}
