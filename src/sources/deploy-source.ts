import type { ConfiguredProps } from '#components/validate-props.ts';
import { insertEmitter } from '#events/event-store.ts';
import { type FlowControl, givenFlowControl } from '#flow-control/flow-control.ts';
import { refuseLostAccess } from '#identity/refuse-lost-access.ts';
import type { Clock } from '#lib/clock.ts';
import { newHexKey, newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { ComponentReference, ComponentResolver } from '#registry/resolve-component.ts';
import type { Store, Tx } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { type ChangeStepOptions, ChangeSteps, changedMeanwhile, type SourceLinks } from './change-steps.ts';
import { ChangeTurns } from './change-turns.ts';
import { type Configured, SourceConfigurer } from './configure-source.ts';
import { type Deployment, type DeploymentContext, makeDeployment } from './deployment.ts';
import { freeSlug, slugify } from './name-slug.ts';
import type { SourceRuns } from './run-source.ts';
import { guardOf, markOf, unchanging } from './source-change.ts';
import { sourceFlowControl } from './source-flow-control.ts';
import { definitionsOf, hasHook, shapeOfSource } from './source-shape.ts';
import { accountsOf, insertSource, type SourceAccount, slugsLike } from './source-store.ts';
import { timerRows } from './source-timers.ts';

/** Creations of sources of one name that race for its slugs: how often one tries, and over how many free ones it spreads at most. */
const slugTriesMax = 50;
const slugSpreadMax = 256;

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
  /** Runs at once on each node. */
  concurrency?: number;
  flow_control?: FlowControl | null;
  isolated?: boolean;
}

/** Written in the transaction that writes the source, so that there is never one without the other. */
export interface SourceWrittenWith {
  alongside?: (tx: Tx, source: SourceTable) => Promise<void>;
}

/** How a source is removed. */
export interface SourceRemoval {
  ignoreHookErrors: boolean;
  /** Maximum duration of `deactivate`; 0: it is not run; undefined: the limit of every hook. */
  hookMsMax?: number;
}

/** A source and what its props are. */
export type ConfiguredSource = Pick<Deployment, 'source' | 'definitions'>;

/**
 * Creates, changes and removes sources. Hooks run in the decided order and nothing is left half done: a creation that
 * fails leaves no trace, a change that fails leaves the source as it was, a removal whose hook fails removes nothing.
 *
 * Before the first hook of a change its source is marked with it, with what it was before; the write that ends the
 * change clears the mark. An abandoned mark (its process died, the store failed in between) is undone: at start,
 * by a sweep, and before the next change. Only who holds the mark writes the source. Changes of one source take turns.
 */
export class SourceDeployer {
  readonly #store: Store;
  readonly #resolver: Pick<ComponentResolver, 'resolve'>;
  readonly #links: SourceLinks;
  readonly #configurer: SourceConfigurer;
  readonly #steps: ChangeSteps;
  readonly #turns: ChangeTurns;
  readonly #runs: SourceRuns;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #context: DeploymentContext;
  readonly #onEndpointChange: (endpointKey: string) => void;
  readonly #quotas: ChangeStepOptions['quotas'];

  constructor(options: ChangeStepOptions & { resolver: Pick<ComponentResolver, 'resolve'> }) {
    this.#store = options.store;
    this.#links = options.links;
    this.#resolver = options.resolver;
    this.#runs = options.runs;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#node = options.node;
    this.#context = options.context;
    this.#onEndpointChange = options.onEndpointChange;
    this.#quotas = options.quotas;
    this.#configurer = new SourceConfigurer({ db: options.store.read, ...options });
    this.#steps = new ChangeSteps(options);
    this.#turns = new ChangeTurns({ steps: this.#steps, ...options });
  }

  /** Undoes what a crash interrupted, now and from time to time. The lease of `node` must have begun. */
  start(): void {
    this.#turns.start();
  }

  stop(): void {
    this.#turns.stop();
  }

  /** Undoes abandoned changes. Never rejects: what cannot be undone now is tried again. */
  undoAbandoned(): Promise<void> {
    return this.#turns.undoAbandoned();
  }

