import type { Subscription } from '#sdk';
import { useSubscriptions } from '~/api/queries.ts';

/** Subscriptions that are named before the user deletes an end of them. */
const namesShown = 5;

/** In a dialog: the subscriptions that end when their emitter or listener is deleted. */
export function EndedSubscriptions({
  id,
  ownerId,
  none = 'It has no subscriptions.',
  nameOf,
}: {
  id: string;
  ownerId: string;
  none?: string;
  /** Undefined: they are only counted. */
  nameOf?: (subscription: Subscription) => string;
}) {
  const subscriptions = useSubscriptions(ownerId);
  const ended = subscriptions.data?.filter(
    ({ emitter_id, listener_id }) => emitter_id === id || listener_id === id,
  );
  if (ended === undefined) return 'Its subscriptions end.';
  if (ended.length === 0) return none;
  const count = `${ended.length} ${ended.length === 1 ? 'subscription ends' : 'subscriptions end'}`;
  if (nameOf === undefined) return `${count}.`;
  const names = ended.slice(0, namesShown).map(nameOf).join(', ');
  return `${count}: ${names}${ended.length > namesShown ? ' …' : ''}.`;
}
