import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { ComponentSummary } from '#sdk';
import { type RegistryFilter, useRegistry } from '~/api/registry-queries.ts';
import { useIsInstanceAdmin } from '~/api/rights.ts';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { plainWords } from '~/parts/marks.ts';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SearchField } from '~/parts/search-field.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import { VirtualList } from '~/parts/virtual-list.tsx';
import { RegistryPackages } from './registry-packages.tsx';
import { RegistryRepositories } from './registry-repositories.tsx';

/** Components that have a key: what ships with the service, and what came with packages and Git repositories. */
export function Registry() {
  const isAdmin = useIsInstanceAdmin();
  return (
    <PageFrame
      title="Registry"
      lead={
        <p className="muted">
          Components with a key: for sources, and for steps of workflows. All users of this instance can use
          them.
        </p>
      }
    >
      {isAdmin ? (
        <PageTabs
          className="tabbed"
          href="/registry"
          tabs={[
            { id: 'components', name: 'Components', content: <Components isAdmin /> },
            { id: 'packages', name: 'Packages', content: <RegistryPackages /> },
            { id: 'repositories', name: 'Git repositories', content: <RegistryRepositories /> },
          ]}
        />
      ) : (
        <Components isAdmin={false} />
      )}
    </PageFrame>
  );
}

const types: ReadonlySet<string> = new Set(['', 'source', 'action']);

function filterIn(search: string): RegistryFilter {
  const parameters = new URLSearchParams(search);
  const type = parameters.get('type') ?? '';
  return {
    words: parameters.get('q') ?? '',
    type: types.has(type) ? (type as RegistryFilter['type']) : '',
    app: parameters.get('app') ?? '',
  };
}

function Components({ isAdmin }: { isAdmin: boolean }) {
  const [, navigate] = useLocation();
  const search = useSearch();
  const [filter, setFilter] = useState(() => filterIn(search));
  const asked = useSettled(filter);
  const found = useRegistry({ ...asked, words: asked.words.trim(), app: asked.app.trim() });
  const rows = found.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = found.data?.pages[0]?.page_info.total_count ?? rows.length;
  const change = (changes: Partial<RegistryFilter>) => {
    const next = { ...filter, ...changes };
    setFilter(next);
    const query = new URLSearchParams();
    for (const [name, value] of [
      ['q', next.words],
      ['type', next.type],
      ['app', next.app],
    ] as const)
      if (value.trim() !== '') query.set(name, value.trim());
    navigate(query.size === 0 ? '/registry' : `/registry?${query}`, { replace: true });
  };
  return (
    <>
      <div className="tools">
        <SearchField
          label="Search for a component"
          value={filter.words}
          onChange={(words) => change({ words })}
        />
        <select
          className="select small"
          aria-label="Type"
          value={filter.type}
          onChange={(event) => change({ type: event.target.value as RegistryFilter['type'] })}
        >
          <option value="">Sources and actions</option>
          <option value="source">Sources</option>
          <option value="action">Actions</option>
        </select>
        <input
          className="input small"
          aria-label="Only of this app"
          placeholder="slug of an app"
          maxLength={200}
          spellCheck={false}
          value={filter.app}
          onChange={(event) => change({ app: event.target.value })}
        />
      </div>
      {found.error !== null && <Problem error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {found.data !== undefined && (
        <p className="muted" role="status">
          {formatNumber(total)} {total === 1 ? 'component' : 'components'}
        </p>
      )}
      {found.data !== undefined && rows.length === 0 && <NoneFound isAdmin={isAdmin} />}
      {rows.length > 0 && (
        <VirtualList
          label="Components"
          rows={rows}
          total={total}
          needMore={() => {
            if (found.hasNextPage && !found.isFetchingNextPage) void found.fetchNextPage();
          }}
        >
          {(component) => <ComponentRow component={component} />}
        </VirtualList>
      )}
    </>
  );
}

function ComponentRow({ component }: { component: ComponentSummary }) {
  const { key, name, type, description, app, app_details } = component;
  return (
    <Link href={`/registry/${encodeURIComponent(key)}`} className="row">
      <span className={type === 'source' ? 'state good' : 'state off'}>{type}</span>
      <span className="row-main">
        <span className="cut">
          <bdi className="row-name">{visible(shortened(name, 200))}</bdi>{' '}
          <code className="muted">{visible(shortened(key, 200))}</code>
        </span>
        <bdi className="muted cut">{oneLine(plainWords(description), 300)}</bdi>
      </span>
      <bdi className="muted row-side">{visible(shortened(app_details?.name ?? app, 60))}</bdi>
    </Link>
  );
}

function NoneFound({ isAdmin }: { isAdmin: boolean }) {
  return (
    <Empty title="No component fits">
      <p>
        More come with npm packages.{' '}
        {isAdmin ? (
          <>
            Add one under <Link href="/registry?tab=packages">Packages</Link>, or on the machine of the
            service:
          </>
        ) : (
          'The admin of this instance adds them, here or on the machine of the service:'
        )}
      </p>
      <Command text="npm run millrace -- registry add @pipedream/slack" />
    </Empty>
  );
}
