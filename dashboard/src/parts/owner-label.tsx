import { useOwnerNames } from '~/api/owner-names.ts';
import { shortened, visible } from './plain-text.ts';

/** A user or a workspace by its name; by its id where the name may not be seen. */
export function OwnerLabel({ id, ownerId }: { id: string; ownerId: string | undefined }) {
  const name = useOwnerNames(ownerId)(id);
  if (name === undefined) return <code>{visible(shortened(id, 60))}</code>;
  return <bdi title={id}>{visible(shortened(name, 100))}</bdi>;
}
