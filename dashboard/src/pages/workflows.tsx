import { Link } from 'wouter';
import type { WorkflowSummary } from '#sdk';
import { useMayWrite } from '~/api/rights.ts';
import { useWorkflows } from '~/api/workflow-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge, isTroubled } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import { ListFilterFields, NoneFits, useListFilter } from '~/parts/list-filter.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReadMore } from '~/parts/read-more.tsx';
import { RunState } from '~/parts/run-state.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';

export function Workflows() {
  const { ownerId } = useOwner();
  const filter = useListFilter('/workflows');
  const workflows = useWorkflows(ownerId, filter.asked, filter.health);
  const mayWrite = useMayWrite(ownerId) === true;
  const total = workflows.data?.pages[0]?.page_info.total_count ?? 0;
  const rows = workflows.data?.pages.flatMap(({ data }) => data) ?? [];

  return (
    <PageFrame
      title="Workflows"
      lead={
        workflows.data !== undefined && (
          <p className="muted">
            {formatNumber(total)} {filter.isSet ? 'found' : 'in all'}
          </p>
        )
      }
      actions={
        mayWrite && (
          <>
            <Link href="/imports" className="button">
              Import
            </Link>
            <Link href="/workflows/new" className="button primary">
              <Icon name="plus" size={16} /> New workflow
            </Link>
          </>
        )
      }
    >
      {(total > 0 || filter.isSet) && <ListFilterFields filter={filter} search="Search by name or id" />}
      {workflows.error !== null && (
        <Problem error={workflows.error} onRetry={() => void workflows.refetch()} />
      )}
      {workflows.isPending && <Loading />}
      {workflows.data !== undefined &&
        rows.length === 0 &&
        (filter.isSet ? <NoneFits filter={filter} things="workflows" /> : <NoWorkflows ownerId={ownerId} />)}
      {rows.length > 0 && (
        <VirtualList
          rows={rows}
          total={total}
          rowPx={60}
          label="Workflows"
          needMore={() => {
            if (workflows.hasNextPage && !workflows.isFetchingNextPage) void workflows.fetchNextPage();
          }}
        >
          {(workflow) => <WorkflowRow workflow={workflow} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

function WorkflowRow({ workflow: { id, name, health, last_run } }: { workflow: WorkflowSummary }) {
  return (
    <Link href={`/workflows/${id}`} className="row">
      <HealthBadge health={health} />
      <span className="row-main">
        <bdi className="cut row-name">{visible(shortened(name, 200))}</bdi>
        <span className="muted cut">
          <code>{id}</code>
          {isTroubled(health.state) && health.reason !== null && (
            <>
              {' '}
              · <bdi>{oneLine(health.reason, 200)}</bdi>
            </>
          )}
        </span>
      </span>
      {last_run === null ? (
        <span className="muted row-side">never ran</span>
      ) : (
        <>
          <span className="muted row-side">
            last run <Ago ms={Date.parse(last_run.created_at)} />
          </span>
          <RunState state={last_run.state} />
        </>
      )}
    </Link>
  );
}

function NoWorkflows({ ownerId }: { ownerId: string }) {
  const mayWrite = useMayWrite(ownerId);
  if (mayWrite !== true) {
    return (
      <Empty title="No workflows yet">
        <p>New workflows of this workspace appear here.</p>
      </Empty>
    );
  }
  const body = {
    ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
    settings: { name: 'hello', auto_deploy: true },
    triggers: [{ type: 'http' }],
    steps: [
      {
        namespace: 'greet',
        code: 'export default defineComponent({ run({ steps }) { return "Hello " + steps.trigger.event.body.name; } })',
      },
    ],
  };
  return (
    <Empty title="No workflows yet">
      <p>
        A workflow runs steps, one after the other, for each event that triggers it: a request to its
        endpoint, a timer, a mail, or an event of a source. <Link href="/workflows/new">Create one here</Link>
        , from one of ten examples if you like, <Link href="/imports">import them from Pipedream</Link>, or
        create one with an endpoint from a terminal:
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/workflows -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '${JSON.stringify(body)}'`}
      />
      <ReadMore page="guides/workflows">Write a workflow</ReadMore>
    </Empty>
  );
}
