import {
  accountIn,
  appliedFlowControl,
  checkFlowControl,
  type FlowControl,
  type FlowPlace,
} from '#flow-control/flow-control.ts';
import { codeOf } from '#flow-control/read-keys.ts';
import { invalidAt } from './at-parameter.ts';

const at = 'settings.flow_control';

/** A step of a definition: `configuredProps` is JSON. */
interface ConfiguredStep {
  namespace: string;
  configuredProps: string;
}

/** The flow control of a workflow as its row has it. Throws CallerError naming `settings.flow_control` and the field. */
export function workflowFlowControl(
  flow: FlowControl,
  whole: {
    steps: readonly ConfiguredStep[];
    /** `settings.concurrency` and `settings.throttle`, which limit runs too. */
    concurrency: number | null;
    throttle: object | null;
    /** The triggers whose callers wait for the answer of a run. */
    repliesOf: readonly string[];
  },
): string | null {
  const place: FlowPlace = {
    at,
    accountOf: (name) => accountOf(name, whole.steps),
    accountNames:
      'the name of a step and its account prop, such as "send.slack", and an account in that prop',
  };
  for (const other of ['concurrency', 'throttle'] as const)
    if (whole[other] !== null)
      throw invalidAt(
        at,
        `cannot be combined with settings.${other}: set that to null, and use flow_control.${other}`,
      );
  const [replying] = whole.repliesOf;
  if (replying !== undefined)
    throw invalidAt(
      at,
      `cannot be combined with the custom_response of trigger ${replying}: its caller waits for the run, which may wait for its turn`,
    );
  checkFlowControl(flow, place);
  return appliedFlowControl(flow, place);
}

/**
 * Throws CallerError naming `settings.flow_control` when it has code that the version before had not, and a step uses an account whose owner
 * is not the caller: its keys are evaluated in the process that has the account, so they are code beside it as other steps are.
 */
export function refuseCodeBesideForeignAccounts(
  flow: FlowControl | null | undefined,
  {
    former,
    accounts,
    owners,
  }: {
    former: FlowControl | null | undefined;
    /** Accounts that steps use. */
    accounts: readonly { account_id: string; owner_id: string }[];
    /** Owners whose accounts the caller may put to any use. */
    owners: readonly string[];
  },
): void {
  const foreign = accounts.find(({ owner_id }) => !owners.includes(owner_id));
  if (foreign === undefined || !flow) return;
  const known = new Set(former ? codeOf(former) : []);
  const added = codeOf(flow).find((expression) => !known.has(expression));
  if (added !== undefined)
    throw invalidAt(
      at,
      `${JSON.stringify(added.slice(0, 200))} is code, and account ${foreign.account_id} of a step belongs to another member, who has not agreed to other code beside it; ` +
        'expected a path into the event, such as {{event.body.id}}, or what the version before had',
    );
}

/** The account in a prop of a step, by `<step>.<prop>`. */
function accountOf(name: string, steps: readonly ConfiguredStep[]): string | undefined {
  const [namespace, prop = ''] = name.split('.', 2);
  const step = steps.find((one) => one.namespace === namespace);
  return step && accountIn(step.configuredProps, prop);
}
