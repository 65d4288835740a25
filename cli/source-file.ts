import type { Component, Source } from '#sdk';
import { type ApiObject, isObject } from './api.ts';
import type { FolderNames } from './folder-names.ts';
import {
  localProps,
  type RequestOptions,
  remoteProps,
  sorted,
  type Warn,
  type WorkflowForm,
} from './workflow-file.ts';

/** The form of source.yaml. */
export const sourceSchema = 'millrace.source/1';

/** What the service fills in by itself. */
const filledTypes: ReadonlySet<string> = new Set(['$.interface.http', '$.interface.apphook', '$.service.db']);

type Fields = Record<string, unknown>;

/** A source as a folder has it. `isRegistered`: its component is one of the registry, which a key and a version name. */
export function sourceForm(
  source: Source,
  component: Component,
  options: { names: FolderNames; warn: Warn; uses: string | undefined; isRegistered: boolean },
): WorkflowForm {
  const { isRegistered, uses: kept } = options;
  const path = kept?.startsWith('./') === true ? kept : './entry.js';
  const definitions = component.configurable_props;
  const types = new Map(definitions.map(({ name, type }) => [name, type]));
  const given = Object.entries(source.configured_props).flatMap(([name, value]) => {
    const type = types.get(name) ?? '';
    if (filledTypes.has(type)) return [];
    return [[name, type === '$.interface.timer' ? scheduleOf(value) : value] as const];
  });
  return canonicalSource({
    file: {
      schema: sourceSchema,
      name: source.name,
      inactive: !source.active,
      uses: isRegistered ? `${component.key}@${component.version}` : path,
      props: localProps(Object.fromEntries(given), types, options),
      concurrency: source.concurrency,
      isolated: source.isolated,
      flow_control: source.flow_control,
    },
    code: isRegistered ? new Map() : new Map([[path, component.code]]),
  });
}

/** As a request gives it; the API answers both forms in one. */
function scheduleOf(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { cron, timezone, interval_seconds, intervalSeconds = interval_seconds } = value;
  return typeof cron === 'string' ? { cron, timezone: timezone ?? 'UTC' } : { intervalSeconds };
}

export function canonicalSource({ file, code }: WorkflowForm): WorkflowForm {
  const { schema, name, inactive, uses, props, concurrency, isolated, flow_control, ...rest } = file;
  const given = Object.entries(isObject(props) ? props : {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    file: {
      schema,
      name,
      ...(inactive === true ? { inactive } : {}),
      uses,
      ...(given.length === 0 ? {} : { props: Object.fromEntries(given) }),
      ...(concurrency === undefined || concurrency === 1 ? {} : { concurrency }),
      ...(isolated === true ? { isolated } : {}),
      ...(isObject(flow_control) ? { flow_control: sorted(flow_control) } : {}),
      ...rest,
    },
    code,
  };
}

/** The body of a request that makes or changes the source. `present`: it on the service. */
export function sourceInput(
  { file, code }: WorkflowForm,
  options: Pick<RequestOptions, 'idOf' | 'secretAt'> & { present: Source | undefined; isCodeNew: boolean },
): ApiObject {
  const { present, isCodeNew } = options;
  const uses = String(file.uses);
  const component = uses.startsWith('./') ? { component_code: code.get(uses) ?? '' } : { key: uses };
  const props: Fields = isObject(file.props) ? file.props : {};
  return {
    ...(present === undefined || isCodeNew ? component : {}),
    name: file.name,
    configured_props: remoteProps(props, present?.configured_props ?? {}, { ...options, place: 'props' }),
    concurrency: file.concurrency ?? 1,
    isolated: file.isolated === true,
    flow_control: file.flow_control ?? null,
  };
}
