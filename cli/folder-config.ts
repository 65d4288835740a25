import { BlockList, isIP } from 'node:net';
import { Document, isMap, isScalar } from 'yaml';
import { Api, isObject } from './api.ts';
import { serviceUrl } from './connection.ts';
import { CliError, usageError } from './exit-codes.ts';
import type { FolderFiles, ThingKind } from './folder-files.ts';
import { FolderNames, nameKinds } from './folder-names.ts';
import { documentText, readYamlDocument } from './folder-yaml.ts';
import { readProfiles } from './profiles.ts';
import type { Session } from './session.ts';
import { visible } from './visible-text.ts';

/** The file in the root of a folder that says where its workflows are: in which services, and under which ids. */
export const configFile = 'millrace.yaml';
const configSchema = 'millrace.folder/1';
const head = ` The environments of this folder. \`millrace pull\` and \`millrace push\` write workflows, sources and webhooks;
 url, workspace, project, accounts, data_stores and secrets may be changed by hand.`;
const environmentName = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
/** Only variables made for this: a folder of another author must not name any secret that the environment has. */
const keyVariable = /^MILLRACE_API_KEY(?:_[A-Z0-9_]+)?$/;
const secretVariable = /^MILLRACE_SECRET_[A-Z0-9_]+$/;

/** What an environment has of a workflow or source. */
export interface KnownThing {
  id: string;
  /** The content that the folder and the service had in common last. */
  version: string | undefined;
  /** Ids of triggers by their names in the folder, where these differ. */
  triggers: Readonly<Record<string, string>>;
}

/** millrace.yaml. Its comments stay, and what is unknown in it. */
export class FolderConfig {
  readonly #files: FolderFiles;
  #document: Document;
  /** As it was read or written last; undefined: there was no file. */
  #text: string | undefined;
  /** Changes since then. */
  #changes: ((document: Document) => void)[] = [];

  private constructor(files: FolderFiles, document: Document, text: string | undefined) {
    this.#files = files;
    this.#document = document;
    this.#text = text;
  }

  static async read(files: FolderFiles): Promise<FolderConfig | undefined> {
    const text = await files.read(configFile);
    if (text === undefined) return undefined;
    return new FolderConfig(files, documentOf(text), text);
  }

  static create(files: FolderFiles): FolderConfig {
    const document = new Document({ schema: configSchema, environments: {} });
    document.commentBefore = head;
    return new FolderConfig(files, document, undefined);
  }

  get environments(): string[] {
    const all = this.#document.get('environments');
    return isMap(all) ? all.items.map(({ key }) => String(isScalar(key) ? key.value : key)) : [];
  }

  /** The one that is named, or the only one there is. */
  choose(name: string | undefined): string {
    const names = this.environments;
    if (name === undefined) {
      const [only] = names;
      if (only !== undefined && names.length === 1) return only;
      throw usageError(`${configFile} has ${names.length} environments`, `Give --env: ${names.join(', ')}.`);
    }
    if (names.includes(name)) return name;
    throw usageError(
      `${configFile} has no environment ${JSON.stringify(name)}`,
      `There are: ${names.join(', ')}. \`millrace pull --env ${visible(name)} --url URL\` adds it.`,
    );
  }

  add(
    name: string,
    { url, workspace, project }: { url: string; workspace: string | undefined; project: string | undefined },
  ): void {
    if (!environmentName.test(name))
      throw usageError(`--env ${name}: expected letters, digits, dashes and underscores`);
    const value = {
      url,
      ...(workspace === undefined ? {} : { workspace }),
      ...(project === undefined ? {} : { project }),
    };
    this.#change((document) => document.setIn(['environments', name], document.createNode(value)));
  }

  field(environment: string, field: string): string | undefined {
    const value = this.#document.getIn(['environments', environment, field]);
    return typeof value === 'string' ? value : undefined;
  }

  #map(environment: string, field: string): Record<string, unknown> {
    const node = this.#document.getIn(['environments', environment, field]);
    const value: unknown = isMap(node) ? node.toJS(this.#document, { maxAliasCount: 0 }) : undefined;
    return isObject(value) ? { ...value } : {};
  }

