import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { SourceAccount, WriteGuard } from './source-store.ts';

const kept = [
  'component_id',
  'name',
  'name_slug',
  'configured_props',
  'sealed_props',
  'dynamic_props',
  'apphooks',
  'concurrency',
  'flow_control',
  'isolated',
  'state',
  'endpoint_key',
] as const;

/** The state that a source returns to when its change fails. */
export type BeforeChange = Pick<SourceTable, (typeof kept)[number]> & { accounts: SourceAccount[] };

/** `before_change` of a source: secrets stay sealed in it. */
export function describeBefore(source: SourceTable, accounts: readonly SourceAccount[]): string {
  return JSON.stringify({ ...Object.fromEntries(kept.map((name) => [name, source[name]])), accounts });
}

/** The source as it was before the change under way, still marked as being changed; undefined while it is created. */
export function beforeChange(
  source: SourceTable,
): { source: SourceTable; accounts: SourceAccount[] } | undefined {
  if (source.before_change === null) return undefined;
  const { accounts, ...columns } = JSON.parse(source.before_change) as BeforeChange;
  return { source: { ...source, ...columns }, accounts };
}

/** Without a mark: the change is over. */
export const unchanging = { change_id: null, change_node: null, before_change: null } as const;

/** The change that holds the mark, or one that finds none. */
export function guardOf(source: SourceTable): WriteGuard {
  return source.change_id === null ? { revision: source.revision } : { changeId: source.change_id };
}

export function markOf({ change_id, change_node, before_change }: SourceTable) {
  return { change_id, change_node, before_change };
}
