import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { type ConfiguredProps, propError, validateProps } from '#components/validate-props.ts';
import type { EventBus } from '#events/event-bus.ts';
import { insertEmitter } from '#events/event-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newHexKey, newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { ComponentReference, ComponentResolver } from '#registry/resolve-component.ts';
import type { Runner } from '#runner/runner.ts';
import { nextOccurrence } from '#schedule/next-occurrence.ts';
import { deleteTimersOf, insertTimers } from '#schedule/timer-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable, TimerTable } from '#storage/tables/source-tables.ts';
import {
  type Deployment,
  type DeploymentContext,
  loadDeployment,
  makeDeployment,
  mergedDefinitions,
} from './deployment.ts';
import { hookError } from './hook-error.ts';
import { freeSlug, slugify } from './name-slug.ts';
import type { SourceRuns } from './run-source.ts';
import { hasHttpInterface, keepMaskedSecrets, timerSchedules } from './source-props.ts';
import {
  deleteSource,
  findSource,
  insertSource,
  slugsLike,
  unfinishedSources,
  updateSource,
} from './source-store.ts';

export interface SourceOwner {
  ownerId: string;
  userId: string;
  readableOwners: readonly string[];
}

export interface SourceChange extends ComponentReference {
  name?: string;
  name_slug?: string;
  active?: boolean;
  configured_props?: ConfiguredProps;
}

/** A source left `deploying` this long was abandoned by a process that died; creation has shorter deadlines. */
const abandonedMs = 30 * 60_000;

/**
 * Creates, changes and removes sources. Hooks run in the decided order and nothing is left half done: a creation that
 * fails leaves no trace, a change that fails leaves the source as it was, a removal whose hook fails removes nothing.
 * Changes of one source take turns.
 */
export class SourceDeployer {
  readonly #store: Store;
  readonly #resolver: Pick<ComponentResolver, 'resolve'>;
  readonly #runner: Runner;
  readonly #runs: SourceRuns;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #context: DeploymentContext;
  readonly #onTimers: () => void;
  readonly #onEndpointChange: (endpointKey: string) => void;
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(options: {
    store: Store;
    resolver: Pick<ComponentResolver, 'resolve'>;
    runner: Runner;
    runs: SourceRuns;
    bus: EventBus;
    clock: Clock;
    logger: Logger;
    context: DeploymentContext;
    /** Timers were added or changed. */
    onTimers: () => void;
    onEndpointChange: (endpointKey: string) => void;
  }) {
    this.#store = options.store;
    this.#resolver = options.resolver;
    this.#runner = options.runner;
    this.#runs = options.runs;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#context = options.context;
    this.#onTimers = options.onTimers;
    this.#onEndpointChange = options.onEndpointChange;
  }

