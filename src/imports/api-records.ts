import { isRecord } from '#components/validate-props.ts';
import type {
  FileProblem,
  ForeignAccount,
  ForeignObjects,
  ForeignSource,
  ForeignSubscription,
  ForeignWebhook,
} from './project.ts';
import { refused } from './project-files.ts';

/** Maximum of the records of one kind in a bundle. */
const recordsMax = 5_000;
/** Maximum of the events that are read for one source. */
const eventsMax = 20;
/** Maximum of the JSON text of an event that becomes a test event, in characters. */
const eventCharactersMax = 256 * 1024;
const nameMax = 200;
const descriptionMax = 1_000;
const urlMax = 2_000;

type Loose = Record<string, unknown>;

/** What the API of the hosted service answered, as far as it is known here. */
export interface ApiRecords {
  objects: ForeignObjects;
  /** By id: answers about single workflows, as they came. */
  workflows: Map<string, Loose>;
  /** Records that are not what they should be. */
  problems: FileProblem[];
}

/** Reads the `api` of a bundle. Unusable records become problems. Throws CallerError `invalid_import` for too many records of a kind. */
export function readApiRecords(api: Loose): ApiRecords {
  const problems: FileProblem[] = [];
  const components = isRecord(api.components) ? api.components : {};
  const events = isRecord(api.events) ? api.events : {};
  const records = <Kind>(kind: string, prefix: string, read: (record: Loose, id: string) => Kind): Kind[] => {
    const given = api[kind] ?? [];
    if (!Array.isArray(given)) throw refused(`api.${kind}: expected a list`);
    checkCount(kind, given.length);
    const known = new Set<string>();
    return given.flatMap((record: unknown, at) => {
      const id = isRecord(record) ? record.id : undefined;
      if (!isRecord(record) || !isId(id, prefix)) {
        problems.push({ path: `api.${kind}[${at}]`, message: `it has no id, expected ${prefix}_…` });
        return [];
      }
      if (known.has(id)) return [];
      known.add(id);
      return [read(record, id)];
    });
  };
  return {
    objects: {
      sources: records('sources', 'dc', (record, id) =>
        sourceOf(record, { id, component: ownValue(components, record.component_id), events: events[id] }),
      ),
      webhooks: records('webhooks', 'wh', webhookOf),
      subscriptions: records('subscriptions', 'sub', subscriptionOf),
      accounts: records('accounts', 'apn', accountOf),
      unreadable: unreadableOf(api.unreadable),
    },
    workflows: workflowsOf(api.workflows, problems),
    problems,
  };
}

/** One source, also where it stands among the triggers of a workflow. */
export function sourceOf(
  record: Loose,
  { id, component, events }: { id: string; component: unknown; events: unknown },
): ForeignSource {
  const code = isRecord(component) ? component : {};
  const given = Array.isArray(code.configurable_props) ? code.configurable_props : [];
  return {
    id,
    name: textOf(record.name, nameMax) || textOf(record.name_slug, nameMax) || id,
    active: record.active === true,
    component: {
      key: keyOf(textOf(code.key, nameMax) || textOf(record.key, nameMax) || keyInCode(code.code)),
      version: textOf(code.version, 100),
      code: typeof code.code === 'string' ? code.code : '',
    },
    definitions: given.flatMap((prop: unknown) =>
      isRecord(prop) && typeof prop.name === 'string'
        ? [{ name: prop.name, type: textOf(prop.type, nameMax), app: textOf(prop.app, nameMax) }]
        : [],
    ),
    props: isRecord(record.configured_props) ? record.configured_props : {},
    events: eventsOf(events),
  };
}

/** What the code of a component says that its key is; '': nothing. */
function keyInCode(code: unknown): string {
  return typeof code === 'string'
    ? (/(?:^|[\s{,])["']?key["']?\s*:\s*["']([\w.-]{1,200})["']/.exec(code)?.[1] ?? '')
    : '';
}

function keyOf(text: string): string {
  return /^[\w.-]{1,200}$/.test(text) ? text : '';
}

function eventsOf(value: unknown): ForeignSource['events'] {
  if (!Array.isArray(value)) return [];
  return value
    .slice(0, eventsMax)
    .flatMap((one: unknown) =>
      isRecord(one) &&
      /^\d{1,15}-\d{1,10}$/.test(textOf(one.id, 100)) &&
      one.event !== undefined &&
      one.truncated !== true &&
      JSON.stringify(one.event).length <= eventCharactersMax
        ? [{ id: textOf(one.id, 100), event: one.event }]
        : [],
    );
}

function webhookOf(record: Loose, id: string): ForeignWebhook {
  return {
    id,
    name: textOf(record.name, nameMax) || null,
    description: textOf(record.description, descriptionMax) || null,
    url: textOf(record.url, urlMax),
    active: record.active !== false,
  };
}

/** One subscription, also where it triggers a workflow of an export. */
export function subscriptionOf(record: Loose, id: string): ForeignSubscription {
  return {
    id,
    emitterId: textOf(record.emitter_id, 100),
    listenerId: textOf(record.listener_id, 100),
    eventName: textOf(record.event_name, 1_000),
  };
}

function accountOf(record: Loose, id: string): ForeignAccount {
  const app = isRecord(record.app) ? record.app : {};
  return { id, app: textOf(app.name_slug, 100) || textOf(app.name, 100), name: textOf(record.name, nameMax) };
}

function unreadableOf(value: unknown): ForeignObjects['unreadable'] {
  if (!Array.isArray(value)) return [];
  return value
    .slice(0, recordsMax)
    .flatMap((one: unknown) =>
      isRecord(one) ? [{ part: textOf(one.part, 200), reason: textOf(one.reason, 500) }] : [],
    );
}

function workflowsOf(value: unknown, problems: FileProblem[]): Map<string, Loose> {
  const entries = Object.entries(isRecord(value) ? value : {});
  checkCount('workflows', entries.length);
  return new Map(
    entries.flatMap(([id, record]): [string, Loose][] => {
      if (isId(id, 'p') && isRecord(record)) return [[id, record]];
      problems.push({ path: 'api.workflows', message: 'it has no workflow by its id, expected p_…' });
      return [];
    }),
  );
}

function checkCount(kind: string, count: number): void {
  if (count > recordsMax) throw refused(`api.${kind}: found ${count}, expected at most ${recordsMax}`);
}

function isId(value: unknown, prefix: string): value is string {
  return typeof value === 'string' && new RegExp(`^${prefix}_\\w{1,100}$`).test(value);
}

function ownValue(record: Loose, name: unknown): unknown {
  return typeof name === 'string' && Object.hasOwn(record, name) ? record[name] : undefined;
}

/** '' for what is no text. NUL is no part of a text in PostgreSQL. */
function textOf(value: unknown, max: number): string {
  return typeof value === 'string' ? value.replaceAll('\0', '').slice(0, max) : '';
}
