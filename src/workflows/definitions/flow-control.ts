import { invalidAt } from './at-parameter.ts';

/**
 * When the runs of a workflow may begin, by keys of their events. It is kept as the request gave it, in the deployment and in the row of
 * the workflow.
 */
export interface FlowControl {
  /** At most `limit` runs of each key are under way. */
  concurrency?: { limit: number; key?: string };
  /** At most `limit` runs of each key begin in any period of `seconds`. */
  throttle?: { limit: number; seconds: number; key?: string };
  /** One run for events that follow each other within `seconds`, at the latest `max_wait_seconds` after the first. The last event counts. */
  debounce?: { seconds: number; max_wait_seconds: number; key?: string };
  /** One run of each key is under way: an event that finds one is skipped, or replaces it. */
  singleton?: { mode: 'skip' | 'replace'; key?: string };
  /** One run for up to `max_events`, or for what came within `max_seconds`. */
  batch?: { max_events: number; max_seconds: number; key?: string };
  /** Seconds by which a run is placed earlier in the queue (later, where negative), or an expression for them. */
  priority?: number | string;
  /** A limit that all workflows share that use the account of this prop (`<step>.<prop>`). */
  rate_limit?: { account: string; limit: number; seconds: number };
}

/** What is kept with the workflow: with the id of the account that `rate_limit` names. */
export interface AppliedFlowControl extends FlowControl {
  account_id?: string;
}

/** Seconds by which a priority moves a run at most: one of the lowest waits no longer for those of the highest than twice this. */
export const priorityMax = 600;

/** A step of a definition: `configuredProps` is JSON. */
interface ConfiguredStep {
  namespace: string;
  configuredProps: string;
}

const keyed = ['concurrency', 'throttle', 'debounce', 'singleton', 'batch'] as const;

/** What cannot be combined, and why. */
const refused: readonly [keyof FlowControl, keyof FlowControl, string][] = [
  ['debounce', 'batch', 'a debounce keeps the last event only, a batch keeps all of them: choose one'],
  ['singleton', 'batch', 'a batch that is skipped or replaced would lose all of its events: choose one'],
];

/** Checks what the schema of the route cannot. Throws CallerError naming `settings.flow_control` and the field. */
export function checkFlowControl(
  flow: FlowControl,
  whole: {
    steps: readonly ConfiguredStep[];
    /** `settings.concurrency` and `settings.throttle`, which limit runs too. */
    concurrency: number | null;
    throttle: object | null;
    /** The triggers whose callers wait for the answer of a run. */
    repliesOf: readonly string[];
  },
): void {
  const at = 'settings.flow_control';
  for (const [one, other, why] of refused)
    if (flow[one] !== undefined && flow[other] !== undefined)
      throw invalidAt(`${at}.${other}`, `cannot be combined with ${one}: ${why}`);
  if (whole.concurrency !== null)
    throw invalidAt(
      at,
      'cannot be combined with settings.concurrency: set that to null, and use flow_control.concurrency',
    );
  if (whole.throttle !== null)
    throw invalidAt(
      at,
      'cannot be combined with settings.throttle: set that to null, and use flow_control.throttle',
    );
  const [replying] = whole.repliesOf;
  if (replying !== undefined)
    throw invalidAt(
      at,
      `cannot be combined with the custom_response of trigger ${replying}: its caller waits for the run, which may wait for its turn`,
    );
  for (const control of keyed) {
    const key = flow[control]?.key;
    if (key !== undefined) checkExpression(key, `${at}.${control}.key`);
  }
  if (typeof flow.priority === 'string') checkExpression(flow.priority, `${at}.priority`);
  const { debounce, rate_limit } = flow;
  if (debounce !== undefined && debounce.max_wait_seconds < debounce.seconds)
    throw invalidAt(
      `${at}.debounce.max_wait_seconds`,
      `found ${debounce.max_wait_seconds}, expected at least seconds (${debounce.seconds})`,
    );
  if (rate_limit !== undefined && accountOf(rate_limit.account, whole.steps) === undefined)
    throw invalidAt(
      `${at}.rate_limit.account`,
      `found ${JSON.stringify(rate_limit.account)}, expected the name of a step and its account prop, such as "send.slack", and an account in that prop`,
    );
}

/** As it is kept with the workflow; null: none. */
export function appliedFlowControl(
  flow: FlowControl | null,
  steps: readonly ConfiguredStep[],
): string | null {
  if (flow === null || Object.keys(flow).length === 0) return null;
  const account_id = flow.rate_limit && accountOf(flow.rate_limit.account, steps);
  return JSON.stringify({ ...flow, ...(account_id === undefined ? {} : { account_id }) });
}

/** What was read last: every event of a workflow asks for the same one. */
const parsed = new Map<string, AppliedFlowControl>();
const parsedMax = 1_000;

export function parseFlowControl(text: string): AppliedFlowControl {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  const flow = JSON.parse(text) as AppliedFlowControl;
  if (parsed.size >= parsedMax) parsed.clear();
  parsed.set(text, flow);
  return flow;
}

/** The account in a prop of a step, by `<step>.<prop>`. */
function accountOf(place: string, steps: readonly ConfiguredStep[]): string | undefined {
  const [namespace, prop = ''] = place.split('.', 2);
  const step = steps.find((one) => one.namespace === namespace);
  if (step === undefined) return undefined;
  const props = JSON.parse(step.configuredProps) as Record<string, { authProvisionId?: unknown } | null>;
  const id = Object.hasOwn(props, prop) ? props[prop]?.authProvisionId : undefined;
  return typeof id === 'string' ? id : undefined;
}

function checkExpression(text: string, at: string): void {
  if (/\{\{[\s\S]*?\}\}/.test(text) && !text.includes('\0')) return;
  throw invalidAt(
    at,
    `found ${JSON.stringify(text.slice(0, 80))}, expected an expression such as {{steps.trigger.event.body.customer}}`,
  );
}

const name = '[A-Za-z_$][\\w$]*';
const plainPattern = new RegExp(
  `^\\s*\\{\\{\\s*(?:steps\\.trigger\\.event|event)((?:\\??\\.${name}|(?:\\?\\.)?\\[\\d{1,9}\\]|(?:\\?\\.)?\\["[^"\\\\]*"\\]|(?:\\?\\.)?\\['[^'\\\\]*'\\])*)\\s*\\}\\}\\s*$`,
);
const memberPattern = new RegExp(`(${name})|\\[(\\d+)\\]|\\["([^"]*)"\\]|\\['([^']*)'\\]`, 'g');

/**
 * The members that a plain path such as `{{steps.trigger.event.body.customer}}` goes through, from the event on; undefined for any other
 * expression, which only a sandbox may evaluate.
 */
export function plainPath(expression: string): string[] | undefined {
  const [, rest] = plainPattern.exec(expression) ?? [];
  if (rest === undefined) return undefined;
  return [...rest.matchAll(memberPattern)].map(
    ([, identifier, index, double, single]) => identifier ?? index ?? double ?? single ?? '',
  );
}
