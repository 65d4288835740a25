import { findSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { compareSource, compareWebhook } from './compare-object.ts';
import type { CompareOptions } from './compared-props.ts';
import type { ImportContext } from './import-context.ts';
import { decideSource } from './import-source.ts';
import { findImported, type ImportScope } from './import-store.ts';
import { endsOf, findingsOfEnds, subscriptionName } from './import-subscription.ts';
import { decideWebhook, webhookName } from './import-webhook.ts';
import { mapSource } from './map-source.ts';
import { changedOnBothSides } from './object-place.ts';
import type { ForeignProject } from './project.ts';
import { type ObjectItem, objectItemOf, simpleItem } from './report.ts';
import { noChanges } from './report-changes.ts';

/**
 * What an import would do with sources, webhooks and subscriptions. Writes nothing. Adds the sources that it would make to
 * `context.sources`, so that workflows are planned with them.
 */
export async function planObjects(
  options: CompareOptions,
  { workflows, objects }: ForeignProject,
  { scope, context }: { scope: ImportScope; context: ImportContext },
): Promise<ObjectItem[]> {
  if (objects === undefined) return [];
  const { db } = options;
  const items: ObjectItem[] = [];
  const planned = new Set([...workflows, ...objects.webhooks].map(({ id }) => id));
  for (const source of objects.sources) {
    const mapped = mapSource(source, context);
    const decision = await decideSource(db, scope, mapped);
    const present = decision.outcome === 'created' ? undefined : decision.present;
    const isMade =
      mapped.component !== undefined && mapped.accounts.every(({ accountId }) => accountId !== undefined);
    if (present === undefined && isMade) {
      planned.add(source.id);
      context.sources.set(source.id, source.id);
    }
    const outcome = present === undefined && mapped.component === undefined ? 'failed' : decision.outcome;
    const differs = decision.outcome === 'updated' || decision.outcome === 'conflict';
    const changes = differs ? await compareSource(options, decision.present, mapped) : noChanges;
    if (outcome === 'conflict') mapped.findings.push(changedOnBothSides());
    items.push(objectItemOf(mapped, { outcome, source: present, changes }));
  }
  for (const foreign of objects.webhooks) {
    const decision = await decideWebhook(db, scope, foreign);
    const webhook = decision.outcome === 'created' ? undefined : decision.present;
    const differs = decision.outcome === 'updated' || decision.outcome === 'conflict';
    const findings = decision.outcome === 'conflict' ? [changedOnBothSides()] : [];
    items.push(
      simpleItem('webhook', foreign.id, {
        ...{ name: webhookName(foreign), outcome: decision.outcome, findings },
        ...{ id: webhook?.id ?? null, active: webhook?.state === 'active' },
        ...(differs ? compareWebhook(decision.present, foreign) : noChanges),
      }),
    );
  }
  for (const foreign of objects.subscriptions) {
    const before = await findImported(db, scope, 'subscription', foreign.id);
    const present = before === undefined ? undefined : await findSubscription(db, before.new_id);
    const ends = await endsOf(db, scope, foreign, (oldId) => planned.has(oldId));
    const isHere = ends.emitterId !== undefined && ends.listenerId !== undefined;
    items.push(
      simpleItem('subscription', foreign.id, {
        ...{ name: subscriptionName(foreign), findings: findingsOfEnds(foreign, ends) },
        ...{ id: present?.id ?? null, active: present !== undefined },
        outcome: present !== undefined ? 'unchanged' : isHere ? 'created' : 'failed',
      }),
    );
  }
  return items;
}
