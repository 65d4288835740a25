import { unwrapChoice } from '#components/chosen-value.ts';
import type { PropDefinition } from '#components/component-shape.ts';
import { type ConfiguredProps, isRecord, propError } from '#components/validate-props.ts';
import { checkSchedule, type Schedule } from '#schedule/next-occurrence.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { Apphook } from './apphooks.ts';
import { isSecretProp, sealedNames } from './sealed-props.ts';

/** The schedule of each timer prop. Throws `invalid_schedule` or `invalid_prop` naming the prop. */
export function timerSchedules(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
): { prop: string; schedule: Schedule }[] {
  return definitions
    .filter((definition) => definition.type === '$.interface.timer')
    .flatMap((definition) => {
      const schedule = timerSchedule(definition, values[definition.name]);
      if (schedule === undefined) return [];
      checkSchedule(schedule, `configured_props.${definition.name}`);
      return [{ prop: definition.name, schedule }];
    });
}

/** The schedule that is written in a timer prop, which may never fire any longer. Throws `invalid_prop` naming the prop. */
function timerSchedule(definition: PropDefinition, configured: unknown): Schedule | undefined {
  const legacy =
    definition.intervalSeconds === undefined ? undefined : { intervalSeconds: definition.intervalSeconds };
  const value = definition.static ?? configured ?? definition.default ?? legacy;
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value))
    throw propError(definition.name, 'expected { intervalSeconds } or { cron, timezone }');
  // What the API answers (cron, interval_seconds) may be sent back as it is.
  const intervalSeconds = value.intervalSeconds ?? value.interval_seconds;
  const { cron } = value;
  if (typeof cron === 'string' && cron !== '') {
    return { cron, timezone: (value.timezone as string | undefined) ?? 'UTC' };
  }
  if (intervalSeconds === undefined || intervalSeconds === null) {
    throw propError(definition.name, 'expected { intervalSeconds } or { cron, timezone }');
  }
  return { intervalSeconds: intervalSeconds as number };
}

export function hasHttpInterface(definitions: readonly PropDefinition[]): boolean {
  return definitions.some((definition) => definition.type === '$.interface.http');
}

/** True when the component itself replies to requests. */
export function repliesItself(definitions: readonly PropDefinition[]): boolean {
  return definitions.some(
    (definition) => definition.type === '$.interface.http' && definition.customResponse === true,
  );
}

/** Names of connected accounts by app prop. */
export function accountProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
): { prop: string; accountId: string }[] {
  return definitions
    .filter((definition) => definition.type === 'app')
    .flatMap((definition) => {
      const value = values[definition.name];
      return isRecord(value) && typeof value.authProvisionId === 'string'
        ? [{ prop: definition.name, accountId: value.authProvisionId }]
        : [];
    });
}

/**
 * What `this.<prop>` is made from (runner interface, `CallRequest.props`). Schedules were checked when they were set: checking them for each of a
 * thousand timers that are due together takes a quarter of a second.
 */
export function runtimeProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  context: { endpointUrl: string | undefined; credentials: ReadonlyMap<string, Record<string, unknown>> },
): Record<string, unknown> {
  const props: Record<string, unknown> = {};
  for (const definition of definitions) {
    const { name, type } = definition;
    if (type === 'app') {
      const auth = context.credentials.get(name);
      props[name] = auth === undefined ? {} : { $auth: auth };
    } else if (type === '$.interface.http') {
      props[name] = { endpoint: context.endpointUrl };
    } else if (type === '$.interface.timer') {
      props[name] = timerSchedule(definition, values[name]) ?? {};
    } else {
      const value = values[name] ?? definition.default;
      if (value !== undefined) props[name] = value;
    }
  }
  return props;
}

/**
 * Values for props that no definition is there for yet: additionalProps sees them too, since which props it defines may
 * depend on the value of one that it defined before.
 */
export function undefinedProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
): Record<string, unknown> {
  const defined = new Set(definitions.map(({ name }) => name));
  return Object.fromEntries(
    Object.entries(values)
      .filter(([name]) => !defined.has(name))
      .map(([name, value]) => [name, unwrapChoice(value, false)]),
  );
}

/** `configured_props` as the API answers them (specification, section 2, Source). Secret values are masked. */
export function viewProps(
  source: Pick<SourceTable, 'configured_props' | 'sealed_props'> & { apphooks?: string | null },
  definitions: readonly PropDefinition[],
  endpointUrl: string | undefined,
): Record<string, unknown> {
  const values = JSON.parse(source.configured_props) as ConfiguredProps;
  const view: Record<string, unknown> = { ...values };
  for (const name of sealedNames(source)) view[name] = maskedSecret;
  for (const { prop, app, names } of JSON.parse(source.apphooks ?? '[]') as Apphook[])
    view[prop] = { app, event_names: names };
  for (const definition of definitions) {
    const { name, type } = definition;
    if (type === '$.interface.http') {
      view[name] = { endpoint_url: endpointUrl };
    } else if (type === '$.interface.timer') {
      const schedule = timerSchedule(definition, values[name]);
      if (schedule === undefined) delete view[name];
      else if ('cron' in schedule)
        view[name] = { cron: schedule.cron, interval_seconds: null, timezone: schedule.timezone };
      else view[name] = { cron: null, interval_seconds: schedule.intervalSeconds };
    } else if (isSecretProp(definition) && values[name] !== undefined) {
      view[name] = maskedSecret;
    }
  }
  return view;
}

/** Shown in place of a secret prop; sent back, it means "unchanged". */
export const maskedSecret = '••••••••';

/** For values of a new object, which has no stored value that a mask could keep. Throws CallerError `invalid_prop`. */
export function refuseMasked(values: ConfiguredProps): void {
  for (const [name, value] of Object.entries(values))
    if (value === maskedSecret) throw propError(name, 'this is how a secret is shown; give its value');
}

/** For values that are sent back as they were returned: masked secrets keep their present value. */
export function keepMaskedSecrets(
  secretNames: readonly string[],
  values: ConfiguredProps,
  before: ConfiguredProps,
): ConfiguredProps {
  const kept = { ...values };
  for (const name of secretNames) if (kept[name] === maskedSecret) kept[name] = before[name];
  return kept;
}
