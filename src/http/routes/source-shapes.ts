import { Type } from 'typebox';
import { laneJobsCounted } from '#jobs/lane-work-store.ts';
import { FlowControl } from './flow-shapes.ts';
import { Health } from './health-shapes.ts';

/**
 * Specification, section 2, Source. A new field is added here and in `sources/view-source.ts`; `npm run reference` then writes the reference and
 * the types of the client. A field that is stored also needs a column: in `storage/tables/source-tables.ts`, a migration in `storage/migrations`,
 * and the list `sourceColumns` in `sources/source-store.ts`.
 */
export const Source = Type.Object(
  {
    id: Type.String({ description: 'dc_…' }),
    user_id: Type.String(),
    owner_id: Type.String(),
    component_id: Type.String(),
    configured_props: Type.Record(Type.String(), Type.Unknown()),
    active: Type.Boolean(),
    health: Health,
    concurrency: Type.Integer({ description: 'Addition: see createSource' }),
    flow_control: Type.Union([FlowControl, Type.Null()]),
    isolated: Type.Boolean({ description: 'Addition: see createSource' }),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
    updated_at: Type.Integer({ description: 'Epoch seconds' }),
    name: Type.String(),
    name_slug: Type.String(),
    runs: Type.Optional(
      Type.Object(
        {
          under_way: Type.Integer({
            description: 'They run, or wait for their turn on the node that has them',
          }),
          queued: Type.Integer({ description: `At most ${laneJobsCounted} are counted` }),
          since: Type.Union([Type.Integer(), Type.Null()], {
            description: 'Epoch seconds at which a node took the oldest of those under way; null: none is',
          }),
        },
        { description: 'Addition: its runs now; only where one source is read' },
      ),
    ),
  },
  { additionalProperties: true },
);
