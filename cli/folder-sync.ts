import type { Source, Workflow } from '#sdk';
import type { Api, ApiObject } from './api.ts';
import { type Change, changesOf } from './folder-changes.ts';
import type { FolderConfig, KnownThing } from './folder-config.ts';
import { type FolderFiles, type LocalThing, type ThingKind, versionOf } from './folder-files.ts';
import {
  type FolderLinks,
  keyOf,
  linksOf,
  linksVersion,
  readLinks,
  writeLinks,
  writeVariables,
} from './folder-links.ts';
import { sortedJson } from './folder-names.ts';
import { type ServiceContent, ServiceReader, type ServiceThing } from './folder-service.ts';
import { yamlText } from './folder-yaml.ts';
import type { Session } from './session.ts';
import type { WorkflowForm } from './workflow-file.ts';

/** A folder and an environment of it, compared. */
export interface SyncOptions {
  session: Session;
  api: Api;
  files: FolderFiles;
  config: FolderConfig;
  environment: string;
  /** A file of code that is gone from the folder comes back, instead of ending the command. */
  isCodeRestored?: boolean;
}

/** What a push would do with one workflow, source, webhook or subscription. */
export interface Step {
  kind: ThingKind | 'webhooks' | 'subscriptions';
  name: string;
  action: 'create' | 'update' | 'remove' | 'none';
  changes: Change[];
  /** Why it is not done without --force; undefined: nothing is in the way. */
  conflict: string | undefined;
}

const thingKinds = ['sources', 'workflows'] as const satisfies readonly ThingKind[];

export class FolderSync {
  readonly options: SyncOptions;
  readonly local: Record<ThingKind, Map<string, LocalThing>>;
  readonly localLinks: FolderLinks;
  readonly content: ServiceContent;
  readonly reader: ServiceReader;

  private constructor(
    options: SyncOptions,
    read: Pick<FolderSync, 'local' | 'localLinks' | 'content' | 'reader'>,
  ) {
    this.options = options;
    this.local = read.local;
    this.localLinks = read.localLinks;
    this.content = read.content;
    this.reader = read.reader;
  }

  static async read(options: SyncOptions): Promise<FolderSync> {
    const { files, isCodeRestored = false } = options;
    const local = {
      workflows: await files.things('workflows', { isCodeRestored }),
      sources: await files.things('sources', { isCodeRestored }),
    };
    const localLinks = await readLinks(files);
    const reader = new ServiceReader({ ...options, local });
    const content = await reader.read();
    const sync = new FolderSync(options, { local, localLinks, content, reader });
    for (const kind of thingKinds) for (const mine of local[kind].values()) await sync.#adopt(kind, mine);
    return sync;
  }

