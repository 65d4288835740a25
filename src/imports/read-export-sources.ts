import { isRecord } from '#components/validate-props.ts';
import { sourceOf, subscriptionOf } from './api-records.ts';
import type { ForeignObjects, ForeignSource, ForeignSubscription, ForeignTrigger } from './project.ts';

type Loose = Record<string, unknown>;

/** Where a trigger of an export may have what it says of its source. */
const partNames = ['source', 'component', 'saved_component', 'savedComponent', 'config'];
const keyNames = ['component_key', 'componentKey', 'key'];
const versionNames = ['component_version', 'componentVersion', 'version'];
const codeNames = ['code', 'code_raw', 'codeRaw', 'source_code'];
const propsNames = [
  'configured_props',
  'configuredProps',
  'props',
  'params',
  'configured_props_json',
  'params_json',
];
const emitterNames = ['emitter_id', 'emitterId'];
const eventNames = ['event_name', 'eventName'];

/** Fields of a trigger that describe its source or its subscription. */
export const sourceFields = [
  ...[
    ...partNames,
    ...keyNames,
    ...versionNames,
    ...codeNames,
    ...propsNames,
    ...emitterNames,
    ...eventNames,
  ],
  ...['name', 'active', 'enabled', 'inactive', 'disabled'],
];

/** Sources and subscriptions that triggers of a project export describe, each once. */
export class ExportSources {
  readonly #sources = new Map<string, ForeignSource>();
  readonly #subscriptions = new Map<string, ForeignSubscription>();

  /** A trigger that has no more than the id of its source adds nothing: the report of its workflow says what is missing. */
  add(record: unknown, { id, kind }: ForeignTrigger, workflowId: string): void {
    if (!isRecord(record)) return;
    const parts = partsOf(record);
    if (kind === 'source' && !this.#sources.has(id)) {
      const source = sourceIn(parts, id);
      if (source.component.key !== '' || source.component.code !== '') this.#sources.set(id, source);
    }
    if (kind === 'subscription' && !this.#subscriptions.has(id)) {
      const [emitter_id, event_name] = [firstText(parts, emitterNames), firstText(parts, eventNames)];
      if (emitter_id !== '')
        this.#subscriptions.set(id, subscriptionOf({ emitter_id, event_name, listener_id: workflowId }, id));
    }
  }

  /** Undefined: there are none. */
  objects(): ForeignObjects | undefined {
    const [sources, subscriptions] = [[...this.#sources.values()], [...this.#subscriptions.values()]];
    if (sources.length + subscriptions.length === 0) return undefined;
    return { sources, subscriptions, webhooks: [], accounts: [], unreadable: [] };
  }
}

function sourceIn(parts: readonly Loose[], id: string): ForeignSource {
  // A version may stand behind the key.
  const [, key = '', pinned = ''] = /^([A-Za-z0-9_.-]+)(?:@(.+))?$/.exec(firstText(parts, keyNames)) ?? [];
  const component = {
    ...{ key, version: pinned || firstText(parts, versionNames) },
    code: first(parts, codeNames, (value) => typeof value === 'string'),
    configurable_props: first(parts, ['configurable_props', 'configurableProps'], Array.isArray),
  };
  const props = propsIn(first(parts, propsNames, (value) => isRecord(propsIn(value))));
  const record = { name: firstText(parts, ['name']), configured_props: props };
  const isOff = parts.some(
    ({ active, enabled, inactive, disabled }) =>
      active === false || enabled === false || inactive === true || disabled === true,
  );
  return { ...sourceOf(record, { id, component, events: undefined }), active: !isOff };
}

/** The trigger and the records in it that describe its source, outer ones first. */
function partsOf(record: Loose, depth = 0): Loose[] {
  if (depth > 2) return [];
  const inner = partNames.map((name) => record[name]).filter(isRecord);
  return [record, ...inner.flatMap((part) => partsOf(part, depth + 1))];
}

function first(
  parts: readonly Loose[],
  names: readonly string[],
  isWanted: (value: unknown) => boolean,
): unknown {
  for (const part of parts)
    for (const name of names) if (Object.hasOwn(part, name) && isWanted(part[name])) return part[name];
  return undefined;
}

function firstText(parts: readonly Loose[], names: readonly string[]): string {
  return String(first(parts, names, (value) => typeof value === 'string' && value !== '') ?? '');
}

/** Props are a record, or JSON text of one. */
function propsIn(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return undefined;
  }
}
