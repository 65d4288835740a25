import type { PropDefinition } from '#components/component-shape.ts';
import {
  accountIn,
  appliedFlowControl,
  checkFlowControl,
  type FlowControl,
  type FlowPlace,
  invalidFlow,
  plainPath,
} from '#flow-control/flow-control.ts';
import { expressionsOf } from '#flow-control/read-keys.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { repliesItself } from './source-props.ts';

const at = 'flow_control';

/** The flow control of a source as its row has it. Throws CallerError naming the field, for a control that makes no sense for it too. */
export function sourceFlowControl(
  flow: FlowControl | null,
  source: Pick<SourceTable, 'concurrency' | 'configured_props'>,
  definitions: readonly PropDefinition[],
): string | null {
  if (flow === null || Object.keys(flow).length === 0) return null;
  const place: FlowPlace = {
    at,
    accountOf: (prop) => accountIn(source.configured_props, prop),
    accountNames: 'the name of an app prop of the source, such as "slack", and an account in that prop',
  };
  if (repliesItself(definitions))
    throw invalidFlow(
      at,
      'cannot be combined with the customResponse of the component: its caller waits for the run, which may wait for its turn',
    );
  if (flow.concurrency !== undefined && source.concurrency === 1)
    throw invalidFlow(
      `${at}.concurrency`,
      'the runs of this source follow each other (concurrency 1), so no key has two under way: set the concurrency of the source above 1',
    );
  checkFlowControl(flow, place);
  const code = expressionsOf(flow).find((expression) => plainPath(expression) === undefined);
  if (code !== undefined)
    throw invalidFlow(
      at,
      `found ${JSON.stringify(code.slice(0, 80))}, expected a path into the event such as {{event.body.customer}}: no code is evaluated for the keys of a source`,
    );
  return appliedFlowControl(flow, place);
}
