import type { EmitStore, EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { emitOperationalEvent } from '#events/operational-events.ts';
import { recordOutcome } from '#health/outcome-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Tx } from '#storage/store.ts';
import { type Actor, recordAudit, theService } from './account-audit-store.ts';
import { changeHealthAt, type HealthColumns, lastTold } from './account-health-store.ts';
import type { Account } from './account-store.ts';
import type { Health } from './refresh-account.ts';

/** Error texts may hold answers of providers. */
const errorCharactersMax = 500;

export interface HealthOptions {
  store: EmitStore;
  router: EventRouter;
  bus: Pick<EventBus, 'publish'>;
  clock: Clock;
}

/**
 * Writes the health of an account, unless its credentials changed since `account` was read. If that is another
 * state than before (healthy, unhealthy, dead), it is written once to the audit log and as an event of the owner, even if another node writes the
 * same: `account_unhealthy` (also when an unhealthy account turns out dead) or `account_healthy`. Resolves with what the caller
 * does after the commit; undefined: the credentials changed, and nothing was written.
 *
 * The health of an account has two sources: tests and refreshes. Neither makes an account healthy that the other one still finds wrong, otherwise
 * each would overwrite the state of the other, with an event every time.
 */
export async function changeHealth(
  options: HealthOptions,
  tx: Tx,
  account: Account,
  change: Health & {
    witness?: 'refresh' | 'test';
    /** The user who asked for the test; default: the service itself. */
    actor?: Actor;
    /** Columns to write together with the health. */
    columns?: Partial<HealthColumns>;
  },
): Promise<(() => void) | undefined> {
  const nowMs = options.clock.now();
  const { witness = 'refresh', actor = theService } = change;
  const isStillWrong = stillWrong(account, change, witness);
  const health = isStillWrong
    ? { healthy: false, dead: false, error: account.error }
    : { ...change, healthy: change.healthy && !change.dead };
  const error = health.error?.slice(0, errorCharactersMax) ?? null;
  const written = await changeHealthAt(tx, account, {
    ...change.columns,
    healthy: health.healthy ? 1 : 0,
    dead: health.dead ? 1 : 0,
    error,
    // A dead account recovers only when it is connected again.
    ...(health.dead && { next_check_at_ms: null, next_refresh_at_ms: null }),
  });
  if (written === 'credentials changed') return undefined;
  // A test that succeeds keeps the recorded reason why the last refresh failed, as `error` does.
  const isOtherError = health.healthy && error !== null && isSuccess(change);
  // A provider that cannot be reached for a moment is no evidence against the account; its test is still due.
  if (!isStillWrong && !isOtherError)
    await recordOutcome(options.store, tx, {
      subjectId: account.id,
      ownerId: account.owner_id,
      failure: error ?? (health.healthy ? null : 'the test failed'),
      atMs: nowMs,
    });
  if (written === 'same state') return health.healthy ? tellRecovery(options, tx, account, actor) : () => {};
  const now = { ...account, healthy: health.healthy ? 1 : 0, dead: health.dead ? 1 : 0, error };
  return tellHealth(options, tx, now, { actor, nowMs });
}

/**
 * Credentials that take the place of others make an account healthy silently: the recovery is reported when the account is checked for the
 * first time since, and the last report said that it did not work. Call it after the row was written, which holds up
 * any other node that finds the same. Otherwise as `changeHealth`.
 */
export async function tellRecovery(
  options: HealthOptions,
  tx: Tx,
  account: Account,
  actor: Actor,
): Promise<() => void> {
  const isFirst = account.checked_at_ms === null && account.healthy === 1;
  if (!isFirst || (await lastTold(tx, account.id)) !== 'became_unhealthy') return () => {};
  return tellHealth(options, tx, { ...account, error: null }, { actor, nowMs: options.clock.now() });
}

/** Writes the audit entry and the event of a changed state. Otherwise as `changeHealth`. */
async function tellHealth(
  { store, router, bus }: HealthOptions,
  tx: Tx,
  account: Account,
  { actor, nowMs }: { actor: Actor; nowMs: number },
): Promise<() => void> {
  const isHealthy = account.healthy === 1;
  const { dead, error } = account;
  await recordAudit(tx, {
    account,
    action: isHealthy ? 'became_healthy' : 'became_unhealthy',
    actor,
    details: { dead: dead === 1, error },
    nowMs,
  });
  const name = account.name ?? account.id;
  const state = isHealthy ? 'works again' : dead === 1 ? 'has to be connected again' : 'does not work';
  const stored = await emitOperationalEvent(store, tx, {
    ownerId: account.owner_id,
    channel: isHealthy ? 'account_healthy' : 'account_unhealthy',
    summary: `${account.app_name} account ${name} ${state}`,
    event: {
      account: {
        id: account.id,
        name: account.name,
        app: { id: account.app_id, name_slug: account.app_slug, name: account.app_name },
      },
      healthy: isHealthy,
      dead: dead === 1,
      error,
      at: new Date(nowMs).toISOString(),
    },
    router,
    nowMs,
  });
  return () => bus.publish(stored);
}

/** True when a test or refresh has really succeeded. After a test, `error` may come from an earlier refresh. */
function isSuccess({ error, columns }: Health & { columns?: Partial<HealthColumns> }): boolean {
  return columns?.check_failures === undefined ? error === null : columns.check_failures === 0;
}

/** True when the other check found the account wrong, so that this one cannot make it healthy. */
function stillWrong(account: Account, { healthy, dead }: Health, witness: 'refresh' | 'test'): boolean {
  if (!healthy || dead || account.healthy === 1) return false;
  return witness === 'refresh'
    ? account.check_failures > 0
    : account.refresh_failures > 0 && account.check_failures === 0;
}
