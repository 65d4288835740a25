import { ownerPath } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useDeliveries } from '~/api/webhook-queries.ts';
import { DeliveryList } from '~/parts/delivery-list.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { PageFrame } from '~/parts/page.tsx';

/** What ended undelivered, of all that listen. */
export function DeadLetters() {
  const { ownerId } = useOwner();
  const deliveries = useDeliveries(`${ownerPath(ownerId)}/dead_letters`, '');
  const mayWrite = useMayWrite(ownerId) === true;
  return (
    <PageFrame
      title="Dead letters"
      lead={
        <p className="muted">
          Events that ended undelivered, each with its reason. All those of one webhook are redelivered on its
          page.
        </p>
      }
    >
      <DeliveryList
        key={ownerId}
        deliveries={deliveries}
        mayWrite={mayWrite}
        showListener
        empty={{
          title: 'No dead letters',
          text: 'Everything that was emitted was delivered, or is still tried. What ends undelivered is kept here for 30 days.',
        }}
      />
    </PageFrame>
  );
}