  known(environment: string, kind: ThingKind): Map<string, KnownThing> {
    return new Map(
      Object.entries(this.#map(environment, kind)).flatMap(([name, value]) => {
        if (!isObject(value) || typeof value.id !== 'string') return [];
        const { id, version, triggers } = value;
        return [
          [
            name,
            {
              id,
              version: typeof version === 'string' ? version : undefined,
              triggers: isObject(triggers) ? (triggers as Record<string, string>) : {},
            },
          ] as const,
        ];
      }),
    );
  }

  setKnown(environment: string, kind: ThingKind, name: string, known: KnownThing | undefined): void {
    const path = ['environments', environment, kind, name];
    if (known === undefined) {
      this.#change((document) => document.deleteIn(path));
      return;
    }
    const { id, version, triggers } = known;
    const value = {
      id,
      ...(version === undefined ? {} : { version }),
      ...(Object.keys(triggers).length === 0 ? {} : { triggers }),
    };
    this.#set(path, value);
  }

  setName(
    environment: string,
    kind: 'accounts' | 'data_stores' | 'webhooks',
    name: string,
    id: string,
  ): void {
    this.#set(['environments', environment, kind, name], id);
  }

  setLinks(environment: string, version: string): void {
    this.#change((document) => document.setIn(['environments', environment, 'links'], version));
  }

  removeName(environment: string, kind: 'webhooks', name: string): void {
    this.#change((document) => document.deleteIn(['environments', environment, kind, name]));
  }

  /** Names stand in order, so that two who add one seldom meet in a line. */
  #set(path: readonly string[], value: unknown): void {
    this.#change((document) => {
      document.setIn(path, document.createNode(value));
      const parent = document.getIn(path.slice(0, -1));
      if (isMap(parent)) parent.items.sort((a, b) => (String(a.key) < String(b.key) ? -1 : 1));
    });
  }

  #change(change: (document: Document) => void): void {
    change(this.#document);
    this.#changes.push(change);
  }

  names(environment: string): FolderNames {
    const names = new FolderNames();
    for (const kind of nameKinds) {
      for (const [name, value] of Object.entries(this.#map(environment, kind))) {
        const id = isObject(value) ? value.id : value;
        if (typeof id === 'string') names.add(kind, name, id);
      }
    }
    return names;
  }

  /** The value of a secret, from the variable that `secrets` names for its place. */
  secret(environment: string, place: string, variables: Session['environment']): string | undefined {
    const variable = this.#map(environment, 'secrets')[place];
    if (typeof variable !== 'string') return undefined;
    if (!secretVariable.test(variable))
      throw usageError(
        `${configFile}: secrets: found ${visible(variable)}, expected a variable such as MILLRACE_SECRET_TOKEN`,
      );
    return variables[variable];
  }

  /** What was changed in the file meanwhile, by its user or by another command, stays. */
  async save(): Promise<void> {
    const text = await this.#files.read(configFile);
    if (text !== undefined && text !== this.#text) {
      this.#document = documentOf(text);
      for (const change of this.#changes) change(this.#document);
    }
    this.#text = documentText(this.#document);
    await this.#files.write(configFile, this.#text);
    this.#changes = [];
  }

  /**
   * A session and a client for the environment. The key is that of its own variable, or of a login to the same service: a key
   * is never sent to another service than the one that it was given for.
   */
  async connect(
    session: Session,
    environment: string,
    { isInsecureAllowed }: { isInsecureAllowed: boolean },
  ): Promise<{ session: Session; api: Api }> {
    const url = serviceUrl(this.field(environment, 'url') ?? '');
    const suffix = environment.toUpperCase().replaceAll('-', '_');
    const variable = this.field(environment, 'api_key_variable') ?? `MILLRACE_API_KEY_${suffix}`;
    if (!keyVariable.test(variable))
      throw usageError(
        `${configFile}: api_key_variable: found ${visible(variable)}, expected MILLRACE_API_KEY_…`,
      );
    // The author of a pull request can change the address; variables of the caller are out of their reach.
    for (const name of [`MILLRACE_URL_${suffix}`, variable.replace('API_KEY', 'URL')])
      requireUrl(url, name, session.environment[name]);
    if (!isInsecureAllowed && !isEncryptedOrNear(new URL(url)))
      throw new CliError('notAllowed', `${url} is not encrypted: the API key would be readable on the way`, {
        hint: 'Use https, or --insecure if you trust the network.',
      });
    const apiKey = session.environment[variable] ?? (await keyFor(session, url));
    if (apiKey === undefined || apiKey === '') {
      throw new CliError('notAllowed', `there is no API key for ${url}, the environment ${environment}`, {
        hint: `Set ${variable}, or log in: millrace login ${url}`,
      });
    }
    const workspace = this.field(environment, 'workspace');
    return {
      session: workspace === undefined ? session : session.inWorkspace(workspace),
      api: new Api({ url, apiKey, signal: session.interrupted }),
    };
  }
}

function documentOf(text: string): Document {
  const document = readYamlDocument(text, configFile);
  if (document.get('schema') !== configSchema)
    throw new CliError('failed', `${configFile}: schema: expected ${configSchema}`);
  return document;
}

function requireUrl(url: string, name: string, wanted: string | undefined): void {
  if (wanted === undefined || wanted === '' || serviceUrl(wanted) === url) return;
  throw new CliError(
    'notAllowed',
    `${configFile}: url: found ${visible(url)}, but ${name} is ${visible(wanted)}`,
    {
      hint: 'Nothing was sent. The address in the folder may have been changed.',
    },
  );
}

const near = new BlockList();
near.addSubnet('127.0.0.0', 8);
near.addSubnet('10.0.0.0', 8);
near.addSubnet('172.16.0.0', 12);
near.addSubnet('192.168.0.0', 16);
near.addAddress('::1', 'ipv6');
near.addSubnet('fc00::', 7, 'ipv6');

/** Https, or a service on this machine or in a private network; a name without dots is one of those. */
function isEncryptedOrNear({ protocol, hostname }: URL): boolean {
  if (protocol === 'https:') return true;
  const host = hostname.replace(/^\[|\]$/g, '');
  const version = isIP(host);
  if (version !== 0) return near.check(host, version === 6 ? 'ipv6' : 'ipv4');
  return !host.includes('.') || host.endsWith('.localhost');
}

async function keyFor(session: Session, url: string): Promise<string | undefined> {
  try {
    const chosen = await session.connection();
    if (chosen.url === url) return chosen.apiKey;
  } catch (error) {
    if (!(error instanceof CliError) || error.reason !== 'notAllowed') throw error;
  }
  const { byName } = await readProfiles(session.environment);
  return Object.values(byName).find((profile) => profile.url === url)?.apiKey;
}
