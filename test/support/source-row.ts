import type { SourceTable } from '#storage/tables/source-tables.ts';

/** The row of an active source whose code is never run. */
export function sourceRow(id: string, { ownerId = 'u_1' }: { ownerId?: string } = {}): SourceTable {
  return {
    id,
    owner_id: ownerId,
    user_id: 'u_1',
    component_id: 'sc_1',
    name: id,
    name_slug: id,
    configured_props: '{}',
    concurrency: 1,
    flow_control: null,
    isolated: 0,
    sealed_props: null,
    dynamic_props: null,
    apphooks: null,
    state: 'active',
    change_id: null,
    change_node: null,
    before_change: null,
    endpoint_key: null,
    revision: 1,
    created_at_ms: 0,
    updated_at_ms: 0,
  };
}
