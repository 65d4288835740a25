import { pathOf } from './api.ts';
import type { Session } from './session.ts';

/** Where the API lists what the workspace of a session has, or the caller where it has none. */
export function ownedPath(
  { workspace }: Pick<Session, 'workspace'>,
  what: 'sources' | 'workflows' | 'webhooks' | 'subscriptions' | 'dead_letters',
): string {
  if (workspace === undefined) return pathOf`/v1/users/me/${what}`;
  return what === 'sources'
    ? pathOf`/v1/orgs/${workspace}/sources`
    : pathOf`/v1/workspaces/${workspace}/${what}`;
}
