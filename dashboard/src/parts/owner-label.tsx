import { useOwnerNames } from '~/api/owner-names.ts';
import { shortened, visible } from './plain-text.ts';

/** A user or a workspace by its name; by its id where the name may not be seen. */
export function OwnerLabel({
  id,
  ownerId,
  name: given,
}: {
  id: string;
  ownerId: string | undefined;
  /** Where the answer of the API has it. */
  name?: string | null;
}) {
  const found = useOwnerNames(ownerId)(id);
  const name = given ?? found;
  if (name === undefined) return <code>{visible(shortened(id, 60))}</code>;
  return <bdi title={id}>{visible(shortened(name, 100))}</bdi>;
}
