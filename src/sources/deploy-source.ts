import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import type { EventBus } from '#events/event-bus.ts';
import { insertEmitter } from '#events/event-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { newHexKey, newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { ComponentReference, ComponentResolver } from '#registry/resolve-component.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { type Configured, SourceConfigurer } from './configure-source.ts';
import { type Deployment, type DeploymentContext, makeDeployment, mergedDefinitions } from './deployment.ts';
import { hookError } from './hook-error.ts';
import { freeSlug, slugify } from './name-slug.ts';
import type { SourceRuns } from './run-source.ts';
import { beforeChange, describeBefore, unchanging } from './source-change.ts';
import {
  accountsOf,
  deleteSource,
  findSource,
  insertSource,
  isNodeAlive,
  type SourceAccount,
  slugsLike,
  sourcesUnderChange,
  takeOverChange,
  updateSource,
  type WriteGuard,
} from './source-store.ts';
import { timerRows } from './source-timers.ts';

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

/** A source and what its props are. */
export type ConfiguredSource = Pick<Deployment, 'source' | 'definitions'>;

/** How often changes are looked for that nobody is at any more, and how many are undone at once. */
const sweepMs = 10_000;
const sweepMax = 20;

/**
 * Creates, changes and removes sources. Hooks run in the decided order and nothing is left half done: a creation that
 * fails leaves no trace, a change that fails leaves the source as it was, a removal whose hook fails removes nothing.
 *
 * Before the first hook of a change its source is marked with it, with what it was before; the write that ends the
 * change clears the mark. A mark that nobody is at (its process died, the store failed in between) is undone: at start,
 * by a sweep, and before the next change. Only who holds the mark writes the source. Changes of one source take turns.
 */
export class SourceDeployer {
  readonly #store: Store;
  readonly #resolver: Pick<ComponentResolver, 'resolve'>;
  readonly #configurer: SourceConfigurer;
  readonly #runner: Runner;
  readonly #runs: SourceRuns;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #context: DeploymentContext;
  readonly #onTimers: () => void;
  readonly #onEndpointChange: (endpointKey: string) => void;
  readonly #turns = new Map<string, Promise<unknown>>();
  #sweeper: NodeJS.Timeout | undefined;

