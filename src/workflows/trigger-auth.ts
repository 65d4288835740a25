import type { ValueSealer } from '#sources/sealed-props.ts';
import type { TriggerTable } from '#storage/tables/workflow-tables.ts';

/** What callers of an HTTP trigger must send: `Authorization: Bearer <token>`. */
export interface TriggerAuth {
  type: 'static_bearer_token';
  token: string;
}

type TriggerKey = Pick<TriggerTable, 'id' | 'owner_id'>;

/** `triggers.auth`: bound to the trigger, so that it opens nowhere else. */
export function sealTriggerAuth(
  sealer: Pick<ValueSealer, 'seal'>,
  trigger: TriggerKey,
  auth: TriggerAuth,
): Promise<string> {
  return sealer.seal(trigger.owner_id, trigger.id, auth);
}

/** Undefined: anybody may call. Throws UnavailableError when it cannot be opened: then nobody may. */
export async function openTriggerAuth(
  sealer: Pick<ValueSealer, 'open'>,
  trigger: TriggerKey & Pick<TriggerTable, 'auth'>,
): Promise<TriggerAuth | undefined> {
  if (trigger.auth === null) return undefined;
  return (await sealer.open(trigger.owner_id, trigger.id, trigger.auth)) as TriggerAuth;
}