  /**
   * Takes what an earlier push made and was interrupted before it could note: the one thing of the service that no other folder of ours is,
   * and that has the same content, apart from ids of triggers.
   */
  async #adopt(kind: ThingKind, mine: LocalThing): Promise<void> {
    const { content, reader, options } = this;
    const known = this.known(kind);
    const there: Map<string, ServiceThing<Workflow | Source>> = content[kind];
    if (known.has(mine.name) || there.has(mine.name)) return;
    const ids = new Set([...known.values()].map(({ id }) => id));
    const twins = [...there.values()].filter(
      (one) =>
        !ids.has(one.id) &&
        !this.local[kind].has(one.name) &&
        one.form.file.name === mine.form.file.name &&
        versionOf(withoutTriggerIds(one.form)) === versionOf(withoutTriggerIds(mine.form)),
    );
    const [twin] = twins;
    if (twin === undefined || twins.length > 1) return;
    there.delete(twin.name);
    content.names.rename(kind, twin.id, mine.name);
    const triggers = kind === 'workflows' ? triggerIds(mine.form, twin.thing as Workflow) : {};
    const set = (version: string | undefined) =>
      options.config.setKnown(options.environment, kind, mine.name, { id: twin.id, version, triggers });
    set(undefined);
    const adopted =
      kind === 'workflows'
        ? reader.workflowThing(twin.thing as Workflow, [])
        : await reader.sourceThing(twin.thing as Source, []);
    there.set(mine.name, adopted);
    set(adopted.version);
  }

  /** What folder and service have in common now: a push that was interrupted could not note it. */
  noteCommon(): void {
    for (const kind of thingKinds)
      for (const [name, base] of this.known(kind)) {
        const theirs = this.content[kind].get(name);
        if (theirs === undefined || theirs.version === base.version) continue;
        if (this.local[kind].get(name)?.version === theirs.version)
          this.options.config.setKnown(this.options.environment, kind, name, {
            ...base,
            version: theirs.version,
          });
      }
  }

  known(kind: ThingKind): Map<string, KnownThing> {
    return this.options.config.known(this.options.environment, kind);
  }

  /** Steps in the order in which they can be done; those with `none` are what the folder does not have. */
  plan(): Step[] {
    return [...thingKinds.flatMap((kind) => this.#planThings(kind)), ...this.#planLinks()];
  }

  #planThings(kind: ThingKind): Step[] {
    const known = this.known(kind);
    const there: ReadonlyMap<string, ServiceThing<Workflow | Source>> = this.content[kind];
    const local = this.local[kind];
    const steps: Step[] = [];
    for (const name of [...new Set([...local.keys(), ...there.keys()])].toSorted()) {
      const [mine, theirs, base] = [local.get(name), there.get(name), known.get(name)];
      if (mine?.version === theirs?.version) continue;
      const changes = changesOf(theirs?.form, mine?.form);
      const isChanged = theirs !== undefined && base?.version !== theirs.version;
      const step = { kind, name, changes };
      if (mine === undefined)
        steps.push({
          ...step,
          action: base === undefined ? 'none' : 'remove',
          conflict: isChanged && base !== undefined ? changedThere : undefined,
        });
      else if (theirs === undefined)
        steps.push({ ...step, action: 'create', conflict: this.#whyNotCreated(kind, mine, base) });
      else steps.push({ ...step, action: 'update', conflict: isChanged ? changedThere : undefined });
    }
    return steps;
  }

  #whyNotCreated(kind: ThingKind, { form }: LocalThing, base: KnownThing | undefined): string | undefined {
    if (base !== undefined) return `${base.id} was removed on the service`;
    const there: readonly ServiceThing<Workflow | Source>[] = [...this.content[kind].values()];
    const twin = there.find(
      (one) => !this.local[kind].has(one.name) && one.form.file.name === form.file.name,
    );
    if (twin === undefined) return undefined;
    return `${twin.id} on the service has the same name; if it is the same one, write its id into millrace.yaml under ${kind}`;
  }

  #planLinks(): Step[] {
    const there = linksOf(this.content);
    const steps: Step[] = [];
    for (const name of new Set([...this.localLinks.webhooks.keys(), ...there.webhooks.keys()])) {
      const [mine, theirs] = [this.localLinks.webhooks.get(name), there.webhooks.get(name)];
      if (sortedJson(mine) === sortedJson(theirs)) continue;
      const action = theirs === undefined ? 'create' : mine === undefined ? 'remove' : 'update';
      const changes = (['name', 'description', 'url'] as const).flatMap((field): Change[] =>
        mine?.[field] === theirs?.[field]
          ? []
          : [
              {
                place: field,
                kind: 'changed',
                before: theirs?.[field] ?? null,
                after: mine?.[field] ?? null,
              },
            ],
      );
      steps.push({ kind: 'webhooks', name, action, changes, conflict: undefined });
    }
    const [mine, theirs] = [this.localLinks.subscriptions, there.subscriptions];
    const has = (list: typeof mine, key: string) => list.some((one) => keyOf(one) === key);
    for (const one of mine.filter((sub) => !has(theirs, keyOf(sub))))
      steps.push({ ...linkStep(one), action: 'create' });
    for (const one of theirs.filter((sub) => !has(mine, keyOf(sub))))
      steps.push({ ...linkStep(one), action: 'remove' });
    return steps;
  }

  /**
   * Writes what the service has into the folder. What was changed in the folder since it was last the same is kept, and is a
   * conflict when the service has changed too. Answers what was written and removed, and what is in conflict.
   */
  async pull({
    force,
  }: {
    force: boolean;
  }): Promise<{ written: string[]; removed: string[]; kept: string[]; conflicts: string[] }> {
    const { files, config, environment } = this.options;
    const result = {
      written: [] as string[],
      removed: [] as string[],
      kept: [] as string[],
      conflicts: [] as string[],
    };
    const work: (() => Promise<void>)[] = [];
    for (const kind of thingKinds) {
      const known = this.known(kind);
      const there: ReadonlyMap<string, ServiceThing<Workflow | Source>> = this.content[kind];
      for (const one of there.values()) {
        const [mine, base] = [this.local[kind].get(one.name), known.get(one.name)];
        const label = labelOf(kind, one.name);
        const isMineChanged =
          mine !== undefined && mine.version !== one.version && mine.version !== base?.version;
        if (isMineChanged && !force) {
          if (base?.version === one.version) result.kept.push(label);
          else result.conflicts.push(label);
          continue;
        }
        work.push(async () => {
          const read = force ? 'anything' : { version: mine?.version };
          const outcome = await files.writeThing(kind, one.name, one.form, read);
          if (outcome === 'edited') {
            result.kept.push(label);
            return;
          }
          if (outcome === 'written') result.written.push(label);
          if (kind === 'workflows') await this.writeState(one.name, one.id);
          config.setKnown(environment, kind, one.name, {
            id: one.id,
            version: one.version,
            triggers: base?.triggers ?? {},
          });
        });
      }
      for (const [name, base] of known) {
        if (there.has(name)) continue;
        const mine = this.local[kind].get(name);
        if (mine !== undefined && mine.version !== base.version && !force) {
          result.conflicts.push(labelOf(kind, name));
          continue;
        }
        work.push(async () => {
          if (mine !== undefined) {
            await files.removeThing(kind, mine);
            result.removed.push(labelOf(kind, name));
          }
          config.setKnown(environment, kind, name, undefined);
        });
      }
    }
    if (result.conflicts.length > 0) return result;
    for (const one of work) await one();
    const there = linksOf(this.content);
    const mine = linksVersion(this.localLinks);
    const isLinksChanged =
      mine !== linksVersion(there) && mine !== (config.field(environment, 'links') ?? noLinks);
    if (isLinksChanged && !force) result.kept.push('webhooks.yaml and subscriptions.yaml');
    else {
      await writeLinks(files, there);
      config.setLinks(environment, linksVersion(there));
    }
    await writeVariables(files, this.content);
    await files.writeMissing(
      '.gitattributes',
      '# Code is compared byte by byte: Git must not change line ends.\n* -text\n',
    );
    await this.save();
    return result;
  }

  /** As synced repositories have it: the id in the first environment. */
  async writeState(name: string, id: string): Promise<void> {
    const text = `# DO NOT EDIT THIS FILE\n---\n${yamlText({ schema: 'millrace.workflow.state/1', id })}`;
    await this.options.files.writeMissing(`${name}/.workflow.state`, text);
  }

  /** With the names that were used, so that the same things have them next time. */
  async save(): Promise<void> {
    const { config, environment } = this.options;
    const { names } = this.content;
    for (const kind of ['accounts', 'data_stores'] as const)
      for (const [name, id] of names.used(kind)) config.setName(environment, kind, name, id);
    for (const { id } of this.content.webhooks)
      config.setName(environment, 'webhooks', names.nameOf('webhooks', id) ?? id, id);
    await config.save();
  }
}

