import type { ApiKey } from '#sdk';

export type Scope = NonNullable<ApiKey['scopes']>[number];

/** Every scope of an API key, with what it allows within the rights of its user. */
export const keyScopes: readonly { scope: Scope; allows: string }[] = [
  { scope: 'read', allows: 'see everything that its user sees, except credentials' },
  { scope: 'run', allows: 'run code, replay events, cancel runs and deliver again' },
  { scope: 'write', allows: 'create, change and delete sources, workflows, webhooks and so on' },
  { scope: 'credentials', allows: 'read the credentials of connected accounts, together with read' },
  {
    scope: 'admin',
    allows: 'manage keys, sessions, members, service accounts, OAuth clients, custom apps and the audit',
  },
];

/** How near the end of a key has to be for a warning. */
const soonMs = 7 * 86_400_000;

/** How the end of a key is shown. */
export function expiryState(expiresAt: number | null, nowMs: number): 'never' | 'later' | 'soon' | 'expired' {
  if (expiresAt === null) return 'never';
  const leftMs = expiresAt * 1000 - nowMs;
  if (leftMs <= 0) return 'expired';
  return leftMs <= soonMs ? 'soon' : 'later';
}
