import { createHash } from 'node:crypto';
import { isRecord } from '#components/validate-props.ts';
import type { ComponentReference } from '#registry/resolve-component.ts';
import {
  type AccountSlot,
  type ActionUse,
  connectCommand,
  gitRegistryCommand,
  type MapContext,
} from './map-step.ts';
import { byHand, checkIt, type Finding, type ForeignSource } from './project.ts';

/** A source as it is to be deployed here, with what a user should know of it. */
export interface MappedSource {
  oldId: string;
  name: string;
  /** It was active there. */
  active: boolean;
  /** Its endpoint URL there; '': it has none. */
  address: string;
  /** Undefined: it cannot be deployed, and a finding says why. */
  component: Pick<ComponentReference, 'key' | 'component_code'> | undefined;
  /** Its component there. */
  origin: ForeignSource['component'];
  props: Record<string, unknown>;
  findings: Finding[];
  accounts: AccountSlot[];
  /** Undefined: its code is deployed. */
  action: ActionUse | undefined;
}

/** Props that this service gives values to. */
const platformProps = new Set(['$.interface.http', '$.interface.apphook', '$.service.db', 'alert']);

/** Pure: a source as these answers and this service make it. */
export function mapSource(source: ForeignSource, context: MapContext): MappedSource {
  const mapped: MappedSource = {
    ...{ oldId: source.id, name: source.name, active: source.active },
    ...{ address: addressOf(source.props), origin: source.component },
    ...{ component: undefined, props: {}, findings: [], accounts: [], action: undefined },
  };
  mapped.component = componentOf(source, context, mapped);
  const definitions = new Map(source.definitions.map((definition) => [definition.name, definition]));
  const props = Object.entries(source.props).flatMap(([name, value]): [string, unknown][] => {
    const { type = '', app = '' } = definitions.get(name) ?? {};
    if (value === null || value === undefined || platformProps.has(type) || isEndpoint(value)) return [];
    if (isMasked(value)) {
      mapped.findings.push(
        byHand(
          `the value of its prop ${name} is secret there: give it here`,
          '',
          `millrace sources update SOURCE --prop ${propName(name)}=…`,
        ),
      );
      return [];
    }
    if (isRecord(value) && typeof value.authProvisionId === 'string')
      return accountOf(value.authProvisionId, { prop: name, app: app === '' ? name : app, context, mapped });
    const isTimer = type === '$.interface.timer' || (type === '' && isSchedule(value));
    return [[name, isTimer ? timerOf(value) : value]];
  });
  mapped.props = Object.fromEntries(props);
  return mapped;
}

/**
 * The same text for the same source: a later import compares it. How its component is named here is not in it: code that was deployed can be
 * named by its key afterwards.
 */
export function fingerprintOfSource({ name, origin, action, props }: MappedSource): string {
  const { key, version, code } = origin;
  const deployed =
    action === undefined || action.availability.state === 'missing' ? version : action.availability.version;
  const text = JSON.stringify([name, key, version, code, deployed, props]);
  return createHash('sha256').update(text).digest('hex');
}

function componentOf(
  { component: { key, version, code } }: ForeignSource,
  context: MapContext,
  mapped: MappedSource,
): MappedSource['component'] {
  const availability = key === '' ? ({ state: 'missing' } as const) : context.action(key, version);
  if (availability.state !== 'missing') {
    mapped.action = { key, version, availability, step: '' };
    if (availability.state === 'other_version')
      mapped.findings.push(
        checkIt(
          `it ran ${key}@${version}, and version ${availability.version} runs here`,
          '',
          gitRegistryCommand,
        ),
      );
    return { key: availability.component };
  }
  if (code !== '') return { component_code: code };
  if (key !== '') mapped.action = { key, version, availability, step: '' };
  mapped.findings.push(
    byHand(
      key === ''
        ? 'what it runs could not be read: deploy its component here with its props'
        : `this service has no component ${version === '' ? key : `${key}@${version}`}: add its registry and import again`,
      '',
      key === '' ? '' : gitRegistryCommand,
    ),
  );
  return undefined;
}

function accountOf(
  oldId: string,
  { prop, app, context, mapped }: { prop: string; app: string; context: MapContext; mapped: MappedSource },
): [string, unknown][] {
  const accountId = context.account(oldId, app);
  mapped.accounts.push({ app, oldId, accountId, place: prop });
  if (accountId !== undefined) return [[prop, { authProvisionId: accountId }]];
  mapped.findings.push(
    byHand(
      `${prop} needs an account of ${app}: connect it, and import again with --account`,
      '',
      connectCommand(app),
    ),
  );
  return [];
}

/** The API answers both forms of a schedule, one of them null. */
function timerOf(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const { cron, timezone, interval_seconds: seconds, intervalSeconds = seconds } = value;
  if (typeof cron === 'string' && cron !== '')
    return { cron, timezone: typeof timezone === 'string' && timezone !== '' ? timezone : 'UTC' };
  return { intervalSeconds };
}

/** What a project export has of a timer prop, whose type it does not say. */
function isSchedule(value: unknown): boolean {
  const names = ['cron', 'timezone', 'interval_seconds', 'intervalSeconds'];
  return isRecord(value) && ('cron' in value || 'interval_seconds' in value)
    ? Object.keys(value).every((name) => names.includes(name))
    : false;
}

/** The address of an HTTP interface, which is a new one here. */
function isEndpoint(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length === 1 && typeof value.endpoint_url === 'string';
}

function addressOf(props: Record<string, unknown>): string {
  const [found] = Object.values(props).filter(isEndpoint) as { endpoint_url: string }[];
  return (found?.endpoint_url ?? '').replaceAll('\0', '').slice(0, 500);
}

/** What an API shows in place of a secret. */
function isMasked(value: unknown): boolean {
  return typeof value === 'string' && /^(?:\u2022{3,}|\*{3,}|\[?(?:hidden|redacted)\]?)$/i.test(value);
}

function propName(name: string): string {
  return /^\w+$/.test(name) ? name : 'PROP';
}