/** The same for triggers that differ in their ids alone. */
function withoutTriggerIds({ file, code }: WorkflowForm): WorkflowForm {
  const { triggers } = file;
  if (!Array.isArray(triggers)) return { file, code };
  const bare = (triggers as Record<string, unknown>[]).map(({ id: _id, ...rest }) => rest);
  return { file: { ...file, triggers: bare }, code };
}

/** Ids of triggers that the folder calls by other ids. The service answers them in the order in which they were sent. */
export function triggerIds({ file }: WorkflowForm, workflow: Workflow): Record<string, string> {
  const triggers = Array.isArray(file.triggers) ? (file.triggers as ApiObject[]) : [];
  return Object.fromEntries(
    triggers.flatMap(({ id }, index) => {
      const there = workflow.triggers[index]?.id;
      return typeof id === 'string' && there !== undefined && there !== id ? [[id, there]] : [];
    }),
  );
}

const noLinks = linksVersion({ webhooks: new Map(), subscriptions: [] });
const changedThere = 'it was changed on the service since the last pull';

function linkStep(one: Parameters<typeof keyOf>[0]): Omit<Step, 'action'> {
  const channel = one.channel === '' ? '' : ` (${one.channel})`;
  return {
    kind: 'subscriptions',
    name: `${one.emitter} -> ${one.listener}${channel}`,
    changes: [],
    conflict: undefined,
  };
}

export function labelOf(kind: Step['kind'], name: string): string {
  return kind === 'workflows' ? name : `${kind}/${name}`;
}
