import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Tx } from '#storage/store.ts';
import type { AppCatalogue } from './app-catalogue.ts';
import type { AppDefinition } from './app-definition.ts';
import { appIdOf } from './app-id.ts';
import { accountsOfApp, changeOwnApp, countOwnApps, insertOwnApp, removeOwnApp } from './app-store.ts';
import { describeApp } from './describe-app.ts';

/** Maximum custom apps of one owner. All of them are read for each list. */
const ownAppsMax = 500;
/** Maximum size of a custom app as JSON. The largest that comes with the service has 2 KB. */
const definitionBytesMax = 32 * 1024;
/** Accounts that the refusal of a deletion names. */
const namedAccountsMax = 10;

/** Throws CallerError `conflict` when the slug is taken, by the service or by the owner. */
export async function createApp(
  tx: Tx,
  { catalogue, clock }: { catalogue: AppCatalogue; clock: Clock },
  app: AppDefinition,
  owner: { ownerId: string; userId: string },
): Promise<void> {
  const { slug } = app;
  if (catalogue.findShipped(slug) !== undefined) throw slugTaken(slug, 'an app that comes with the service');
  if ((await countOwnApps(tx, owner.ownerId)) >= ownAppsMax) {
    throw new CallerError('conflict', `there are already ${ownAppsMax} custom apps, the maximum`, {
      parameter: 'slug',
    });
  }
  const nowMs = clock.now();
  const added = await insertOwnApp(tx, {
    owner_id: owner.ownerId,
    slug,
    app_id: appIdOf(slug),
    user_id: owner.userId,
    definition: definitionOf(app),
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  });
  if (!added) throw slugTaken(slug, 'an app of your own');
}

/** Replaces the definition of a custom app. The slug stays, because accounts and components name it. */
export async function replaceApp(
  tx: Tx,
  { clock }: { clock: Clock },
  app: AppDefinition,
  own: { ownerId: string; slug: string },
): Promise<void> {
  if (app.slug !== own.slug) {
    throw new CallerError('invalid_parameter', `slug: expected ${own.slug}, which cannot change`, {
      parameter: 'slug',
    });
  }
  const changes = { definition: definitionOf(app), updated_at_ms: clock.now() };
  const changed = await changeOwnApp(tx, { owner_id: own.ownerId, slug: own.slug }, changes);
  // Another request removed it after it was read.
  if (!changed) throw new CallerError('not_found', `no app ${JSON.stringify(own.slug)}`, { parameter: 'id' });
}

/** Throws CallerError `conflict` that names the accounts while there are any. */
export async function deleteApp(tx: Tx, { ownerId, slug }: { ownerId: string; slug: string }): Promise<void> {
  const { ids, count } = await accountsOfApp(tx, ownerId, slug, namedAccountsMax);
  if (count > 0) {
    const more = count > ids.length ? ` and ${count - ids.length} more` : '';
    throw new CallerError(
      'conflict',
      `${count} ${count === 1 ? 'account is' : 'accounts are'} of this app: ${ids.join(', ')}${more}; delete them first`,
      { accounts: ids, count },
    );
  }
  await removeOwnApp(tx, { owner_id: ownerId, slug });
}

function definitionOf(app: AppDefinition): string {
  const definition = JSON.stringify(describeApp(app));
  if (Buffer.byteLength(definition) <= definitionBytesMax) return definition;
  throw new CallerError(
    'invalid_parameter',
    `the definition of an app has at most ${definitionBytesMax / 1024} KB of JSON, this one has more`,
    { parameter: 'body' },
  );
}

function slugTaken(slug: string, by: string): CallerError {
  return new CallerError('conflict', `slug: ${JSON.stringify(slug)} is ${by}`, { parameter: 'slug' });
}
