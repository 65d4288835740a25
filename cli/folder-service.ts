import type {
  Account,
  AutoSubscription,
  Component,
  Source,
  Subscription,
  Variable,
  Webhook,
  Workflow,
} from '#sdk';
import { type Api, pathOf } from './api.ts';
import { CliError } from './exit-codes.ts';
import type { FolderConfig, KnownThing } from './folder-config.ts';
import { type LocalThing, type ThingKind, versionOf } from './folder-files.ts';
import { type FolderNames, folderName, folderSlug, type NameKind } from './folder-names.ts';
import { ownedPath } from './owned-path.ts';
import type { Session } from './session.ts';
import { sourceForm } from './source-file.ts';
import { variablesMax } from './variable-commands.ts';
import { type WorkflowForm, workflowForm } from './workflow-file.ts';

/** Objects of one kind that a folder may have. */
const listMax = 10_000;

/** A workflow or source of the service, as the folder has it or would have it. */
export interface ServiceThing<Thing> {
  name: string;
  id: string;
  form: WorkflowForm;
  version: string;
  thing: Thing;
}

/** A subscription, or one that new sources and workflows get, with `new` as its emitter. */
export type ServiceSubscription = Pick<Subscription, 'id' | 'emitter_id' | 'listener_id' | 'event_name'>;

/** Everything of an environment that a folder has. */
export interface ServiceContent {
  names: FolderNames;
  workflows: Map<string, ServiceThing<Workflow>>;
  sources: Map<string, ServiceThing<Source>>;
  webhooks: Webhook[];
  subscriptions: ServiceSubscription[];
  /** The workspace, or the user without one. */
  ownerId: string;
  variables: (Variable & { scope: 'workspace' | 'project' })[];
  /** What the user should know, with its place. */
  warnings: string[];
}

export interface ServiceReaderOptions {
  session: Session;
  api: Api;
  config: FolderConfig;
  environment: string;
  local: Readonly<Record<ThingKind, ReadonlyMap<string, LocalThing>>>;
}

/** Reads an environment, and gives a name to what has none yet. */
export class ServiceReader {
  readonly #options: ServiceReaderOptions;
  readonly #components = new Map<string, Promise<{ component: Component; isRegistered: boolean }>>();
  readonly names: FolderNames;

  constructor(options: ServiceReaderOptions) {
    this.#options = options;
    this.names = options.config.names(options.environment);
  }

  async read(): Promise<ServiceContent> {
    const { session, api, config, environment } = this.#options;
    const project = config.field(environment, 'project');
    await this.#nameAccounts();
    await this.#nameDataStores();
    const workflows = await api.list<Workflow>(
      project === undefined ? ownedPath(session, 'workflows') : pathOf`/v1/projects/${project}/workflows`,
      listMax,
    );
    const inProject = new Set(workflows.map(({ id }) => id));
    const isOurs = (id: string): boolean => project === undefined || inProject.has(id);
    const subscriptions = (await this.#subscriptions()).filter(
      ({ emitter_id, listener_id }) => isOurs(listener_id) || isOurs(emitter_id),
    );
    const triggers = new Set(workflows.flatMap((one) => one.triggers.map(({ id }) => id)));
    const ends = new Set(subscriptions.flatMap((one) => [one.emitter_id, one.listener_id]));
    // What the folder has stays in it, also when no workflow of the project uses it now.
    const isUsed = (kind: NameKind, id: string): boolean =>
      project === undefined || triggers.has(id) || ends.has(id) || this.names.nameOf(kind, id) !== undefined;
    const sources = (await api.list<Source>(ownedPath(session, 'sources'), listMax)).filter(({ id }) =>
      isUsed('sources', id),
    );
    const webhooks = (await api.list<Webhook>(ownedPath(session, 'webhooks'), listMax)).filter(({ id }) =>
      isUsed('webhooks', id),
    );
    for (const { id, name } of sources) this.#nameThing('sources', id, name);
    for (const { id, name } of workflows) this.#nameThing('workflows', id, name);
    for (const { id, name } of webhooks) this.names.add('webhooks', folderName(name ?? '', id), id);
    const warnings: string[] = [];
    const content: ServiceContent = {
      names: this.names,
      workflows: new Map(),
      sources: new Map(),
      webhooks,
      // A trigger is a subscription of its own.
      subscriptions: subscriptions.filter(
        ({ emitter_id, listener_id, event_name }) =>
          !(
            event_name === '' &&
            workflows.some(
              ({ id, triggers: list }) => id === listener_id && list.some((one) => one.id === emitter_id),
            )
          ),
      ),
      ownerId: session.workspace ?? (await api.data<{ id: string }>('GET', '/v1/users/me')).id,
      variables: await this.#variables(project),
      warnings,
    };
    for (const source of sources) {
      const one = await this.sourceThing(source, warnings);
      content.sources.set(one.name, one);
    }
    for (const workflow of workflows) {
      const one = this.workflowThing(workflow, warnings);
      content.workflows.set(one.name, one);
    }
    return content;
  }

