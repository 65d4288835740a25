import { isRecord } from '#components/validate-props.ts';
import { unreachable } from '#lib/assert.ts';
import type { TriggerTable } from '#storage/tables/workflow-tables.ts';
import { triggerAuthType } from './trigger-auth.ts';
import type { TriggerInput } from './workflow-input.ts';

/** A trigger that is there, as a request would give it. A bearer token is not in it: left out, it stays as it is. */
export function triggerAsInput(trigger: TriggerTable): TriggerInput {
  const type = trigger.kind;
  switch (type) {
    case 'http':
      return {
        type,
        props: {
          custom_response: trigger.custom_response === 1,
          ...(trigger.auth === null ? {} : { auth: { type: triggerAuthType(trigger) } }),
        },
      };
    case 'timer':
      return {
        type,
        props:
          trigger.cron === null
            ? { interval_seconds: trigger.interval_seconds }
            : { cron: trigger.cron, timezone: trigger.timezone },
      };
    case 'email':
    case 'on_failure':
      return { type, props: {} };
    case 'source':
      return { type, props: { source_id: trigger.id } };
    default:
      return unreachable(type);
  }
}

const sourceFields: ReadonlySet<string> = new Set([
  'source_id',
  'component',
  'code',
  'configured_props',
  'name',
]);

/**
 * A trigger with other props laid over it; those given win. For a source that is created with the workflow they are
 * the props of the source, unless they are all fields of the trigger itself.
 */
export function layTriggerOver(base: TriggerInput, given: TriggerInput): TriggerInput {
  const before = base.props ?? {};
  const props = given.props ?? {};
  if (Object.keys(props).length === 0) return base;
  if (base.type === 'timer') return { ...base, props: laySchedule(before, props) };
  if (base.type !== 'source') return { ...base, props: { ...before, ...props } };
  const isOfTrigger = Object.keys(props).every((name) => sourceFields.has(name));
  if (isOfTrigger && ['source_id', 'component', 'code'].some((name) => props[name] !== undefined))
    return { ...base, props };
  const configured = isOfTrigger ? props.configured_props : props;
  const named = isOfTrigger && props.name !== undefined ? { name: props.name } : {};
  if (before.source_id !== undefined && configured === undefined)
    return { ...base, props: { ...before, ...named } };
  const merged = {
    ...(isRecord(before.configured_props) ? before.configured_props : {}),
    ...(isRecord(configured) ? configured : {}),
  };
  return { ...base, props: { ...before, ...named, configured_props: merged } };
}

/** Either an interval or a cron expression: the one given takes the place of the other. */
function laySchedule(
  before: Record<string, unknown>,
  given: Record<string, unknown>,
): Record<string, unknown> {
  const hasInterval = (given.interval_seconds ?? given.intervalSeconds) != null;
  const hasCron = given.cron != null && given.cron !== '';
  if (hasInterval === hasCron) return { ...before, ...given };
  const { interval_seconds: _seconds, intervalSeconds: _alias, cron: _cron, ...rest } = before;
  return hasInterval ? { ...given } : { ...rest, ...given };
}