  constructor(options: {
    store: Store;
    resolver: Pick<ComponentResolver, 'resolve'>;
    runner: Runner;
    runs: SourceRuns;
    bus: EventBus;
    clock: Clock;
    logger: Logger;
    /** This process, as its lease is called: while that lasts, its changes are its own. */
    node: string;
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
    this.#node = options.node;
    this.#context = options.context;
    this.#onTimers = options.onTimers;
    this.#onEndpointChange = options.onEndpointChange;
    this.#configurer = new SourceConfigurer({ db: options.store.read, ...options });
  }

  /** Undoes what a crash interrupted, now and from time to time. The lease of `node` must have begun. */
  start(): void {
    this.#sweeper = setInterval(() => void this.undoAbandoned(), sweepMs);
    this.#sweeper.unref();
    void this.undoAbandoned();
  }

  stop(): void {
    clearInterval(this.#sweeper);
  }

  /** Order: component, additionalProps, props, endpoint, `deploy`, `activate`, active. */
  async create(change: SourceChange, owner: SourceOwner): Promise<ConfiguredSource> {
    const component = await this.#resolver.resolve(change, owner);
    shapeOfSource(component);
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
      sealed_props: null,
      dynamic_props: null,
      state: 'deploying',
      endpoint_key: newHexKey(),
      revision: 1,
      change_id: newId('chg'),
      change_node: this.#node,
      before_change: null,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    const subject = { source: draft, component, callerId: owner.userId };
    const configured = await this.#configurer.configure(subject, change.configured_props ?? {});
    return this.#inTurn(id, async () => {
      const source = await this.#insert({ ...draft, ...configured.columns }, configured.accounts, change);
      let deployment: Deployment | undefined;
      let isActivated = false;
      try {
        deployment = await makeDeployment(this.#store.read, source, component, this.#context);
        await this.#runHookOrThrow(deployment, 'deploy');
        await this.#runHookOrThrow(deployment, 'activate');
        isActivated = true;
        const active = await this.#write(
          { ...source, ...unchanging, state: 'active', updated_at_ms: this.#clock.now() },
          guardOf(source),
          { timersOf: configured.definitions },
        );
        this.#changed(active);
        this.#logger.info({ source: id, owner: owner.ownerId, component: component.id }, 'source.created');
        return { source: active, definitions: configured.definitions };
      } catch (error) {
        await this.#attempt('source.creation-not-undone', id, async () => {
          // What `activate` has set up elsewhere would go on calling an endpoint that is gone.
          if (isActivated && deployment !== undefined) await this.#runs.runHook(deployment, 'deactivate');
          await this.#erase(source);
        });
        throw error;
      }
    });
  }

  /** Order: `deactivate`, swap, `activate`. Without a change of code, props or activity no hook runs. */
  async update(id: string, change: SourceChange, owner: SourceOwner): Promise<ConfiguredSource> {
    return this.#inTurn(id, async () => {
      const source = await this.#mustFind(id);
      const component = await this.#componentOf(source);
      const isReference = [change.component_id, change.component_code, change.component_url, change.key].some(
        (value) => value !== undefined,
      );
      // Whoever may change the source may go on with its code, also where they could not use that for another one.
      const keepsCode = !isReference || change.component_id === source.component_id;
      const target = keepsCode ? component : await this.#resolver.resolve(change, owner);
      const shape = shapeOfSource(target);
      const active = change.active ?? true;
      const draft: SourceTable = {
        ...source,
        name: change.name ?? source.name,
        component_id: target.id,
        state: active ? 'active' : 'inactive',
        updated_at_ms: this.#clock.now(),
      };
      if (change.name_slug !== undefined) draft.name_slug = slugify(change.name_slug);
      const oldDefinitions = definitionsOf(component, source);
      let configured: Pick<Configured, 'definitions' | 'accounts'> | undefined;
      if (target.id !== source.component_id || change.configured_props !== undefined) {
        const subject = { source, component: target, callerId: owner.userId };
        const made = await this.#configurer.reconfigure(subject, oldDefinitions, change.configured_props);
        Object.assign(draft, made.columns);
        configured = made;
      }
      const definitions = configured?.definitions ?? oldDefinitions;
      const result = (written: SourceTable) => {
        this.#changed(written);
        // The old key may be gone.
        if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
        this.#logger.info(
          { source: id, owner: draft.owner_id, revision: written.revision, active },
          'source.updated',
        );
        return { source: written, definitions };
      };
      if (configured === undefined && source.state === draft.state)
        return result(await this.#write(draft, guardOf(source), { raise: false }));

      // All that can be wrong with the new code and props shows before the old ones are touched.
      if (active) timerRows(draft, definitions, this.#clock.now());
      const accounts = configured?.accounts ?? (await accountsOf(this.#store.read, id));
      const activates = active && shape.hooks.includes('activate');
      if (activates) await makeDeployment(this.#store.read, draft, target, this.#context, { accounts });

      const marked = await this.#marked(source);
      const deactivates = hasDeactivate(source, component);
      if (deactivates) {
        // The slug is taken with the mark: another source that has it refuses the change before a hook ran.
        await this.#write({ ...marked, name_slug: draft.name_slug }, guardOf(source));
        await this.#deactivate(source, marked, component, { onFailure: 'refuse', onMissing: 'go-on' });
      }
      try {
        const mark = activates ? markOf(marked) : unchanging;
        const swapped = await this.#write({ ...draft, ...mark }, guardOf(deactivates ? marked : source), {
          raise: true,
          accounts,
          timersOf: active && !activates ? definitions : [],
        });
        if (!activates) return result(swapped);
        // Requests that come while `activate` runs are for the new code already; a run under way ends with the old
        // one, since another revision gets a process of its own.
        this.#changed(swapped);
        const deployment = await makeDeployment(this.#store.read, swapped, target, this.#context);
        await this.#runHookOrThrow(deployment, 'activate');
        const settled = { ...swapped, ...unchanging, updated_at_ms: this.#clock.now() };
        return result(await this.#write(settled, guardOf(swapped), { timersOf: definitions }));
      } catch (error) {
        await this.#attempt('source.change-not-undone', id, () => this.#restore(marked));
        if (draft.endpoint_key !== null) this.#onEndpointChange(draft.endpoint_key);
        throw error;
      }
    });
  }

  /** Order: `deactivate`, remove. Throws `hook_failed` and removes nothing when the hook fails, unless told to. */
  async remove(id: string, options: { ignoreHookErrors: boolean }): Promise<void> {
    await this.#inTurn(id, async () => {
      const source = await this.#mustFind(id);
      const component = await this.#componentOf(source);
      const marked = await this.#marked(source);
      if (hasDeactivate(source, component)) {
        await this.#write(marked, guardOf(source));
        const onFailure = options.ignoreHookErrors ? 'go-on' : 'refuse';
        await this.#deactivate(source, marked, component, { onFailure, onMissing: 'refuse' });
      }
      try {
        await this.#erase(source);
      } catch (error) {
        await this.#attempt('source.change-not-undone', id, () => this.#restore(marked));
        throw error;
      }
      this.#logger.info({ source: id, owner: source.owner_id }, 'source.removed');
    });
  }

  /** Undoes changes that nobody is at any more. Never rejects: what cannot be undone now is tried again. */
  async undoAbandoned(): Promise<void> {
    await this.#attempt('source.sweep-failed', undefined, async () => {
      const found = await sourcesUnderChange(this.#store.read, sweepMax);
      await Promise.all(
        found
          .filter(({ id }) => !this.#turns.has(id))
          .map(({ id }) =>
            this.#attempt('source.change-not-undone', id, () =>
              this.#inTurn(id, async () => {
                const source = await findSource(this.#store.read, id);
                if (source !== undefined && (await this.#isAbandoned(source))) await this.#undo(source);
              }),
            ),
          ),
      );
    });
  }

  /**
   * Runs `deactivate` of the code that goes, under the mark of its change. Throws `hook_failed`, with the source as it
   * was, when the hook fails (`onFailure`), or cannot run at all because an account is gone (`onMissing`).
   */
  async #deactivate(
    source: SourceTable,
    marked: SourceTable,
    component: ComponentTable,
    options: { onFailure: 'refuse' | 'go-on'; onMissing: 'refuse' | 'go-on' },
  ): Promise<void> {
    try {
      let deployment: Deployment;
      try {
        deployment = await makeDeployment(this.#store.read, source, component, this.#context);
      } catch (error) {
        if (!(error instanceof CallerError)) throw error;
        if (options.onMissing === 'refuse') throw cannotRun('deactivate', error);
        this.#logger.warn({ source: source.id, error: error.message }, 'source.deactivate-not-run');
        return;
      }
      await this.#runHookOrThrow(deployment, 'deactivate');
    } catch (error) {
      // Not run, or not known to have run: the mark stays, and the sweep undoes what there is.
      if (!(error instanceof CallerError)) throw error;
      if (options.onFailure === 'go-on') return;
      await this.#attempt('source.change-not-undone', source.id, () =>
        this.#write({ ...source, ...unchanging }, guardOf(marked)),
      );
      throw error;
    }
  }

  /**
   * Puts back what a source was before its change, active again if it still can be. Does nothing when the mark is not
   * there: nothing was begun, or another process has taken the change over.
   */
  async #restore(marked: SourceTable): Promise<void> {
    const before = beforeChange(marked);
    if (before === undefined || marked.change_id === null) return;
    const { source, accounts } = before;
    const component = await this.#componentOf(source);
    const definitions = definitionsOf(component, source);
    const isActive = source.state === 'active';
    const activates = isActive && shapeOfSource(component).hooks.includes('activate');
    const guard = guardOf(marked);
    const restored = await this.#tryWrite(
      { ...source, ...(activates ? markOf(marked) : unchanging), updated_at_ms: this.#clock.now() },
      guard,
      { raise: true, accounts, timersOf: isActive && !activates ? definitions : [] },
    );
    if (restored === undefined) return;
    this.#changed(restored);
    if (!isActive) await this.#runner.forget(source.id);
    if (!activates) return;
    const settled = { ...restored, ...unchanging };
    try {
      await this.#runHookOrThrow(
        await makeDeployment(this.#store.read, restored, component, this.#context),
        'activate',
      );
    } catch (error) {
      // Not run, or not known to have run: left to the sweep.
      if (!(error instanceof CallerError)) throw error;
      this.#changed(
        await this.#write({ ...settled, state: 'inactive' }, guard, { raise: true, timersOf: [] }),
      );
      this.#logger.warn(
        { source: source.id, error: error.message },
        'source.deactivated-after-failed-update',
      );
      return;
    }
    this.#changed(await this.#write(settled, guard, { timersOf: definitions }));
  }

  /** Undoes a change that nobody is at. How far it came is not known, so what may be set up elsewhere goes first. */
  async #undo(source: SourceTable): Promise<void> {
    const taken = { ...source, change_id: newId('chg'), change_node: this.#node };
    const isTaken = await this.#store.transaction((tx) =>
      takeOverChange(tx, {
        sourceId: source.id,
        from: source.change_id ?? '',
        to: taken.change_id,
        node: this.#node,
      }),
    );
    if (!isTaken) return;
    const before = beforeChange(taken)?.source;
    const old = before ?? taken;
    if (old.state !== 'inactive') {
      const component = await this.#componentOf(old);
      if (shapeOfSource(component).hooks.includes('deactivate')) {
        try {
          const deployment = await makeDeployment(this.#store.read, old, component, this.#context);
          await this.#runHookOrThrow(deployment, 'deactivate');
        } catch (error) {
          if (!(error instanceof CallerError)) throw error;
        }
      }
    }
    if (before === undefined) await this.#erase(taken);
    else await this.#restore(taken);
    if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
    this.#logger.warn(
      { source: source.id, created: before !== undefined },
      'source.interrupted-change-undone',
    );
  }

  async #isAbandoned(source: SourceTable): Promise<boolean> {
    if (source.change_id === null) return false;
    // In its turn, so this process is not at it; and a folder has one process only.
    if (source.change_node === this.#node || this.#store.name === 'sqlite') return true;
    return !(await isNodeAlive(this.#store.read, source.change_node ?? '', this.#clock.now()));
  }

  /** The source with the mark of a new change, not written yet. */
  async #marked(source: SourceTable): Promise<SourceTable> {
    return {
      ...source,
      change_id: newId('chg'),
      change_node: this.#node,
      before_change: describeBefore(source, await accountsOf(this.#store.read, source.id)),
    };
  }

  /**
   * The slug is taken in the same transaction; when two creations race for one, the loser takes the next. A source
   * whose caller names neither is called as its slug, so that two of one component can be told apart.
   */
  async #insert(
    draft: SourceTable,
    accounts: readonly SourceAccount[],
    named: Pick<SourceChange, 'name' | 'name_slug'>,
  ): Promise<SourceTable> {
    const slug = slugify(named.name_slug ?? draft.name);
    for (let attempt = 0; ; attempt += 1) {
      const free = freeSlug(slug, await slugsLike(this.#store.read, draft.owner_id, slug));
      const isNamed = named.name !== undefined || named.name_slug !== undefined;
      const source = { ...draft, name_slug: free, name: isNamed ? draft.name : free };
      try {
        await this.#store.transaction(async (tx) => {
          await insertSource(tx, source, accounts);
          await insertEmitter(tx, { id: source.id, ownerId: source.owner_id });
        });
        return source;
      } catch (error) {
        if (!isUniqueViolation(error) || attempt >= 10) throw error;
      }
    }
  }

  /** Writes a source, answers it with its revision. Throws `conflict` when another change came first. */
  async #write(row: SourceTable, guard: WriteGuard, parts: WrittenParts = {}): Promise<SourceTable> {
    const written = await this.#tryWrite(row, guard, parts);
    if (written !== undefined) return written;
    throw new CallerError(
      'conflict',
      `source ${row.id} was changed by another request; read it and try again`,
      { id: row.id },
    );
  }

  async #tryWrite(
    row: SourceTable,
    guard: WriteGuard,
    parts: WrittenParts = {},
  ): Promise<SourceTable | undefined> {
    const { raise = false, accounts, timersOf } = parts;
    try {
      const revision = await this.#store.transaction((tx) =>
        updateSource(tx, row, guard, {
          raise,
          ...(accounts === undefined ? {} : { accounts }),
          ...(timersOf === undefined ? {} : { timers: timerRows(row, timersOf, this.#clock.now()) }),
        }),
      );
      return revision === undefined ? undefined : { ...row, revision };
    } catch (error) {
      if (isUniqueViolation(error)) {
        throw new CallerError('conflict', `name_slug: another source is called ${row.name_slug}`, {
          parameter: 'name_slug',
        });
      }
      throw error;
    }
  }

  async #runHookOrThrow(deployment: Deployment, hook: 'deploy' | 'activate' | 'deactivate'): Promise<void> {
    const outcome = await this.#runs.runHook(deployment, hook);
    if (outcome.status !== 'finished' && outcome.status !== 'absent')
      throw hookError(hook, outcome, deployment.redact);
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

  async #componentOf(source: SourceTable): Promise<ComponentTable> {
    const component = await findComponent(this.#store.read, source.component_id);
    return must(component, `component ${source.component_id} of ${source.id}`);
  }

  /** In its turn. */
  async #mustFind(id: string): Promise<SourceTable> {
    let source = await findSource(this.#store.read, id);
    if (source !== undefined && (await this.#isAbandoned(source))) {
      await this.#undo(source);
      source = await findSource(this.#store.read, id);
    }
    if (source === undefined)
      throw new CallerError('not_found', `there is no source ${JSON.stringify(id)}`, { id });
    if (source.change_id !== null)
      throw new CallerError('conflict', `source ${id} is being changed by another request; try again`, {
        id,
      });
    return source;
  }

  /** For what is done after a failure: its own failure is told to the log, and the sweep tries again. */
  async #attempt(failure: string, source: string | undefined, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#logger.warn({ source, error: toError(error).message }, failure);
    }
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

interface WrittenParts {
  /** Another revision: its runs start anew. */
  raise?: boolean;
  accounts?: readonly SourceAccount[];
  /** The timers of these definitions take the place of those that are there. */
  timersOf?: readonly PropDefinition[];
}

/** The change that holds the mark, or one that finds none. */
function guardOf(source: SourceTable): WriteGuard {
  return source.change_id === null ? { revision: source.revision } : { changeId: source.change_id };
}

function markOf({ change_id, change_node, before_change }: SourceTable) {
  return { change_id, change_node, before_change };
}

function definitionsOf(component: ComponentTable, source: SourceTable): PropDefinition[] {
  return mergedDefinitions(JSON.parse(component.shape) as ComponentShape, source.dynamic_props);
}

function hasDeactivate(source: SourceTable, component: ComponentTable): boolean {
  return source.state === 'active' && shapeOfSource(component).hooks.includes('deactivate');
}

function cannotRun(hook: string, cause: CallerError): CallerError {
  const error = { name: 'ConfigurationError', message: cause.message, stack: '' };
  const details = { hook, reason: 'not_run', error, logs: [] };
  return new CallerError('hook_failed', `${hook}: ${error.name}: ${error.message}`, details, { cause });
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