  workflowThing(workflow: Workflow, warnings: string[]): ServiceThing<Workflow> {
    const { names } = this;
    const name =
      names.nameOf('workflows', workflow.id) ?? this.#nameThing('workflows', workflow.id, workflow.name);
    const local = this.#options.local.workflows.get(name);
    const there = Object.entries(this.#known('workflows', name)?.triggers ?? {});
    const form = workflowForm(workflow, {
      names,
      warn: (place, problem) => warnings.push(`${name}/${place}: ${problem}`),
      usesOf: (namespace) => usesIn(local?.form, namespace),
      triggerName: (id) => there.find(([, one]) => one === id)?.[0] ?? id,
    });
    return { name, id: workflow.id, form, version: versionOf(form), thing: workflow };
  }

  async sourceThing(source: Source, warnings: string[]): Promise<ServiceThing<Source>> {
    const { names } = this;
    const name = names.nameOf('sources', source.id) ?? this.#nameThing('sources', source.id, source.name);
    const { component, isRegistered } = await this.#componentOf(source.component_id);
    const uses = this.#options.local.sources.get(name)?.form.file.uses;
    const form = sourceForm(source, component, {
      names,
      isRegistered,
      uses: typeof uses === 'string' ? uses : undefined,
      warn: (place, problem) => warnings.push(`sources/${name}/${place}: ${problem}`),
    });
    return { name, id: source.id, form, version: versionOf(form), thing: source };
  }

  #componentOf(id: string): Promise<{ component: Component; isRegistered: boolean }> {
    const known = this.#components.get(id);
    if (known !== undefined) return known;
    const reading = this.#readComponent(id);
    this.#components.set(id, reading);
    return reading;
  }

  async #readComponent(id: string): Promise<{ component: Component; isRegistered: boolean }> {
    const { api } = this.#options;
    const component = await api.data<Component>('GET', pathOf`/v1/components/${id}`);
    const { key, version } = component;
    if (key === undefined) return { component, isRegistered: false };
    try {
      const found = await api.data<Component>('GET', pathOf`/v1/components/registry/${`${key}@${version}`}`);
      return { component, isRegistered: found.id === id };
    } catch (error) {
      if (!(error instanceof CliError) || error.reason !== 'notFound') throw error;
      return { component, isRegistered: false };
    }
  }

  #known(kind: ThingKind, name: string): KnownThing | undefined {
    return this.#options.config.known(this.#options.environment, kind).get(name);
  }

  /** The name that millrace.yaml or a folder has for it, or a new one. */
  #nameThing(kind: ThingKind, id: string, called: string): string {
    const known = this.names.nameOf(kind, id);
    if (known !== undefined) return known;
    const taken = [...this.#options.local[kind].keys()];
    const folder = taken.find((name) => name === id || name.endsWith(`-${id}`)) ?? folderName(called, id);
    this.names.add(kind, folder, id);
    return folder;
  }

  async #nameAccounts(): Promise<void> {
    const { session, api } = this.#options;
    const accounts = await api.list<Account>('/v1/accounts', listMax, session.owner);
    this.#nameAll(
      'accounts',
      accounts.map(({ id, name, app }) => ({
        id,
        name: [app.name_slug, folderSlug(name ?? '')].filter((one) => one !== '').join('/'),
      })),
    );
  }

  async #nameDataStores(): Promise<void> {
    const { session, api } = this.#options;
    const path =
      session.workspace === undefined
        ? '/v1/users/me/data_stores'
        : pathOf`/v1/workspaces/${session.workspace}/data_stores`;
    this.#nameAll('data_stores', await api.list<{ id: string; name: string }>(path, listMax));
  }

  /** Where several have one name, each name ends with its id. */
  #nameAll(kind: NameKind, things: readonly { id: string; name: string }[]): void {
    const seen = new Map<string, number>();
    for (const { name } of things) seen.set(name, (seen.get(name) ?? 0) + 1);
    for (const { id, name } of things)
      this.names.add(kind, seen.get(name) === 1 ? name : `${name}-${id}`, id);
  }

  async #subscriptions(): Promise<ServiceSubscription[]> {
    const { session, api } = this.#options;
    const automatic = await api.call<{ data: AutoSubscription[] }>('GET', '/v1/auto_subscriptions', {
      query: session.owner,
    });
    return [
      ...(await api.whole<Subscription>(ownedPath(session, 'subscriptions'))),
      ...automatic.data.map((one) => ({ ...one, emitter_id: 'new' })),
    ];
  }

  async #variables(project: string | undefined): Promise<ServiceContent['variables']> {
    const { session, api } = this.#options;
    const scopes = [
      { scope: 'workspace' as const, query: session.owner },
      ...(project === undefined
        ? []
        : [{ scope: 'project' as const, query: { ...session.owner, project_id: project } }]),
    ];
    const all = await Promise.all(
      scopes.map(async ({ scope, query }) =>
        (await api.list<Variable>('/v1/variables', variablesMax, query)).map((one) => ({ ...one, scope })),
      ),
    );
    return all.flat();
  }
}

/** `uses` of a step of the folder, wherever it stands. */
function usesIn(form: WorkflowForm | undefined, namespace: string): string | undefined {
  const find = (steps: unknown): string | undefined => {
    for (const step of Array.isArray(steps) ? (steps as Record<string, unknown>[]) : []) {
      if (step.namespace === namespace) return typeof step.uses === 'string' ? step.uses : undefined;
      const branches = Array.isArray(step.branches) ? (step.branches as Record<string, unknown>[]) : [];
      for (const inner of [...branches.map((one) => one.steps), step.steps, step.error_steps]) {
        const found = find(inner);
        if (found !== undefined) return found;
      }
    }
    return undefined;
  };
  return find(form?.file.steps);
}
