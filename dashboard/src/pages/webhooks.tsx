import { Link } from 'wouter';
import type { Webhook } from '#sdk';
import { useMayWrite } from '~/api/rights.ts';
import { useWebhooks } from '~/api/webhook-queries.ts';
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

export function Webhooks() {
  const { ownerId } = useOwner();
  const filter = useListFilter('/webhooks');
  const webhooks = useWebhooks(ownerId, filter.health);
  const mayWrite = useMayWrite(ownerId) === true;
  const total = webhooks.data?.pages[0]?.page_info.total_count ?? 0;
  const rows = webhooks.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <PageFrame
      title="Webhooks"
      lead={
        webhooks.data !== undefined && (
          <p className="muted">
            {formatNumber(total)} {filter.isSet ? 'found' : 'in all'}
          </p>
        )
      }
      actions={
        <>
          <Link href="/dead-letters" className="button">
            Dead letters
          </Link>
          {mayWrite && (
            <Link href="/webhooks/new" className="button primary">
              <Icon name="plus" />
              New webhook
            </Link>
          )}
        </>
      }
    >
      {(total > 0 || filter.isSet) && <ListFilterFields filter={filter} />}
      {webhooks.error !== null && <Problem error={webhooks.error} onRetry={() => void webhooks.refetch()} />}
      {webhooks.isPending && <Loading />}
      {webhooks.data !== undefined &&
        rows.length === 0 &&
        (filter.isSet ? (
          <NoneFits filter={filter} things="webhooks" />
        ) : (
          <NoWebhooks ownerId={ownerId} mayWrite={mayWrite} />
        ))}
      {rows.length > 0 && (
        <VirtualList
          label="Webhooks"
          rows={rows}
          total={total}
          needMore={() => {
            if (webhooks.hasNextPage && !webhooks.isFetchingNextPage) void webhooks.fetchNextPage();
          }}
        >
          {(webhook) => <WebhookRow webhook={webhook} />}
        </VirtualList>
      )}
    </PageFrame>
  );
}

function WebhookRow({ webhook }: { webhook: Webhook }) {
  return (
    <Link href={`/webhooks/${webhook.id}`} className="row">
      <HealthBadge health={webhook.health} />
      <span className="row-main">
        <bdi className="cut row-name">{visible(shortened(webhook.name ?? webhook.url, 200))}</bdi>
        {webhook.name === null ? (
          <code className="muted cut">{webhook.id}</code>
        ) : (
          <bdi className="muted cut">{visible(shortened(webhook.url, 200))}</bdi>
        )}
      </span>
      <span className="muted row-side">
        {webhook.health.state !== 'failing' ? (
          <>
            changed <Ago ms={webhook.updated_at * 1000} />
          </>
        ) : (
          <HealthReason health={webhook.health} characters={60} />
        )}
      </span>
    </Link>
  );
}

function NoWebhooks({ ownerId, mayWrite }: { ownerId: string; mayWrite: boolean }) {
  const owner = ownerId.startsWith('o_') ? `, "org_id": "${ownerId}"` : '';
  return (
    <Empty title="No webhooks yet">
      <p>
        A webhook is an address outside that is sent events: each of its subscriptions says whose.{' '}
        {mayWrite ? (
          <>
            <Link href="/webhooks/new">Create one</Link>, or do it from a terminal:
          </>
        ) : (
          'A member of this workspace can create one, here or from a terminal:'
        )}
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/webhooks -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"url": "https://example.com/hook", "name": "example"${owner}}'`}
      />
      <ReadMore page="guides/webhooks">Receive webhooks</ReadMore>
    </Empty>
  );
}