  /** Order: component, additionalProps, props, endpoint, `deploy`, `activate`, active. */
  async create(change: SourceChange, owner: SourceOwner): Promise<Deployment> {
    const component = await this.#resolver.resolve(change, owner);
    const shape = shapeOfSource(component);
    const id = newId('dc');
    const nowMs = this.#clock.now();
    const draft: SourceTable = {
      id,
      owner_id: owner.ownerId,
      user_id: owner.userId,
      component_id: component.id,
      name: change.name ?? slugify(component.name),
      name_slug: '',
      configured_props: '{}',
      dynamic_props: null,
      state: 'deploying',
      endpoint_key: newHexKey(),
      revision: 1,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    const configured = await this.#configure(draft, component, shape, change.configured_props ?? {});
    const source = await this.#insert({ ...draft, ...configured }, change);
    try {
      const deployment = await makeDeployment(this.#store.read, source, component, this.#context);
      await this.#runHookOrThrow(deployment, 'deploy');
      await this.#runHookOrThrow(deployment, 'activate');
      const active = { ...source, state: 'active', updated_at_ms: this.#clock.now() };
      await this.#store.transaction(async (tx) => {
        await updateSource(tx, active, source.revision);
        await this.#startTimers(tx, active, deployment.definitions);
      });
      this.#changed(active);
      this.#logger.info({ source: id, owner: owner.ownerId, component: component.id }, 'source.created');
      return { ...deployment, source: active };
    } catch (error) {
      await this.#erase(source);
      throw error;
    } finally {
      // A process that took part in a failed creation must not be used again; one that succeeded goes on.
      if ((await findSource(this.#store.read, id).catch(() => source)) === undefined)
        await this.#runner.forget(id);
    }
  }

  /** Order: `deactivate`, swap, `activate`. Without a change of code, props or activity no hook runs. */
  async update(id: string, change: SourceChange, owner: SourceOwner): Promise<Deployment> {
    return this.#inTurn(id, async () => {
      const source = await this.#mustFind(id);
      const before = await loadDeployment(this.#store.read, source, this.#context);
      const isReference = [change.component_id, change.component_code, change.component_url, change.key].some(
        (value) => value !== undefined,
      );
      // Whoever may change the source may go on with its code, also where they could not use that for another one.
      const keepsCode = !isReference || change.component_id === source.component_id;
      const component = keepsCode ? undefined : await this.#resolver.resolve(change, owner);
      const active = change.active ?? true;
      const draft: SourceTable = {
        ...source,
        name: change.name ?? source.name,
        component_id: component?.id ?? source.component_id,
        updated_at_ms: this.#clock.now(),
      };
      if (change.name_slug !== undefined) draft.name_slug = slugify(change.name_slug);
      const swaps = draft.component_id !== source.component_id || change.configured_props !== undefined;
      if (swaps) {
        const target =
          component ??
          must(await findComponent(this.#store.read, source.component_id), `component of ${source.id}`);
        const values = JSON.parse(source.configured_props) as ConfiguredProps;
        const given = change.configured_props ?? values;
        const merged = keepMaskedSecrets(before.definitions, given, values);
        Object.assign(
          draft,
          await this.#configure(draft, target, shapeOfSource(target), merged, {
            // Values that the caller did not send cannot be at fault: new code that has no use for them drops them.
            dropUnknown: change.configured_props === undefined,
          }),
        );
      }
      const wasActive = source.state === 'active';
      const hooks = swaps || wasActive !== active;
      if (hooks) draft.revision = source.revision + 1;
      draft.state = active ? 'active' : 'inactive';
      if (hooks && wasActive) await this.#runHookOrThrow(before, 'deactivate');
      await this.#write(draft, source.revision);
      const after = await loadDeployment(this.#store.read, draft, this.#context);
      if (hooks) {
        // Requests that come while `activate` runs are for the new code already; a run under way ends with the old one,
        // since another revision gets a process of its own.
        this.#changed(draft);
        try {
          if (active) await this.#runHookOrThrow(after, 'activate');
        } catch (error) {
          await this.#restore(before, draft.revision);
          throw error;
        }
        await this.#store.transaction(async (tx) => {
          await deleteTimersOf(tx, id);
          if (active) await this.#startTimers(tx, draft, after.definitions);
        });
      }
      this.#changed(draft);
      if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
      this.#logger.info(
        { source: id, owner: draft.owner_id, revision: draft.revision, active },
        'source.updated',
      );
      return after;
    });
  }

  /** Order: `deactivate`, remove. Throws `hook_failed` and removes nothing when the hook fails, unless told to. */
  async remove(id: string, options: { ignoreHookErrors: boolean }): Promise<void> {
    await this.#inTurn(id, async () => {
      const source = await this.#mustFind(id);
      if (source.state === 'active') {
        try {
          const deployment = await loadDeployment(this.#store.read, source, this.#context);
          await this.#runHookOrThrow(deployment, 'deactivate');
        } catch (error) {
          if (!options.ignoreHookErrors || !(error instanceof CallerError)) throw error;
        }
      }
      await this.#erase(source);
      this.#logger.info({ source: id, owner: source.owner_id }, 'source.removed');
    });
  }

