import { type ApiObject, isObject } from './api.ts';
import { CliError } from './exit-codes.ts';
import { type PipedreamApi, Unreadable } from './pipedream-api.ts';

/** As the service allows (src/imports/api-records.ts). */
const recordsMax = 5_000;
const workflowsMax = 1_000;
/** Events that are read for each source that a workflow listens to. */
const eventsPerSource = 10;

/** What the API answered, as it stands in a bundle; credentials are never asked for. */
export interface ApiRecords {
  sources: ApiObject[];
  /** By id (sc_…). */
  components: Record<string, unknown>;
  /** By id (p_…). */
  workflows: Record<string, unknown>;
  subscriptions: ApiObject[];
  webhooks: ApiObject[];
  accounts: ApiObject[];
  /** By the id of a source, newest first. */
  events: Record<string, unknown[]>;
  /** What could not be read. */
  unreadable: { part: string; reason: string }[];
}

/** Ids that a repository or an archive names. */
export interface KnownIds {
  /** p_… */
  workflows: readonly string[];
  /** Ids of triggers. */
  triggers: readonly string[];
}

/** `workspaces`: ids (o_…) beside those that the user's own record lists. `onPart`: called with what is read now. */
export async function readPipedream(
  api: PipedreamApi,
  {
    known,
    workspaces,
    onPart,
  }: { known: KnownIds; workspaces: readonly string[]; onPart: (part: string) => void },
): Promise<ApiRecords> {
  const reading = new Reading(api, onPart);
  await reading.lists(await reading.workspaces(workspaces));
  await reading.components();
  await reading.workflowsOf(known);
  await reading.eventsOf(known);
  return reading.records;
}

class Reading {
  readonly records: ApiRecords = {
    ...{
      sources: [],
      components: {},
      workflows: {},
      subscriptions: [],
      webhooks: [],
      accounts: [],
      events: {},
    },
    unreadable: [],
  };
  readonly #api: PipedreamApi;
  readonly #onPart: (part: string) => void;

  constructor(api: PipedreamApi, onPart: (part: string) => void) {
    this.#api = api;
    this.#onPart = onPart;
  }

  /** The record of the user is read for this only: it may hold the key itself. Throws CliError when the key is not valid. */
  async workspaces(named: readonly string[]): Promise<string[]> {
    this.#onPart('the user');
    try {
      const me = await this.#api.get('/users/me', 'the user of the key');
      const listed = isObject(me) && Array.isArray(me.orgs) ? me.orgs : [];
      return [...new Set([...named, ...listed.flatMap((one: unknown) => idOf(one, 'o') ?? [])])];
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      throw new CliError('notAllowed', `the user of the API key: ${error.message}`, {
        hint: 'Expected the API key of a user (in Pipedream: My Account, API Key), not a token of an OAuth client.',
      });
    }
  }

