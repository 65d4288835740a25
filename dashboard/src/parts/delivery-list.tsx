import { useState } from 'react';
import type { Delivery } from '#sdk';
import { useNameOf } from '~/api/queries.ts';
import type { useDeliveries } from '~/api/webhook-queries.ts';
import { Ago } from './ago.tsx';
import { DeliveryDetail } from './delivery-detail.tsx';
import { deliveryReason, toneOf } from './delivery-words.ts';
import { formatNumber } from './format.ts';
import { Empty, Loading } from './page.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { VirtualList } from './virtual-list.tsx';

/** Deliveries, newest first; the chosen one is shown beside them. */
export function DeliveryList({
  deliveries,
  mayWrite,
  empty,
  showListener = false,
}: {
  deliveries: ReturnType<typeof useDeliveries>;
  mayWrite: boolean;
  empty: { title: string; text: string };
  showListener?: boolean;
}) {
  const [chosenId, setChosenId] = useState<string>();
  const rows = deliveries.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = deliveries.data?.pages[0]?.page_info.total_count ?? rows.length;
  return (
    <>
      {deliveries.error !== null && (
        <Problem error={deliveries.error} onRetry={() => void deliveries.refetch()} />
      )}
      {deliveries.isPending && <Loading what="Loading deliveries" />}
      {deliveries.data !== undefined && rows.length === 0 && (
        <Empty title={empty.title}>
          <p>{empty.text}</p>
        </Empty>
      )}
      {(rows.length > 0 || chosenId !== undefined) && (
        <div className={chosenId === undefined ? 'split' : 'split two'}>
          {rows.length > 0 && (
            <VirtualList
              label="Deliveries"
              rows={rows}
              total={total}
              needMore={() => {
                if (deliveries.hasNextPage && !deliveries.isFetchingNextPage) void deliveries.fetchNextPage();
              }}
            >
              {(delivery) => (
                <DeliveryRow
                  delivery={delivery}
                  chosen={delivery.id === chosenId}
                  showListener={showListener}
                  onChoose={() => setChosenId(delivery.id)}
                />
              )}
            </VirtualList>
          )}
          {chosenId !== undefined && (
            <DeliveryDetail
              key={chosenId}
              id={chosenId}
              mayWrite={mayWrite}
              onClose={() => setChosenId(undefined)}
            />
          )}
        </div>
      )}
      {rows.length > 0 && (
        <p className="muted">
          {formatNumber(total)} {total === 1 ? 'delivery' : 'deliveries'}, newest first.
        </p>
      )}
    </>
  );
}

function DeliveryRow({
  delivery,
  chosen,
  showListener,
  onChoose,
}: {
  delivery: Delivery;
  chosen: boolean;
  showListener: boolean;
  onChoose: () => void;
}) {
  const last = delivery.attempts.at(-1);
  const told =
    delivery.reason !== null
      ? (deliveryReason(delivery.reason) ?? oneLine(delivery.reason, 100))
      : last === undefined
        ? 'not tried yet'
        : last.status === undefined
          ? oneLine(last.error ?? 'no answer', 100)
          : `answered ${last.status}`;
  return (
    <button
      type="button"
      className={chosen ? 'row delivery chosen' : 'row delivery'}
      aria-pressed={chosen}
      onClick={onChoose}
    >
      <span className={toneOf(delivery.state)}>{visible(shortened(delivery.state, 30))}</span>
      <span className="row-main">
        <span className="cut">
          {told}
          {delivery.attempt_count > 1 && `, ${delivery.attempt_count} attempts`}
        </span>
        <bdi className="muted cut">
          {showListener && (
            <>
              to <EndName id={delivery.listener_id} />{' '}
            </>
          )}
          from <EndName id={delivery.emitter_id} />
          {delivery.event_name === '' ? '' : ` ${oneLine(delivery.event_name, 60)}`}
        </bdi>
      </span>
      <span className="muted row-side">
        <Ago ms={delivery.created_at * 1000} />
      </span>
    </button>
  );
}

function EndName({ id }: { id: string }) {
  return oneLine(useNameOf(id) ?? id, 80);
}