  /** Removes what a crash left half created. Called at start. */
  async removeUnfinished(options: { soleProcess: boolean }): Promise<void> {
    const beforeMs = this.#clock.now() - (options.soleProcess ? -1 : abandonedMs);
    for (const source of await unfinishedSources(this.#store.read, beforeMs)) {
      await this.#erase(source);
      this.#logger.warn({ source: source.id }, 'source.unfinished-removed');
    }
  }

  /** Runs additionalProps, checks all values, and answers the columns that follow from them. */
  async #configure(
    draft: SourceTable,
    component: ComponentTable,
    shape: ComponentShape,
    values: ConfiguredProps,
    options: { dropUnknown: boolean } = { dropUnknown: false },
  ): Promise<Pick<SourceTable, 'configured_props' | 'dynamic_props' | 'endpoint_key'>> {
    const unknown = options.dropUnknown ? 'drop' : 'refuse';
    const staticOnly = validateProps(shape.configurableProps, values, {
      unknown: shape.hasAdditionalProps ? 'keep' : unknown,
    });
    timerSchedules(shape.configurableProps, staticOnly);
    const trial = { ...draft, configured_props: JSON.stringify(staticOnly), dynamic_props: null };
    const dynamicProps = shape.hasAdditionalProps
      ? await this.#additionalProps(trial, component, shape)
      : null;
    const definitions = mergedDefinitions(shape, dynamicProps);
    refuseUnknownTypes(definitions, 'additionalProps');
    const checked = validateProps(definitions, values, { unknown });
    timerSchedules(definitions, checked);
    // Loading it proves that every account exists and belongs to the owner.
    await makeDeployment(
      this.#store.read,
      { ...trial, configured_props: JSON.stringify(checked), dynamic_props: dynamicProps },
      component,
      this.#context,
    );
    return {
      configured_props: JSON.stringify(checked),
      dynamic_props: dynamicProps,
      endpoint_key: hasHttpInterface(definitions) ? (draft.endpoint_key ?? newHexKey()) : null,
    };
  }

