import type { Webhook } from '#sdk';
import { isObject } from './api.ts';
import { CliError } from './exit-codes.ts';
import type { FolderFiles } from './folder-files.ts';
import { contentVersion, type NameKind, sortedJson } from './folder-names.ts';
import type { ServiceContent, ServiceSubscription } from './folder-service.ts';
import { readYaml, yamlText } from './folder-yaml.ts';

/** Files in the root of a folder: webhooks and subscriptions without keys, variables without values. */
const files = {
  webhooks: { name: 'webhooks.yaml', schema: 'millrace.webhooks/1' },
  subscriptions: { name: 'subscriptions.yaml', schema: 'millrace.subscriptions/1' },
  variables: { name: 'variables.yaml', schema: 'millrace.variables/1' },
} as const;

export interface LinkedWebhook {
  name: string | null;
  description: string | null;
  url: string;
}

export interface LinkedSubscription {
  /** `workflows/orders-p_…`, `sources/…`, an id, or all of a kind. */
  emitter: string;
  listener: string;
  channel: string;
}

export interface FolderLinks {
  webhooks: Map<string, LinkedWebhook>;
  subscriptions: LinkedSubscription[];
}

const kinds = ['workflows', 'sources', 'webhooks'] as const satisfies readonly NameKind[];

/** The emitter of subscriptions that new sources and workflows get by themselves, and that of everything of the owner. */
export const newEmitters = 'new';
const everything = '*';

/** How a folder calls an end of a subscription. */
export function nameOfEnd(id: string, { names, ownerId }: Pick<ServiceContent, 'names' | 'ownerId'>): string {
  if (id === ownerId) return everything;
  for (const kind of kinds) {
    const name = names.nameOf(kind, id);
    if (name !== undefined) return `${kind}/${name}`;
  }
  return id;
}

export function linksOf(content: ServiceContent): FolderLinks {
  const { webhooks, subscriptions, names } = content;
  return {
    webhooks: new Map(
      webhooks
        .map(
          ({ id, name, description, url }: Webhook) =>
            [names.nameOf('webhooks', id) ?? id, { name, description, url }] as const,
        )
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    ),
    subscriptions: subscriptions
      .map(({ emitter_id, listener_id, event_name }: ServiceSubscription) => ({
        emitter: nameOfEnd(emitter_id, content),
        listener: nameOfEnd(listener_id, content),
        channel: event_name,
      }))
      .toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
  };
}

/** The same for the same subscription. */
export function keyOf({ emitter, listener, channel }: LinkedSubscription): string {
  return [listener, emitter, channel].join(' ');
}

/** The same for the same webhooks and subscriptions, in any order. */
export function linksVersion({ webhooks, subscriptions }: FolderLinks): string {
  return contentVersion([Object.fromEntries(webhooks), subscriptions.map(keyOf).toSorted()]);
}

/** The id of an end of a subscription; undefined: there is none of this name. */
export function idOfEnd(
  end: string,
  { names, ownerId }: Pick<ServiceContent, 'names' | 'ownerId'>,
): string | undefined {
  if (end === everything) return ownerId;
  const slash = end.indexOf('/');
  if (slash === -1) return end;
  const kind = kinds.find((one) => one === end.slice(0, slash));
  return kind === undefined ? undefined : names.idOf(kind, end.slice(slash + 1));
}

export async function readLinks(folder: FolderFiles): Promise<FolderLinks> {
  const read = async (file: { name: string; schema: string }): Promise<Record<string, unknown>> => {
    const text = await folder.read(file.name);
    if (text === undefined) return {};
    const content = readYaml(text, file.name);
    if (content.schema !== file.schema)
      throw new CliError('failed', `${file.name}: schema: expected ${file.schema}`);
    return content;
  };
  const { webhooks } = await read(files.webhooks);
  const { subscriptions } = await read(files.subscriptions);
  const listed = Array.isArray(subscriptions) ? subscriptions.filter(isObject) : [];
  return {
    webhooks: new Map(
      Object.entries(isObject(webhooks) ? webhooks : {}).map(([name, one]) => {
        const { name: called, description, url } = isObject(one) ? one : {};
        if (typeof url !== 'string')
          throw new CliError('failed', `${files.webhooks.name}: ${name}.url: required`);
        return [name, { name: textOrNull(called), description: textOrNull(description), url }];
      }),
    ),
    subscriptions: listed.map(({ emitter, listener, channel }) => ({
      emitter: String(emitter),
      listener: String(listener),
      channel: textOrNull(channel) ?? '',
    })),
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** Files with the same meaning stay as they are; one without content is removed. */
export async function writeLinks(folder: FolderFiles, links: FolderLinks): Promise<void> {
  const before = await readLinks(folder).catch(() => undefined);
  if (before === undefined || sortedJson([...before.webhooks]) !== sortedJson([...links.webhooks])) {
    const webhooks = Object.fromEntries(
      [...links.webhooks].map(([name, { name: called, description, url }]) => [
        name,
        {
          ...(called === null ? {} : { name: called }),
          ...(description === null ? {} : { description }),
          url,
        },
      ]),
    );
    await write(folder, files.webhooks, links.webhooks.size === 0 ? undefined : { webhooks });
  }
  const keys = (list: readonly LinkedSubscription[] = []) => list.map(keyOf).toSorted().join('\n');
  if (before === undefined || keys(before.subscriptions) !== keys(links.subscriptions)) {
    const subscriptions = links.subscriptions.map(({ emitter, listener, channel }) => ({
      emitter,
      listener,
      ...(channel === '' ? {} : { channel }),
    }));
    await write(folder, files.subscriptions, subscriptions.length === 0 ? undefined : { subscriptions });
  }
}

/** Names and descriptions of variables. Their values stay on the service. */
export async function writeVariables(folder: FolderFiles, { variables }: ServiceContent): Promise<void> {
  const listed = variables
    .toSorted((a, b) => (`${a.scope} ${a.name}` < `${b.scope} ${b.name}` ? -1 : 1))
    .map(({ name, scope, secret, description }) => ({
      name,
      ...(scope === 'project' ? { scope } : {}),
      ...(secret ? { secret } : {}),
      ...(description === null || description === '' ? {} : { description }),
    }));
  await write(folder, files.variables, listed.length === 0 ? undefined : { variables: listed });
}

async function write(
  folder: FolderFiles,
  { name, schema }: { name: string; schema: string },
  content: object | undefined,
): Promise<void> {
  if (content === undefined) await folder.remove(name);
  else await folder.write(name, yamlText({ schema, ...content }));
}
