import { createHash } from 'node:crypto';
import { createWebhook, updateWebhook } from '#delivery/webhooks/manage-webhooks.ts';
import { findWebhook } from '#delivery/webhooks/webhook-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { WebhookTable } from '#storage/tables/delivery-tables.ts';
import { compareWebhook } from './compare-object.ts';
import type { ImportScope } from './import-store.ts';
import { untilUndisturbed } from './imported-meanwhile.ts';
import {
  changedOnBothSides,
  decideObject,
  type ObjectDecision,
  type ObjectImportOptions,
  type ObjectPlace,
  recordObject,
  withoutValue,
} from './object-place.ts';
import { byHand, checkIt, type Finding, type ForeignWebhook } from './project.ts';
import { type ObjectItem, simpleItem } from './report.ts';
import { noChanges } from './report-changes.ts';

export type WebhookDecision = ObjectDecision<WebhookTable>;

export function decideWebhook(db: Db, scope: ImportScope, foreign: ForeignWebhook): Promise<WebhookDecision> {
  const fingerprint = fingerprintOfWebhook(foreign);
  return decideObject(db, scope, { kind: 'webhook', oldId: foreign.id, fingerprint, find: findWebhook });
}

/** Brings a webhook here: active, or paused where it was inactive. One whose URL is refused is reported as failed. */
export function importWebhook(
  options: ObjectImportOptions,
  place: ObjectPlace,
  foreign: ForeignWebhook,
): Promise<ObjectItem> {
  return untilUndisturbed(async () => {
    const decision = await decideWebhook(options.store.read, place.scope, foreign);
    const differs = decision.outcome === 'updated' || decision.outcome === 'conflict';
    const changes = differs ? compareWebhook(decision.present, foreign) : noChanges;
    const item = (outcome: ObjectItem['outcome'], webhook: WebhookTable | undefined, findings: Finding[]) =>
      simpleItem('webhook', foreign.id, {
        ...{ name: webhookName(foreign), ...changes },
        ...{ outcome, id: webhook?.id ?? null, active: webhook?.state === 'active', findings },
      });
    if (decision.outcome === 'conflict') return item('conflict', decision.present, [changedOnBothSides()]);
    if (decision.outcome === 'unchanged') {
      const isMadeNow = decision.before.import_id === place.row.id;
      return item(
        isMadeNow ? 'created' : 'unchanged',
        decision.present,
        isMadeNow ? secretFindings(decision.present) : [],
      );
    }
    try {
      const webhook = await writeWebhook(options, place, foreign, decision);
      return item(decision.outcome, webhook, decision.outcome === 'created' ? secretFindings(webhook) : []);
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      const present = decision.outcome === 'updated' ? decision.present : undefined;
      return item('failed', present, [byHand(`it cannot be made: ${withoutValue(error)}`)]);
    }
  });
}

async function writeWebhook(
  options: ObjectImportOptions,
  place: ObjectPlace,
  foreign: ForeignWebhook,
  decision: WebhookDecision,
): Promise<WebhookTable> {
  const { url, name, description } = foreign;
  const record = (tx: Tx, webhook: WebhookTable) =>
    recordObject(tx, place, {
      ...{
        kind: 'webhook',
        oldId: foreign.id,
        newId: webhook.id,
        fingerprint: fingerprintOfWebhook(foreign),
      },
      mark: { updated_at_ms: Number(webhook.updated_at_ms), active: webhook.state === 'active' },
      ...{ nowMs: options.clock.now(), before: decision.before, present: decision.outcome !== 'created' },
    });
  if (decision.outcome !== 'created') {
    const updated = await updateWebhook(options.webhooks, decision.present.id, { url, name, description });
    await options.store.transaction((tx) => record(tx, updated));
    return updated;
  }
  const { ownerId, userId } = place.owner;
  const given = { url, name, description, ownerId, userId, paused: !foreign.active };
  return (await createWebhook(options.webhooks, given, record)).webhook;
}

export function webhookName({ name, id }: ForeignWebhook): string {
  return name ?? id;
}

function secretFindings({ id }: Pick<WebhookTable, 'id'>): Finding[] {
  return [
    checkIt(
      'it has a signing secret of its own: where the receiver checks signatures, give it a new one',
      '',
      `millrace webhooks rotate-secret ${id}`,
    ),
  ];
}

function fingerprintOfWebhook({ url, name, description }: ForeignWebhook): string {
  return createHash('sha256')
    .update(JSON.stringify([url, name, description]))
    .digest('hex');
}
