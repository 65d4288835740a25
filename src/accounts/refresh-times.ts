/** The part of a token's life that is left for refreshing it, and retrying that. */
const leadShare = 0.1;
const leadMaxMs = 10 * 60_000;

/**
 * When a token that was given now ends, and when it is to be refreshed (epoch ms). A token without an end is not
 * refreshed. One that ends and cannot be refreshed is looked at when it ends: then the account is dead, and says so.
 */
export function refreshTimes(
  grant: { expiresInSeconds: number | undefined; canRefresh: boolean },
  nowMs: number,
): { expiresAtMs: number | null; nextRefreshAtMs: number | null } {
  if (grant.expiresInSeconds === undefined) return { expiresAtMs: null, nextRefreshAtMs: null };
  const lifeMs = Math.max(0, grant.expiresInSeconds) * 1000;
  const expiresAtMs = Math.round(nowMs + lifeMs);
  const leadMs = grant.canRefresh ? Math.min(leadMaxMs, lifeMs * leadShare) : 0;
  return { expiresAtMs, nextRefreshAtMs: Math.round(expiresAtMs - leadMs) };
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
/** The wait after the 1st, 2nd, … consecutive failure. The last one repeats. */
const waitsMs = [5 * second, 15 * second, minute, 5 * minute, 15 * minute, hour];
/** Maximum wait for a provider that is unavailable, unless it sent Retry-After: runs may be waiting for it. */
const momentMaxMs = 15 * minute;
/** Maximum wait that a provider can ask for with Retry-After. */
const retryAfterMaxMs = 6 * hour;

/**
 * The wait after `failures` failed refreshes, in ms. `passes`: the reason is temporary. A Retry-After of the provider is
 * followed.
 */
export function refreshBackoffMs(
  failures: number,
  { retryAfterSeconds, passes }: { retryAfterSeconds: number | undefined; passes: boolean },
): number {
  const longMs = waitsMs[Math.min(failures, waitsMs.length) - 1] ?? second;
  const waitMs = passes ? Math.min(momentMaxMs, longMs) : longMs;
  return Math.min(retryAfterMaxMs, Math.max(waitMs, (retryAfterSeconds ?? 0) * second));
}
