import { type ConfiguredProps, isRecord } from '#components/validate-props.ts';
import { checkSchedule, nextOccurrence, type Schedule } from '#schedule/next-occurrence.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import { type TriggerTable, triggerKinds } from '#storage/tables/workflow-tables.ts';
import { invalidAt, quoted, refuseNul, refuseUnknownFields } from './at-parameter.ts';
import type { TriggerAuth } from './trigger-auth.ts';
import { type TriggerInput, triggersMax } from './workflow-input.ts';

/** What a trigger is to do, checked. */
export type TriggerDefinition =
  | { kind: 'http'; customResponse: boolean /** Absent: as it was, or none. */; auth?: HttpAuth }
  | { kind: 'timer'; schedule: Schedule }
  | { kind: 'email' }
  | { kind: 'on_failure' }
  | { kind: 'source'; sourceId: string }
  /** A source that is created with the workflow. */
  | { kind: 'source'; component: string; configuredProps: ConfiguredProps; name?: string }
  /** The source component's code in place of its name. */
  | { kind: 'source'; code: string; configuredProps: ConfiguredProps; name?: string };

export type HttpAuth =
  | { type: 'none' }
  | TriggerAuth
  /** The token that the trigger has already. */
  | { type: 'static_bearer_token'; token?: never };

export function checkTriggers(triggers: readonly TriggerInput[]): void {
  if (triggers.length > triggersMax)
    throw invalidAt(
      'triggers',
      `a workflow has at most ${triggersMax} triggers, found ${triggers.length}; subscriptions to sources are not bounded so`,
    );
  for (const [index, trigger] of triggers.entries())
    refuseUnknownFields(trigger, ['id', 'type', 'props'], `triggers[${index}]`);
}

/** What a trigger says. Throws `invalid_parameter`, `missing_parameter` or `invalid_schedule` naming its field. */
export function readTrigger(trigger: TriggerInput, index: number): TriggerDefinition {
  const at = `triggers[${index}]`;
  const { type, props = {} } = trigger;
  switch (type) {
    case undefined:
      throw invalidAt(`${at}.type`, `required: one of ${triggerKinds.join(', ')}`, 'missing_parameter');
    case 'http':
      return readHttp(props, `${at}.props`);
    case 'timer':
      refuseUnknownFields(props, [...timerFields], `${at}.props`);
      return { kind: 'timer', schedule: readSchedule(props, `${at}.props`) };
    case 'email':
      refuseUnknownFields(props, [], `${at}.props`);
      return { kind: 'email' };
    case 'on_failure':
      refuseUnknownFields(props, [], `${at}.props`);
      return { kind: 'on_failure' };
    case 'source':
      return readSource(props, `${at}.props`);
    default:
      throw invalidAt(`${at}.type`, `expected one of ${triggerKinds.join(', ')}, found ${quoted(type)}`);
  }
}

const timerFields = [
  'interval_seconds',
  'intervalSeconds',
  'cron',
  'timezone',
] as const satisfies readonly string[];

function readHttp(props: Record<string, unknown>, at: string): TriggerDefinition {
  refuseUnknownFields(props, ['custom_response', 'auth'], at);
  const { custom_response = false, auth } = props;
  if (typeof custom_response !== 'boolean')
    throw invalidAt(`${at}.custom_response`, `expected true or false, found ${quoted(custom_response)}`);
  if (auth === undefined || auth === null) return { kind: 'http', customResponse: custom_response };
  const { type } = isRecord(auth) ? auth : {};
  if (!isRecord(auth) || (type !== 'none' && type !== 'static_bearer_token' && type !== 'oauth'))
    throw invalidAt(
      `${at}.auth`,
      'expected { "type": "none" }, { "type": "static_bearer_token", "token": "…" } or { "type": "oauth" }',
    );
  refuseUnknownFields(auth, ['type', 'token'], `${at}.auth`);
  if (type !== 'static_bearer_token')
    return { kind: 'http', customResponse: custom_response, auth: { type } };
  // Left out, it stays as it is; so that what was answered can be sent back.
  if (auth.token === undefined) return { kind: 'http', customResponse: custom_response, auth: { type } };
  if (typeof auth.token !== 'string' || !/^[\x21-\x7e]{8,1000}$/.test(auth.token))
    throw invalidAt(`${at}.auth.token`, 'expected 8 to 1000 printable characters without spaces');
  const { token } = auth;
  return { kind: 'http', customResponse: custom_response, auth: { type: 'static_bearer_token', token } };
}