  async lists(workspaces: readonly string[]): Promise<void> {
    const { records } = this;
    const both = (path: (prefix: string) => string, prefix: string) => [
      { path: path('/users/me'), what: 'of the user' },
      ...workspaces.map((id) => ({ path: path(`/${prefix}/${id}`), what: `of workspace ${id}` })),
    ];
    for (const { path, what } of both((owner) => `${owner}/sources`, 'orgs'))
      await this.#add(records.sources, { path, what: `sources ${what}`, prefix: 'dc', fields: sourceFields });
    for (const { path, what } of both((owner) => `${owner}/subscriptions`, 'workspaces'))
      await this.#add(records.subscriptions, {
        ...{ path, what: `subscriptions ${what}`, prefix: 'sub', fields: subscriptionFields },
      });
    for (const { path, what } of both((owner) => `${owner}/webhooks`, 'workspaces'))
      await this.#add(records.webhooks, {
        ...{ path, what: `webhooks ${what}`, prefix: 'wh', fields: webhookFields },
      });
    await this.#add(records.accounts, {
      path: '/accounts',
      what: 'accounts',
      prefix: 'apn',
      fields: accountFields,
    });
    for (const id of workspaces)
      await this.#add(records.accounts, {
        ...{ path: `/workspaces/${id}/accounts`, what: `accounts of workspace ${id}` },
        ...{ prefix: 'apn', fields: accountFields },
      });
  }

  /** The component of each source. */
  async components(): Promise<void> {
    const { sources, components } = this.records;
    for (const id of new Set(sources.map(({ component_id }) => component_id))) {
      if (!isId(id, 'sc')) continue;
      const component = await this.#one(`/components/${id}`, `component ${id}`);
      if (isObject(component)) components[id] = picked(component, componentFields);
    }
  }

  /** Workflows cannot be listed: those that the repository, the archive or a subscription names. */
  async workflowsOf({ workflows }: KnownIds): Promise<void> {
    const { subscriptions, workflows: found } = this.records;
    const ends = subscriptions.flatMap(({ emitter_id, listener_id }) => [emitter_id, listener_id]);
    const ids = new Set([...workflows, ...ends].filter((id) => isId(id, 'p')));
    if (ids.size > workflowsMax)
      throw new CliError('failed', `there are ${ids.size} workflows, expected at most ${workflowsMax}`);
    for (const id of ids) {
      const workflow = await this.#one(`/workflows/${id}`, `workflow ${id}`);
      if (isObject(workflow)) found[id] = workflow;
    }
  }

  async eventsOf({ triggers }: KnownIds): Promise<void> {
    const { sources, subscriptions, workflows, events } = this.records;
    const heard = new Set<unknown>(triggers);
    for (const { emitter_id, listener_id } of subscriptions)
      if (isId(listener_id, 'p')) heard.add(emitter_id);
    for (const workflow of Object.values(workflows)) {
      const given = isObject(workflow) && Array.isArray(workflow.triggers) ? workflow.triggers : [];
      for (const trigger of given) if (isObject(trigger)) heard.add(trigger.id);
    }
    for (const { id } of sources) {
      if (!isId(id, 'dc') || !heard.has(id)) continue;
      const found = await this.#one(`/sources/${id}/event_summaries`, `events of source ${id}`, {
        ...{ limit: String(eventsPerSource), expand: 'event' },
      });
      if (Array.isArray(found))
        events[id] = found.filter(isObject).map((event) => picked(event, eventFields));
    }
  }

  async #add(
    to: ApiObject[],
    { path, what, prefix, fields }: { path: string; what: string; prefix: string; fields: readonly string[] },
  ): Promise<void> {
    await this.#attempt(what, async () => {
      const known = new Set(to.map(({ id }) => id));
      for (const item of await this.#api.list(path, what, recordsMax)) {
        const id = idOf(item, prefix);
        if (id === undefined || known.has(id)) continue;
        to.push(picked(item as ApiObject, fields));
      }
    });
  }

  async #one(path: string, what: string, query: Readonly<Record<string, string>> = {}): Promise<unknown> {
    let found: unknown;
    await this.#attempt(what, async () => {
      found = await this.#api.get(path, what, query);
    });
    return found;
  }

  async #attempt(part: string, read: () => Promise<void>): Promise<void> {
    this.#onPart(part);
    try {
      await read();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.records.unreadable.push({ part, reason: error.message });
    }
  }
}

const sourceFields = ['id', 'name', 'name_slug', 'active', 'component_id', 'key', 'configured_props'];
const componentFields = ['id', 'key', 'name', 'version', 'code', 'configurable_props'];
const subscriptionFields = ['id', 'emitter_id', 'listener_id', 'event_name'];
const webhookFields = ['id', 'name', 'description', 'url', 'active'];
const accountFields = ['id', 'name', 'app'];
const eventFields = ['id', 'event', 'truncated'];

/** What an import needs; the rest, such as credentials, is left out. */
function picked(record: ApiObject, fields: readonly string[]): ApiObject {
  return Object.fromEntries(fields.flatMap((name) => (name in record ? [[name, record[name]]] : [])));
}

/** Ids are put into paths. */
function isId(value: unknown, prefix: string): value is string {
  return typeof value === 'string' && new RegExp(`^${prefix}_\\w{1,100}$`).test(value);
}

function idOf(record: unknown, prefix: string): string | undefined {
  const id = isObject(record) ? record.id : undefined;
  return isId(id, prefix) ? id : undefined;
}
