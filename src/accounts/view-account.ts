import type { Health } from '#health/health.ts';
import type { Account } from './account-store.ts';

/**
 * A connected account as the API answers it (specification, section 2). With `opened`, also what a component reads as
 * `$auth`, and until when its access token is good.
 */
export function viewAccount(account: Account, health: Health, opened?: Record<string, unknown>) {
  return {
    id: account.id,
    user_id: account.user_id,
    owner_id: account.owner_id,
    name: account.name,
    app: { id: account.app_id, name_slug: account.app_slug, name: account.app_name },
    health,
    healthy: account.healthy === 1,
    dead: account.dead === 1,
    error: account.error,
    authorized_scopes:
      account.authorized_scopes === null ? null : (JSON.parse(account.authorized_scopes) as string[]),
    last_refreshed_at: isoTime(account.last_refreshed_at_ms),
    next_refresh_at: isoTime(account.next_refresh_at_ms),
    checked_at: isoTime(account.checked_at_ms),
    created_at: new Date(account.created_at_ms).toISOString(),
    updated_at: new Date(account.updated_at_ms).toISOString(),
    ...(opened !== undefined && { expires_at: isoTime(account.expires_at_ms), credentials: opened }),
  };
}

function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
