import { pathOf } from './api.ts';
import type { Session } from './session.ts';

/** The path of a list: of the workspace of the session, or of the caller if the session has no workspace. */
export function ownedPath(
  { workspace }: Pick<Session, 'workspace'>,
  what: 'sources' | 'workflows' | 'webhooks' | 'subscriptions' | 'dead_letters' | 'data_stores',
): string {
  if (workspace === undefined) return pathOf`/v1/users/me/${what}`;
  return what === 'sources'
    ? pathOf`/v1/orgs/${workspace}/sources`
    : pathOf`/v1/workspaces/${workspace}/${what}`;
}
