import type { Source, Webhook, Workflow } from '#sdk';
import { type ApiObject, isObject, pathOf } from './api.ts';
import { CliError } from './exit-codes.ts';
import { isId } from './find-by-name.ts';
import { configFile } from './folder-config.ts';
import type { LocalThing, ThingKind } from './folder-files.ts';
import { idOfEnd, keyOf, linksVersion, nameOfEnd, newEmitters } from './folder-links.ts';
import { sortedJson } from './folder-names.ts';
import { type FolderSync, labelOf, type Step, triggerIds } from './folder-sync.ts';
import { sourceInput } from './source-file.ts';
import { variablesRead } from './unset-variables.ts';
import {
  type RequestOptions,
  settingInputs,
  stepInputs,
  triggerInputs,
  type WorkflowForm,
} from './workflow-file.ts';

export interface PushOptions {
  force: boolean;
  prune: boolean;
  /** Something was done. */
  onDone: (text: string) => void;
  onWarning: (text: string) => void;
}

/**
 * Carries out the plan of a folder: each workflow in one transaction of the service, its steps, triggers, settings and name together.
 * What was done is in millrace.yaml immediately, so that a push that was interrupted is continued by another. Throws before anything
 * is changed when there are conflicts, or names that the environment has no id for.
 */
export async function pushFolder(sync: FolderSync, options: PushOptions): Promise<void> {
  const plan = sync.plan();
  const wanted = plan.filter(
    ({ action }) => action === 'create' || action === 'update' || (action === 'remove' && options.prune),
  );
  refuseConflicts(wanted, options);
  const push = new FolderPush(sync, options);
  await push.requireNames(wanted);
  const of = (kind: Step['kind'], action: Step['action']) =>
    wanted.filter((step) => step.kind === kind && step.action === action);
  for (const step of [...of('sources', 'create'), ...of('sources', 'update')])
    await named(step, () => push.source(step.name));
  for (const step of push.inOrder([...of('workflows', 'create'), ...of('workflows', 'update')]))
    await named(step, () => push.workflow(step.name));
  for (const step of [...of('webhooks', 'create'), ...of('webhooks', 'update')])
    await named(step, () => push.webhook(step.name));
  await push.subscriptions(options.prune);
  for (const step of of('workflows', 'remove')) await push.remove('workflows', step.name);
  for (const step of of('sources', 'remove')) await push.remove('sources', step.name);
  for (const step of of('webhooks', 'remove')) await push.removeWebhook(step.name);
  const isLeft = plan.some((step) => isLink(step) && !wanted.includes(step));
  sync.noteCommon();
  if (!isLeft) sync.options.config.setLinks(sync.options.environment, linksVersion(sync.localLinks));
  await sync.save();
}

/** The service names a place in what it was sent; a folder has many of those. */
async function named({ kind, name }: Step, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof CliError) || !isObject(error.details) || error.details.parameter === undefined)
      throw error;
    const { reason, message, code, details, hint } = error;
    throw new CliError(reason, `${labelOf(kind, name)}: ${message}`, {
      ...{ hint, details, cause: error },
      ...(code === undefined ? {} : { code }),
    });
  }
}

function isLink({ kind }: Step): boolean {
  return kind === 'webhooks' || kind === 'subscriptions';
}

function refuseConflicts(steps: readonly Step[], { force }: PushOptions): void {
  const conflicts = steps.flatMap(({ kind, name, conflict }) =>
    conflict === undefined ? [] : [`${labelOf(kind, name)}: ${conflict}`],
  );
  if (conflicts.length === 0 || force) return;
  throw new CliError('failed', conflicts.join('\n'), {
    details: { conflicts },
    hint: 'Nothing was changed. `millrace pull` brings the changes of the service; --force pushes all the same.',
  });
}

class FolderPush {
  readonly #sync: FolderSync;
  readonly #options: PushOptions;
  readonly #missing = new Set<string>();

  constructor(sync: FolderSync, options: PushOptions) {
    this.#sync = sync;
    this.#options = options;
  }

