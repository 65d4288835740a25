import type { ComponentBuilder } from '#components/build-component.ts';
import { isDeleted } from '#identity/deletion-store.ts';
import { findUser } from '#identity/user-store.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';

/**
 * Ends builds on this node of a user or workspace whose access has changed, when the owner was deleted or disabled: what they build would
 * be refused at the end. Never rejects.
 */
export async function endBuildsOfGone(
  {
    store,
    builder,
    logger,
  }: { store: Pick<Store, 'read'>; builder: Pick<ComponentBuilder, 'endBuildsOf'>; logger: Logger },
  ownerId: string,
): Promise<void> {
  try {
    const user = await findUser(store.read, ownerId);
    const isDisabled = user !== undefined && user.disabled_at_ms !== null;
    if (isDisabled || (await isDeleted(store.read, ownerId))) builder.endBuildsOf(ownerId);
  } catch (error) {
    logger.warn({ err: error, owner: ownerId }, 'build.not-ended');
  }
}
