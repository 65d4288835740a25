import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { Template } from '#sdk';
import { useTemplates } from '~/api/template-queries.ts';
import { allDefinitions } from '~/editing/blocks.ts';
import { Ago } from '~/parts/ago.tsx';
import { formatNumber } from '~/parts/format.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';

export function Templates() {
  const templates = useTemplates();
  const rows = templates.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = templates.data?.pages[0]?.page_info.total_count ?? rows.length;
  return (
    <PageFrame
      title="Templates"
      lead={
        <p className="muted">
          Yours, and those of all your workspaces
          {templates.data !== undefined && `: ${formatNumber(total)}`}
        </p>
      }
    >
      <OpenById />
      {templates.error !== null && (
        <Problem error={templates.error} onRetry={() => void templates.refetch()} />
      )}
      {templates.isPending && <Loading />}
      {templates.data !== undefined && rows.length === 0 && (
        <Empty title="No templates yet">
          <p>
            A template is a workflow that others can use, without accounts and secrets. Make one of a{' '}
            <Link href="/workflows">workflow</Link>, under its settings, or open one by its id.
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <VirtualList
          label="Templates"
          rows={rows}
          total={total}
          needMore={() => {
            if (templates.hasNextPage && !templates.isFetchingNextPage) void templates.fetchNextPage();
          }}
        >
          {(template) => <TemplateRow template={template} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

/** Every user who knows the id of a template may use it. */
function OpenById() {
  const [, navigate] = useLocation();
  const [id, setId] = useState('');
  return (
    <form
      className="tools"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(`/templates/${encodeURIComponent(id.trim())}`);
      }}
    >
      <input
        className="input small"
        aria-label="Id of a template"
        placeholder="tch_…"
        required
        pattern="\s*tch_\w+\s*"
        title="tch_ and what follows"
        autoComplete="off"
        spellCheck={false}
        value={id}
        onChange={(event) => setId(event.target.value)}
      />
      <button type="submit" className="button small">
        Open by its id
      </button>
    </form>
  );
}

function TemplateRow({
  template: { id, name, steps, triggers, owner_id, created_at },
}: {
  template: Template;
}) {
  return (
    <Link href={`/templates/${id}`} className="row">
      <span className="row-main">
        <bdi className="cut row-name">{visible(shortened(name, 200))}</bdi>
        <span className="muted cut">
          {countOf(allDefinitions(steps).length, 'step')}, {countOf(triggers.length, 'trigger')},{' '}
          <OwnerName id={owner_id} />
        </span>
      </span>
      <span className="muted row-side">
        made <Ago ms={created_at * 1000} />
      </span>
    </Link>
  );
}

export function countOf(count: number, what: string): string {
  return `${formatNumber(count)} ${count === 1 ? what : `${what}s`}`;
}

export function OwnerName({ id }: { id: string | null }) {
  const { me } = useOwner();
  if (id === null) return 'another owner';
  if (id === me.id) return 'your own';
  const workspace = me.orgs?.find((one) => one.id === id);
  return <bdi>of {visible(shortened(workspace?.name ?? id, 60))}</bdi>;
}