  /**
   * Order: component, additionalProps, props, endpoint, `deploy`, `activate`, active. With `active: false` no hook runs: `activate` runs when
   * the source is activated, and `deploy` never, since such a source was deployed elsewhere before.
   */
  async create(
    change: SourceChange,
    owner: SourceOwner,
    { alongside }: SourceWrittenWith = {},
  ): Promise<ConfiguredSource> {
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
      apphooks: null,
      state: 'deploying',
      endpoint_key: newHexKey(),
      concurrency: change.concurrency ?? 1,
      flow_control: null,
      isolated: change.isolated === true ? 1 : 0,
      revision: 1,
      change_id: newId('chg'),
      change_node: this.#node,
      before_change: null,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    const subject = { source: draft, component, callerId: owner.userId };
    const configured = await this.#configurer.configure(subject, change.configured_props ?? {});
    const settled = { ...draft, ...configured.columns };
    settled.flow_control = sourceFlowControl(change.flow_control ?? null, settled, configured.definitions);
    return this.#turns.inTurn(id, async () => {
      if (change.active === false) {
        const inactive = { ...settled, ...unchanging, state: 'inactive' as const };
        const source = await this.#insert(inactive, owner, configured.accounts, change, alongside);
        this.#logger.info({ source: id, owner: owner.ownerId, component: component.id }, 'source.created');
        return { source, definitions: configured.definitions };
      }
      const source = await this.#insert(settled, owner, configured.accounts, change, alongside);
      let deployment: Deployment | undefined;
      let isActivated = false;
      try {
        deployment = await makeDeployment(this.#store.read, source, component, this.#context);
        await this.#steps.runHookOrThrow(deployment, 'deploy');
        await this.#steps.runHookOrThrow(deployment, 'activate');
        isActivated = true;
        // The hooks may have taken minutes.
        await this.#store.transaction((tx) => refuseLostAccess(tx, this.#store, owner));
        const active = await this.#steps.write(
          { ...source, ...unchanging, state: 'active', updated_at_ms: this.#clock.now() },
          guardOf(source),
          { timersOf: configured.definitions },
        );
        this.#steps.changed(active);
        this.#logger.info({ source: id, owner: owner.ownerId, component: component.id }, 'source.created');
        return { source: active, definitions: configured.definitions };
      } catch (error) {
        await this.#steps.attempt('source.creation-not-undone', id, async () => {
          // What `activate` has set up elsewhere would continue to call an endpoint that is gone.
          if (isActivated && deployment !== undefined) await this.#runs.runHook(deployment, 'deactivate');
          await this.#steps.erase(source);
        });
        throw error;
      }
    });
  }

  /** Order: `deactivate`, swap, `activate`. Without a change of code, props or activity no hook runs. */
  async update(id: string, change: SourceChange, owner: SourceOwner): Promise<ConfiguredSource> {
    return this.#turns.inTurn(id, async () => {
      const source = await this.#turns.mustFind(id);
      const component = await this.#steps.componentOf(source);
      const isReference = [change.component_id, change.component_code, change.component_url, change.key].some(
        (value) => value !== undefined,
      );
      // A user who may change the source may keep its code, even if they could not use that code for another source.
      const keepsCode = !isReference || change.component_id === source.component_id;
      const target = keepsCode ? component : await this.#resolver.resolve(change, owner);
      shapeOfSource(target);
      const active = change.active ?? true;
      const draft: SourceTable = {
        ...source,
        name: change.name ?? source.name,
        component_id: target.id,
        concurrency: change.concurrency ?? source.concurrency,
        isolated: change.isolated === undefined ? source.isolated : Number(change.isolated),
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
      const flowControl =
        change.flow_control === undefined ? givenFlowControl(source.flow_control) : change.flow_control;
      draft.flow_control = sourceFlowControl(flowControl, draft, definitions);
      const result = (written: SourceTable) => {
        this.#steps.changed(written);
        // The old key may be gone.
        if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
        this.#logger.info(
          { source: id, owner: draft.owner_id, revision: written.revision, active },
          'source.updated',
        );
        return { source: written, definitions };
      };
      if (configured === undefined && source.state === draft.state)
        return result(
          // Other nodes learn of these by the revision.
          await this.#steps.write(draft, guardOf(source), {
            raise: (['concurrency', 'isolated', 'flow_control'] as const).some(
              (name) => draft[name] !== source[name],
            ),
          }),
        );

      // All that can be wrong with the new code and props shows before the old ones are touched.
      if (active) {
        // The admin of the instance pauses sources of users who are disabled.
        const by = { ownerId: source.owner_id, userId: owner.userId };
        await this.#store.transaction((tx) => refuseLostAccess(tx, this.#store, by));
        timerRows(draft, definitions, this.#clock.now());
      }
      const accounts = configured?.accounts ?? (await accountsOf(this.#store.read, id));
      const activates = hasHook(draft, target, 'activate');
      if (activates) await makeDeployment(this.#store.read, draft, target, this.#context, { accounts });

      const marked = await this.#steps.marked(source);
      const deactivates = hasHook(source, component, 'deactivate');
      if (deactivates) {
        // The slug is taken with the mark: another source that has it refuses the change before a hook ran.
        await this.#steps.write({ ...marked, name_slug: draft.name_slug }, guardOf(source));
        await this.#steps.deactivate(source, marked, component, { onFailure: 'refuse', onMissing: 'go-on' });
      }
      let activated: Deployment | undefined;
      try {
        const mark = activates ? markOf(marked) : unchanging;
        const swapped = await this.#steps.write(
          { ...draft, ...mark },
          guardOf(deactivates ? marked : source),
          {
            raise: true,
            accounts,
            timersOf: active && !activates ? definitions : [],
          },
        );
        if (!activates) return result(swapped);
        // Requests that come while `activate` runs are for the new code already; a run under way ends with the old
        // one, since another revision is evaluated apart from it.
        this.#steps.changed(swapped);
        const deployment = await makeDeployment(this.#store.read, swapped, target, this.#context);
        await this.#steps.runHookOrThrow(deployment, 'activate');
        activated = deployment;
        const settled = { ...swapped, ...unchanging, updated_at_ms: this.#clock.now() };
        return result(await this.#steps.write(settled, guardOf(swapped), { timersOf: definitions }));
      } catch (error) {
        await this.#steps.attempt('source.change-not-undone', id, () =>
          this.#steps.restore(marked, activated),
        );
        if (draft.endpoint_key !== null) this.#onEndpointChange(draft.endpoint_key);
        throw error;
      }
    });
  }

  /**
   * Order: `deactivate`, remove. Throws `hook_failed` and removes nothing when the hook fails, unless `ignoreHookErrors` is set. `alongside`
   * is done in the transaction that removes it; where it throws, the source stays.
   */
  async remove(id: string, options: SourceRemoval & SourceWrittenWith): Promise<void> {
    await this.#turns.inTurn(id, async () => {
      const { ignoreHookErrors, hookMsMax } = options;
      const source = await this.#turns.mustFind(id, { alsoHalfUndone: ignoreHookErrors });
      const component = await this.#steps.componentOf(source);
      const marked = await this.#steps.marked(source);
      // Undoing an earlier change has tried what there was to try; hooks that fail are of no interest here.
      const isHalfUndone = source.change_id !== null;
      let held = source;
      if (!isHalfUndone && hookMsMax !== 0 && hasHook(source, component, 'deactivate')) {
        held = await this.#steps.write(marked, guardOf(source));
        const onFailure = ignoreHookErrors ? 'go-on' : 'refuse';
        await this.#steps.deactivate(source, marked, component, {
          ...{ onFailure, onMissing: 'refuse' },
          ...(hookMsMax === undefined ? {} : { msMax: hookMsMax }),
        });
      }
      try {
        if (!(await this.#steps.erase(held, options.alongside))) throw changedMeanwhile(id);
      } catch (error) {
        await this.#steps.attempt('source.change-not-undone', id, () => this.#steps.restore(marked));
        throw error;
      }
      this.#logger.info({ source: id, owner: source.owner_id }, 'source.removed');
    });
  }

  /**
   * The slug is taken in the same transaction; when creations race for one, the losers take others, which are the further
   * apart the more often they lose: if each took the next one, only one of them would win each time. A source whose caller
   * names neither is called as its slug, so that two of one component can be distinguished.
   */
  async #insert(
    draft: SourceTable,
    by: SourceOwner,
    accounts: readonly SourceAccount[],
    named: Pick<SourceChange, 'name' | 'name_slug'>,
    alongside: SourceWrittenWith['alongside'],
  ): Promise<SourceTable> {
    const slug = slugify(named.name_slug ?? draft.name);
    for (let attempt = 0; ; attempt += 1) {
      const skipped = Math.floor(Math.random() * Math.min(2 ** attempt, slugSpreadMax));
      const free = freeSlug(slug, await slugsLike(this.#store.read, draft.owner_id, slug), skipped);
      const isNamed = named.name !== undefined || named.name_slug !== undefined;
      const source = { ...draft, name_slug: free, name: isNamed ? draft.name : free };
      try {
        await this.#store.transaction(async (tx) => {
          await refuseLostAccess(tx, this.#store, by);
          await this.#quotas?.requireRoom(tx, 'sources', source.owner_id);
          await insertSource(tx, source, accounts);
          const emitter = { id: source.id, ownerId: source.owner_id };
          await insertEmitter(tx, emitter);
          await this.#links.added(tx, emitter);
          await alongside?.(tx, source);
        });
        return source;
      } catch (error) {
        if (!isUniqueViolation(error) || attempt >= slugTriesMax) throw error;
      }
    }
  }
}
