import { subscribe } from '#delivery/subscriptions/manage-subscriptions.ts';
import { findSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import type { ImportedKind } from '#storage/tables/import-tables.ts';
import { findImported, type ImportScope } from './import-store.ts';
import { untilUndisturbed } from './imported-meanwhile.ts';
import { type ObjectImportOptions, type ObjectPlace, recordObject } from './object-place.ts';
import { byHand, checkIt, type Finding, type ForeignSubscription } from './project.ts';
import { type ObjectItem, simpleItem } from './report.ts';

/** The emitter and the listener of a subscription. One that does not exist here is undefined. */
export interface SubscriptionEnds {
  emitterId: string | undefined;
  listenerId: string | undefined;
}

const kinds: Readonly<Record<string, ImportedKind>> = { dc: 'source', p: 'workflow', wh: 'webhook' };

/** `isPlanned`: true for an object of the other service that a dry run would create. */
export async function endsOf(
  db: Db,
  scope: ImportScope,
  { emitterId, listenerId }: ForeignSubscription,
  isPlanned: (oldId: string) => boolean = () => false,
): Promise<SubscriptionEnds> {
  const here = async (oldId: string): Promise<string | undefined> => {
    const kind = kinds[oldId.slice(0, Math.max(0, oldId.indexOf('_')))];
    const found = kind === undefined ? undefined : await findImported(db, scope, kind, oldId);
    return found?.new_id ?? (isPlanned(oldId) ? oldId : undefined);
  };
  const isOfMany = emitterId === 'dc_*' || emitterId === 'p_*';
  const isOfOwner = /^[ou]_\w+$/.test(emitterId);
  return {
    emitterId: isOfMany ? emitterId : isOfOwner ? scope.owner_id : await here(emitterId),
    listenerId: await here(listenerId),
  };
}

/** Subscribes a listener to an emitter that this or an earlier import created. An existing subscription is not changed. */
export function importSubscription(
  options: ObjectImportOptions,
  place: ObjectPlace,
  foreign: ForeignSubscription,
): Promise<ObjectItem> {
  const { store, clock } = options;
  const { scope, owner, row } = place;
  return untilUndisturbed(async () => {
    const ends = await endsOf(store.read, scope, foreign);
    const findings = findingsOfEnds(foreign, ends);
    const item = (outcome: ObjectItem['outcome'], id: string | null) =>
      simpleItem('subscription', foreign.id, {
        ...{ name: subscriptionName(foreign), outcome, id, active: id !== null, findings },
      });
    const before = await findImported(store.read, scope, 'subscription', foreign.id);
    const present = before === undefined ? undefined : await findSubscription(store.read, before.new_id);
    if (before !== undefined && present !== undefined)
      return item(before.import_id === row.id ? 'created' : 'unchanged', present.id);
    const { emitterId, listenerId } = ends;
    if (emitterId === undefined || listenerId === undefined) return item('failed', null);
    try {
      let isMade = false;
      const made = await subscribe(
        options,
        { userId: owner.userId, keyId: row.key_id, isAdmin: false },
        {
          ...{ emitterId, listenerId, eventName: foreign.eventName },
          ...(owner.ownerId.startsWith('o_') ? { workspaceId: owner.ownerId } : {}),
        },
        async (tx, subscription) => {
          isMade = true;
          await recordObject(tx, place, {
            ...{ kind: 'subscription', oldId: foreign.id, newId: subscription.id, fingerprint: '' },
            mark: { updated_at_ms: Number(subscription.created_at_ms), active: true },
            ...{ nowMs: clock.now(), before, present: false },
          });
        },
      );
      return item(isMade ? 'created' : 'unchanged', made.id);
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      findings.push(byHand(`it cannot be made: ${error.message}`));
      return item('failed', null);
    }
  });
}

export function subscriptionName({ emitterId, listenerId, eventName }: ForeignSubscription): string {
  return `${emitterId}${eventName === '' ? '' : ` ${eventName}`} to ${listenerId}`;
}

export function findingsOfEnds(
  { emitterId: emitter, listenerId: listener, eventName }: ForeignSubscription,
  { emitterId, listenerId }: SubscriptionEnds,
): Finding[] {
  if (emitterId === undefined || listenerId === undefined) {
    const missing = emitterId === undefined ? emitter : listener;
    return [
      byHand(
        `${/^\w+$/.test(missing) ? missing : 'an end of it'} is not here: bring it and import again, or subscribe by hand`,
        '',
        `millrace subscriptions create EMITTER LISTENER${eventName === '' ? '' : ' --event-name NAME'}`,
      ),
    ];
  }
  return /^(?:dc_|p_)\w/.test(emitter)
    ? []
    : [checkIt('it is for all emitters of this owner, those that were not imported too')];
}
