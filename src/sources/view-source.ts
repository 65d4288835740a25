import type { PropDefinition } from '#components/component-shape.ts';
import { givenFlowControl } from '#flow-control/flow-control.ts';
import type { Health } from '#health/health.ts';
import { epochSeconds } from '#lib/clock.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { viewProps } from './source-props.ts';

/** A source as the API answers it (specification, section 2). A new field is added here and in `http/routes/source-shapes.ts`. */
export function viewSource(
  source: SourceTable,
  definitions: readonly PropDefinition[],
  endpointUrl: (key: string | null) => string | undefined,
  health: Health,
) {
  return {
    id: source.id,
    user_id: source.user_id,
    owner_id: source.owner_id,
    component_id: source.component_id,
    configured_props: viewProps(source, definitions, endpointUrl(source.endpoint_key)),
    active: source.state === 'active',
    health,
    concurrency: source.concurrency,
    flow_control: givenFlowControl(source.flow_control),
    isolated: source.isolated === 1,
    created_at: epochSeconds(source.created_at_ms),
    updated_at: epochSeconds(source.updated_at_ms),
    name: source.name,
    name_slug: source.name_slug,
  };
}
