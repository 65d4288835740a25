import type { ImportContext } from './import-context.ts';
import { importSource } from './import-source.ts';
import { importSubscription } from './import-subscription.ts';
import { importWebhook } from './import-webhook.ts';
import { mapSource } from './map-source.ts';
import type { ObjectImportOptions, ObjectPlace } from './object-place.ts';
import type {
  ForeignProject,
  ForeignSource,
  ForeignSubscription,
  ForeignWebhook,
  ForeignWorkflow,
} from './project.ts';
import type { ObjectItem } from './report.ts';

/** One object that an import creates. */
export type ImportedThing =
  | { kind: 'workflow'; foreign: ForeignWorkflow }
  | { kind: 'source'; foreign: ForeignSource }
  | { kind: 'webhook'; foreign: ForeignWebhook }
  | { kind: 'subscription'; foreign: ForeignSubscription };

/**
 * The objects of a project in the order of their creation. Each comes after the objects that it refers to: workflows refer to sources, and
 * subscriptions refer to all other kinds. The index of an object is its `position` in `import_items`.
 */
export function importOrder({ workflows, objects }: ForeignProject): ImportedThing[] {
  return [
    ...(objects?.sources ?? []).map((foreign) => ({ kind: 'source' as const, foreign })),
    ...(objects?.webhooks ?? []).map((foreign) => ({ kind: 'webhook' as const, foreign })),
    ...workflows.map((foreign) => ({ kind: 'workflow' as const, foreign })),
    ...(objects?.subscriptions ?? []).map((foreign) => ({ kind: 'subscription' as const, foreign })),
  ];
}

export function importObject(
  options: ObjectImportOptions,
  place: ObjectPlace,
  one: Exclude<ImportedThing, { kind: 'workflow' }>,
  context: ImportContext,
): Promise<ObjectItem> {
  switch (one.kind) {
    case 'source':
      return importSource(options, place, mapSource(one.foreign, context));
    case 'webhook':
      return importWebhook(options, place, one.foreign);
    case 'subscription':
      return importSubscription(options, place, one.foreign);
  }
}