  async #additionalProps(
    trial: SourceTable,
    component: ComponentTable,
    shape: ComponentShape,
  ): Promise<string> {
    const deployment = await makeDeployment(this.#store.read, trial, component, this.#context);
    const previous = Object.fromEntries(
      shape.configurableProps.map((definition) => [definition.name, definition]),
    );
    const throwAway = { ...deployment, source: { ...trial, id: newId('dc') } };
    const outcome = await this.#runs.call(throwAway, { kind: 'additionalProps', previous }, {});
    await this.#runner.forget(throwAway.source.id);
    if (outcome.status !== 'finished' || outcome.result === undefined)
      throw hookError('additionalProps', outcome, deployment.redact);
    const { props, previous: changed } = JSON.parse(outcome.result) as Record<
      'props' | 'previous',
      Record<string, PropDefinition>
    >;
    const inPlace = Object.entries(changed).filter(
      ([name, definition]) => JSON.stringify(definition) !== JSON.stringify(previous[name]),
    );
    return JSON.stringify({ ...Object.fromEntries(inPlace), ...props });
  }

  /**
   * The slug is taken in the same transaction; when two creations race for one, the loser takes the next. A source
   * whose caller names neither is called as its slug, so that two of one component can be told apart.
   */
  async #insert(draft: SourceTable, named: Pick<SourceChange, 'name' | 'name_slug'>): Promise<SourceTable> {
    const slug = slugify(named.name_slug ?? draft.name);
    for (let attempt = 0; ; attempt += 1) {
      const free = freeSlug(slug, await slugsLike(this.#store.read, draft.owner_id, slug));
      const isNamed = named.name !== undefined || named.name_slug !== undefined;
      const source = { ...draft, name_slug: free, name: isNamed ? draft.name : free };
      try {
        await this.#store.transaction(async (tx) => {
          await insertSource(tx, source);
          await insertEmitter(tx, { id: source.id, ownerId: source.owner_id });
        });
        return source;
      } catch (error) {
        if (!isUniqueViolation(error) || attempt >= 10) throw error;
      }
    }
  }

  async #write(draft: SourceTable, fromRevision: number): Promise<void> {
    try {
      const written = await this.#store.transaction((tx) => updateSource(tx, draft, fromRevision));
      if (!written)
        throw new CallerError(
          'conflict',
          `source ${draft.id} was changed by another request; read it and try again`,
        );
    } catch (error) {
      if (isUniqueViolation(error)) {
        throw new CallerError('conflict', `name_slug: another source is called ${draft.name_slug}`, {
          parameter: 'name_slug',
        });
      }
      throw error;
    }
  }

  /** The new code or props did not come up: the old ones go back, active again if they still can be. */
  async #restore(before: Deployment, fromRevision: number): Promise<void> {
    const { source } = before;
    const restored = { ...source, revision: fromRevision + 1, updated_at_ms: this.#clock.now() };
    await this.#write(restored, fromRevision);
    this.#changed(restored);
    if (source.state !== 'active') {
      await this.#runner.forget(source.id);
      return;
    }
    const outcome = await this.#runs.runHook({ ...before, source: restored }, 'activate');
    if (outcome.status !== 'finished' && outcome.status !== 'absent') {
      await this.#write(
        { ...restored, state: 'inactive', revision: restored.revision + 1 },
        restored.revision,
      );
      await this.#store.transaction((tx) => deleteTimersOf(tx, source.id));
      this.#changed(restored);
      this.#logger.warn({ source: source.id }, 'source.deactivated-after-failed-update');
    }
  }

  async #runHookOrThrow(deployment: Deployment, hook: 'deploy' | 'activate' | 'deactivate'): Promise<void> {
    const outcome = await this.#runs.runHook(deployment, hook);
    if (outcome.status !== 'finished' && outcome.status !== 'absent')
      throw hookError(hook, outcome, deployment.redact);
  }

  async #startTimers(tx: Tx, source: SourceTable, definitions: readonly PropDefinition[]): Promise<void> {
    const nowMs = this.#clock.now();
    const values = JSON.parse(source.configured_props) as ConfiguredProps;
    const rows = timerSchedules(definitions, values).flatMap(({ prop, schedule }): TimerTable[] => {
      // An interval runs once right after activation; cron at its first occurrence.
      const firstMs = 'cron' in schedule ? nextOccurrence(schedule, nowMs, nowMs) : nowMs;
      if (firstMs === undefined) throw propError(prop, 'this schedule never fires');
      return [
        {
          id: `${source.id}:${prop}`,
          source_id: source.id,
          owner_id: source.owner_id,
          prop,
          interval_seconds: 'intervalSeconds' in schedule ? schedule.intervalSeconds : null,
          cron: 'cron' in schedule ? schedule.cron : null,
          timezone: 'cron' in schedule ? schedule.timezone : 'UTC',
          next_at_ms: firstMs,
          schedule_changed_at_ms: nowMs,
          created_at_ms: nowMs,
          updated_at_ms: nowMs,
        },
      ];
    });
    await insertTimers(tx, rows);
  }

  #changed(source: SourceTable): void {
    this.#runs.forget(source.id);
    if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
    this.#onTimers();
  }

  async #erase(source: SourceTable): Promise<void> {
    await this.#store.transaction((tx) => deleteSource(this.#store, tx, source, this.#clock.now()));
    this.#changed(source);
    await this.#runner.forget(source.id);
    this.#bus.emitterRemoved(source.id);
  }

  async #mustFind(id: string): Promise<SourceTable> {
    const source = await findSource(this.#store.read, id);
    if (source === undefined)
      throw new CallerError('not_found', `there is no source ${JSON.stringify(id)}`, { id });
    if (source.state === 'deploying')
      throw new CallerError('conflict', `source ${id} is still being created`, { id });
    return source;
  }

  async #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#turns.get(id) ?? Promise.resolve();
    const mine = previous.catch(() => {}).then(work);
    this.#turns.set(id, mine);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(id) === mine) this.#turns.delete(id);
    }
  }
}

function shapeOfSource(component: ComponentTable): ComponentShape {
  const shape = JSON.parse(component.shape) as ComponentShape;
  if (shape.type !== 'source') {
    throw new CallerError(
      'invalid_component',
      `component ${component.id} is of type ${shape.type}: only sources can be deployed`,
      {
        parameter: 'component_id',
      },
    );
  }
  return shape;
}
