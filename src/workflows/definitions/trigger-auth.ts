import type { ValueSealer } from '#sources/sealed-props.ts';
import type { TriggerTable } from '#storage/tables/workflow-tables.ts';

/** What callers of an HTTP trigger must send as `Authorization: Bearer <…>` (platform facts, 4.4). */
export type TriggerAuth =
  | { type: 'static_bearer_token'; token: string }
  /** An access token of an OAuth client of the workspace. */
  | { type: 'oauth' };

/** `triggers.auth` of such a trigger: there is nothing to seal. No sealed value reads like this. */
const oauthMark = 'oauth';

type TriggerKey = Pick<TriggerTable, 'id' | 'owner_id'>;

/** `triggers.auth`: sealed unless there is no secret in it; bound to the trigger, so that it opens nowhere else. */
export function sealTriggerAuth(
  sealer: Pick<ValueSealer, 'seal'>,
  trigger: TriggerKey,
  auth: TriggerAuth,
): Promise<string> {
  if (auth.type === 'oauth') return Promise.resolve(oauthMark);
  return sealer.seal(trigger.owner_id, trigger.id, auth);
}

/** Undefined: calls need no token. Throws UnavailableError when it cannot be opened: then all calls are refused. */
export async function openTriggerAuth(
  sealer: Pick<ValueSealer, 'open'>,
  trigger: TriggerKey & Pick<TriggerTable, 'auth'>,
): Promise<TriggerAuth | undefined> {
  if (trigger.auth === null) return undefined;
  if (trigger.auth === oauthMark) return { type: 'oauth' };
  return (await sealer.open(trigger.owner_id, trigger.id, trigger.auth)) as TriggerAuth;
}

/** The kind alone, which needs no key. */
export function triggerAuthType({ auth }: Pick<TriggerTable, 'auth'>): TriggerAuth['type'] | 'none' {
  if (auth === null) return 'none';
  return auth === oauthMark ? 'oauth' : 'static_bearer_token';
}