function readSchedule(props: Record<string, unknown>, at: string): Schedule {
  const interval = props.interval_seconds ?? props.intervalSeconds;
  const { cron, timezone } = props;
  const hasInterval = interval !== undefined && interval !== null;
  const hasCron = cron !== undefined && cron !== null && cron !== '';
  if (hasInterval && hasCron) throw invalidAt(`${at}.cron`, 'give either interval_seconds or cron, not both');
  if (!hasInterval && !hasCron)
    throw invalidAt(
      `${at}.interval_seconds`,
      'one of interval_seconds and cron (with timezone) is required',
      'missing_parameter',
    );
  if (hasCron) {
    const schedule = { cron: cron as string, timezone: (timezone ?? 'UTC') as string };
    // The zone alone, so that the answer names it.
    checkSchedule({ cron: '0 0 * * *', timezone: schedule.timezone }, `${at}.timezone`);
    checkSchedule(schedule, `${at}.cron`);
    return schedule;
  }
  const schedule = { intervalSeconds: interval as number };
  checkSchedule(schedule, `${at}.interval_seconds`);
  return schedule;
}

function readSource(props: Record<string, unknown>, at: string): TriggerDefinition {
  refuseUnknownFields(props, ['source_id', 'component', 'code', 'configured_props', 'name'], at);
  const { source_id, component, code, configured_props = {}, name } = props;
  const named = [source_id, component, code].filter((value) => value !== undefined).length;
  if (named === 0)
    throw invalidAt(
      `${at}.source_id`,
      'one of source_id, component (key, key@version, sc_ id or URL) and code is required',
      'missing_parameter',
    );
  if (named > 1) throw invalidAt(`${at}.component`, 'give one of source_id, component and code, not several');
  for (const [field, value] of Object.entries({ source_id, component, code, name })) {
    if (value !== undefined && typeof value !== 'string')
      throw invalidAt(`${at}.${field}`, `expected a string, found ${quoted(value)}`);
    refuseNul(value as string | undefined, `${at}.${field}`);
  }
  if (typeof source_id === 'string') {
    if (props.configured_props !== undefined)
      throw invalidAt(
        `${at}.configured_props`,
        'a source that is there has its props; change them with PUT /v1/sources/{id}',
      );
    return { kind: 'source', sourceId: source_id };
  }
  if (!isRecord(configured_props))
    throw invalidAt(`${at}.configured_props`, `expected an object, found ${quoted(configured_props)}`);
  if (typeof name === 'string' && (name.length === 0 || name.length > 200))
    throw invalidAt(`${at}.name`, 'expected 1 to 200 characters');
  const rest = {
    kind: 'source' as const,
    configuredProps: configured_props,
    ...(typeof name === 'string' ? { name } : {}),
  };
  return typeof code === 'string' ? { ...rest, code } : { ...rest, component: component as string };
}

/** Columns of a trigger's schedule; none for those without. */
export function scheduleColumns(
  definition: TriggerDefinition,
): Pick<TriggerTable, 'interval_seconds' | 'cron' | 'timezone'> {
  if (definition.kind !== 'timer') return { interval_seconds: null, cron: null, timezone: 'UTC' };
  const { schedule } = definition;
  return 'cron' in schedule
    ? { interval_seconds: null, cron: schedule.cron, timezone: schedule.timezone }
    : { interval_seconds: schedule.intervalSeconds, cron: null, timezone: 'UTC' };
}

export function hasSameSchedule(
  a: Pick<TriggerTable, 'interval_seconds' | 'cron' | 'timezone'>,
  b: Pick<TriggerTable, 'interval_seconds' | 'cron' | 'timezone'>,
): boolean {
  return a.interval_seconds === b.interval_seconds && a.cron === b.cron && a.timezone === b.timezone;
}

/** The timer of a trigger that begins to tick now: an interval at once, cron at its first occurrence. */
export function timerOfTrigger(trigger: TriggerTable, nowMs: number): TimerTable[] {
  if (trigger.kind !== 'timer') return [];
  const { cron, timezone } = trigger;
  const firstMs = cron === null ? nowMs : nextOccurrence({ cron, timezone }, nowMs, nowMs);
  // A cron expression whose last occurrence has passed.
  if (firstMs === undefined) return [];
  return [
    {
      id: trigger.id,
      subject_id: trigger.workflow_id,
      owner_id: trigger.owner_id,
      prop: trigger.id,
      interval_seconds: trigger.interval_seconds,
      cron,
      timezone,
      next_at_ms: firstMs,
      schedule_changed_at_ms: trigger.schedule_changed_at_ms,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    },
  ];
}