  /** Data stores that are missing are made, empty. Accounts, secrets and other names are listed, all at once. */
  async requireNames(steps: readonly Step[]): Promise<void> {
    const stores = new Set<string>();
    const { content, options } = this.#sync;
    const isPushed = (kind: string, name: string) =>
      steps.some((step) => step.kind === kind && step.name === name);
    for (const { kind, name } of steps) {
      if (kind !== 'workflows' && kind !== 'sources') continue;
      const mine = this.#sync.local[kind].get(name);
      if (mine === undefined) continue;
      this.#body(kind, mine, (of, wanted, place) => {
        if (of === 'data_stores') stores.add(wanted);
        else if (!isPushed(of, wanted))
          this.#missing.add(`${labelOf(kind, name)}/${place}: ${of}: there is no ${wanted}`);
        return wanted;
      });
    }
    if (this.#missing.size > 0) {
      throw new CliError('failed', [...this.#missing].join('\n'), {
        details: { missing: [...this.#missing] },
        hint:
          `Nothing was changed. In ${configFile}, under environments.${options.environment}: accounts, workflows and sources have the ids of their names, ` +
          'secrets the names of variables (MILLRACE_SECRET_…) with their values.',
      });
    }
    for (const name of [...stores].toSorted()) {
      const body = { ...options.session.owner, name };
      const { id } = await options.api.data<{ id: string }>('POST', '/v1/data_stores', { body });
      content.names.add('data_stores', name, id);
      this.#options.onDone(`created the data store ${name} (${id}), empty`);
    }
  }

  /** A workflow that another one calls comes first. */
  inOrder(steps: readonly Step[]): Step[] {
    const byName = new Map(steps.map((step) => [step.name, step]));
    const ordered = new Set<Step>();
    const visit = (step: Step, above: ReadonlySet<Step>): void => {
      if (ordered.has(step) || above.has(step)) return;
      for (const called of calledBy(this.#sync.local.workflows.get(step.name)?.form.file.steps)) {
        const other = byName.get(called);
        if (other !== undefined) visit(other, new Set([...above, step]));
      }
      ordered.add(step);
    };
    for (const step of steps) visit(step, new Set());
    return [...ordered];
  }

  async source(name: string): Promise<void> {
    const { content, options, local, reader } = this.#sync;
    const mine = must(local.sources.get(name));
    const there = content.sources.get(name);
    const body = this.#body('sources', mine, unknownName);
    const active = mine.form.file.inactive !== true;
    let source: Source;
    if (there === undefined) {
      source = await options.api.data<Source>('POST', '/v1/sources', {
        body: { ...options.session.owner, ...body },
      });
      content.names.add('sources', name, source.id);
      await this.#note('sources', name, source.id, {});
      // The service starts what it deploys.
      if (!active)
        source = await options.api.data<Source>('PUT', pathOf`/v1/sources/${source.id}`, {
          body: { active },
        });
    } else {
      source = await options.api.data<Source>('PUT', pathOf`/v1/sources/${there.id}`, {
        body: { ...body, active },
      });
    }
    const thing = await reader.sourceThing(source, []);
    content.sources.set(name, thing);
    await this.#done('sources', name, thing, there === undefined);
  }

  async workflow(name: string): Promise<void> {
    const { content, options, local, reader } = this.#sync;
    const mine = must(local.workflows.get(name));
    const there = content.workflows.get(name);
    const body = this.#body('workflows', mine, unknownName);
    let workflow: Workflow;
    if (there === undefined) {
      const project_id = options.config.field(options.environment, 'project');
      workflow = await options.api.data<Workflow>('POST', '/v1/workflows', {
        body: { ...options.session.owner, project_id, ...body },
      });
      content.names.add('workflows', name, workflow.id);
    } else {
      const path = pathOf`/v1/workflows/${there.id}/deployments`;
      workflow = await options.api.data<Workflow>('POST', path, {
        body: { ...body, follows: there.thing.deployment_id },
      });
    }
    await this.#note('workflows', name, workflow.id, triggerIds(mine.form, workflow));
    const thing = reader.workflowThing(workflow, []);
    content.workflows.set(name, thing);
    await this.#done('workflows', name, thing, there === undefined);
    for (const trigger of workflow.triggers)
      if (trigger.type === 'http' && !there?.thing.triggers.some(({ id }) => id === trigger.id))
        this.#options.onDone(`  its endpoint: ${trigger.endpoint_url}`);
    for (const warning of workflow.warnings) this.#options.onWarning(`${name}: ${warning}`);
    const unset = [...variablesRead(workflow)].filter(
      (one) => !content.variables.some((known) => known.name === one),
    );
    if (unset.length > 0)
      this.#options.onWarning(`${name} reads variables that are not set: ${unset.toSorted().join(', ')}`);
  }

  async webhook(name: string): Promise<void> {
    const { content, options, localLinks } = this.#sync;
    const body = { ...must(localLinks.webhooks.get(name)) };
    const id = content.names.idOf('webhooks', name);
    const isThere = content.webhooks.some((one) => one.id === id);
    if (isThere && id !== undefined) {
      await options.api.call('PUT', pathOf`/v1/webhooks/${id}`, { body });
      this.#options.onDone(`changed webhooks/${name}`);
      return;
    }
    const webhook = await options.api.data<Webhook>('POST', '/v1/webhooks', {
      body: { ...options.session.owner, ...body },
    });
    content.names.add('webhooks', name, webhook.id);
    content.webhooks.push(webhook);
    await this.#sync.save();
    this.#options.onDone(
      `created webhooks/${name} (${webhook.id}); it has a new signing secret: POST /v1/webhooks/${webhook.id}/rotate_secret shows one`,
    );
  }

  async subscriptions(prune: boolean): Promise<void> {
    const { content, options, localLinks } = this.#sync;
    const there = new Map(
      content.subscriptions.map(({ id, emitter_id, listener_id, event_name }) => {
        const [emitter, listener] = [nameOfEnd(emitter_id, content), nameOfEnd(listener_id, content)];
        return [keyOf({ emitter, listener, channel: event_name }), { id, emitter, listener }] as const;
      }),
    );
    for (const one of localLinks.subscriptions) {
      if (there.delete(keyOf(one))) continue;
      const [emitter_id, listener_id] = [idOfEnd(one.emitter, content), idOfEnd(one.listener, content)];
      if (emitter_id === undefined || listener_id === undefined)
        throw new CliError(
          'failed',
          `subscriptions.yaml: there is no ${emitter_id === undefined ? one.emitter : one.listener}`,
        );
      const body = { ...options.session.owner, listener_id, event_name: one.channel };
      if (emitter_id === newEmitters) await options.api.call('POST', '/v1/auto_subscriptions', { body });
      else await options.api.call('POST', '/v1/subscriptions', { body: { ...body, emitter_id } });
      this.#options.onDone(`subscribed ${one.listener} to ${one.emitter}`);
    }
    if (!prune) return;
    for (const [, { id, emitter, listener }] of there) {
      const isAutomatic = emitter === newEmitters;
      await options.api.call(
        'DELETE',
        isAutomatic ? pathOf`/v1/auto_subscriptions/${id}` : pathOf`/v1/subscriptions/${id}`,
      );
      this.#options.onDone(`unsubscribed ${listener} from ${emitter}`);
    }
  }

  async remove(kind: ThingKind, name: string): Promise<void> {
    const { content, options } = this.#sync;
    const there = content[kind].get(name);
    if (there === undefined) return;
    const path = kind === 'workflows' ? pathOf`/v1/workflows/${there.id}` : pathOf`/v1/sources/${there.id}`;
    await options.api.call('DELETE', path).catch((error: unknown) => {
      // A source that came with a workflow goes with it.
      if (!(error instanceof CliError) || error.reason !== 'notFound') throw error;
    });
    options.config.setKnown(options.environment, kind, name, undefined);
    await options.config.save();
    this.#options.onDone(`removed ${labelOf(kind, name)} (${there.id})`);
  }

  async removeWebhook(name: string): Promise<void> {
    const { content, options } = this.#sync;
    const id = content.names.idOf('webhooks', name);
    if (id === undefined) return;
    await options.api.call('DELETE', pathOf`/v1/webhooks/${id}`);
    content.webhooks.splice(
      content.webhooks.findIndex((one) => one.id === id),
      1,
    );
    options.config.removeName(options.environment, 'webhooks', name);
    this.#options.onDone(`removed webhooks/${name} (${id})`);
  }

  /** A body with what differs from the service; everything where it is new there. */
  #body(
    kind: ThingKind,
    { name, form }: LocalThing,
    onUnknown: (kind: string, name: string, place: string) => string,
  ): ApiObject {
    const { content, options } = this.#sync;
    const label = labelOf(kind, name);
    const request = {
      idOf: (of: Parameters<RequestOptions['idOf']>[0], wanted: string, place: string) =>
        content.names.idOf(of, wanted) ?? (isId(wanted) ? wanted : onUnknown(of, wanted, place)),
      secretAt: (place: string) => {
        const secret = options.config.secret(
          options.environment,
          `${label}/${place}`,
          options.session.environment,
        );
        if (secret === undefined) this.#missing.add(`secrets: ${label}/${place}: it has no value`);
        return secret;
      },
    };
    if (kind === 'sources') {
      const there = content.sources.get(name);
      return sourceInput(form, {
        ...request,
        present: there?.thing,
        isCodeNew: !isSame(there?.form, form, ({ file, code }) => [file.uses, [...code]]),
      });
    }
    const there = content.workflows.get(name);
    const known = this.#sync.known('workflows').get(name);
    const whole = {
      ...request,
      names: content.names,
      present: there?.thing,
      triggerIds: known?.triggers ?? {},
    };
    const differs = (part: (form: WorkflowForm) => unknown): boolean => !isSame(there?.form, form, part);
    const active = form.file.inactive !== true;
    return {
      ...(differs(({ file, code }) => [file.steps, [...code]]) ? { steps: stepInputs(form, whole) } : {}),
      ...(differs(({ file }) => file.triggers) ? { triggers: triggerInputs(form, whole) } : {}),
      ...(there === undefined
        ? { settings: { ...settingInputs(form), auto_deploy: active } }
        : {
            ...(differs(({ file }) => [file.settings, file.name]) ? { settings: settingInputs(form) } : {}),
            ...(active === there.thing.active ? {} : { active }),
          }),
    };
  }

  /** On disk before anything else can fail: another push must not make it twice. */
  async #note(
    kind: ThingKind,
    name: string,
    id: string,
    triggers: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { config, environment } = this.#sync.options;
    config.setKnown(environment, kind, name, { id, version: undefined, triggers });
    await config.save();
  }

  /** The folder gets what the service made of it, such as the ids of new triggers. */
  async #done(
    kind: ThingKind,
    name: string,
    { id, form, version }: { id: string; form: WorkflowForm; version: string },
    isNew: boolean,
  ): Promise<void> {
    const { config, environment, files } = this.#sync.options;
    const { triggers = {} } = config.known(environment, kind).get(name) ?? {};
    config.setKnown(environment, kind, name, { id, version, triggers });
    const mine = this.#sync.local[kind].get(name);
    const outcome = await files.writeThing(kind, name, form, { version: mine?.version });
    if (outcome === 'edited')
      this.#options.onWarning(
        `${labelOf(kind, name)} was changed in the folder during the push: its files stay as they are; push again`,
      );
    if (kind === 'workflows') await this.#sync.writeState(name, id);
    await this.#sync.save();
    this.#options.onDone(
      `${isNew ? 'created' : 'changed'} ${labelOf(kind, name)} (${id})${outcome === 'written' ? ', and its files' : ''}`,
    );
  }
}

function isSame(
  before: WorkflowForm | undefined,
  after: WorkflowForm,
  part: (form: WorkflowForm) => unknown,
): boolean {
  return before !== undefined && sortedJson(part(before)) === sortedJson(part(after));
}

function calledBy(steps: unknown): string[] {
  return (Array.isArray(steps) ? steps.filter(isObject) : []).flatMap((step) => {
    const branches = Array.isArray(step.branches) ? step.branches.filter(isObject) : [];
    return [
      ...(typeof step.workflow === 'string' ? [step.workflow] : []),
      ...[...branches.map((one) => one.steps), step.steps, step.error_steps].flatMap(calledBy),
    ];
  });
}

function unknownName(kind: string, name: string, place: string): never {
  throw new CliError('failed', `${place}: ${kind}: there is no ${name}`);
}

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a step of the plan is about nothing in the folder');
  return value;
}
