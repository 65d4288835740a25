import { ownerPath } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useDeliveries } from '~/api/webhook-queries.ts';
import { DeliveryList } from '~/parts/delivery-list.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { PageFrame } from '~/parts/page.tsx';

/** The dead letters of all listeners. */
export function DeadLetters() {
  const { ownerId } = useOwner();
  const deliveries = useDeliveries(`${ownerPath(ownerId)}/dead_letters`, '');
  const mayWrite = useMayWrite(ownerId) === true;
  return (
    <PageFrame
      title="Dead letters"
      lead={
        <p className="muted">
          Deliveries that failed, each with its reason. To redeliver all of one webhook, open the page of the
          webhook.
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
          text: 'All events were delivered, or are still being tried. Failed deliveries are kept here for 30 days.',
        }}
      />
    </PageFrame>
  );
}
