import type { PropDefinition } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import type { EventBus } from '#events/event-bus.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store, Tx } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { type Deployment, type DeploymentContext, makeDeployment } from './deployment.ts';
import { hookError } from './hook-error.ts';
import type { SourceRuns } from './run-source.ts';
import { isLost } from './sealed-props.ts';
import { beforeChange, describeBefore, guardOf, markOf, unchanging } from './source-change.ts';
import type { SourceLanes } from './source-lanes.ts';
import { definitionsOf, hasHook } from './source-shape.ts';
import {
  accountsOf,
  deleteSource,
  findSource,
  type SourceAccount,
  updateSource,
  type WriteGuard,
} from './source-store.ts';
import { timerRows } from './source-timers.ts';

/** What else has to know that a source came or went, in the transaction of it: who listens to what. */
export interface SourceLinks {
  added(tx: Tx, source: { id: string; ownerId: string }): Promise<void>;
  removed(tx: Tx, source: { id: string; ownerId: string }): Promise<void>;
}

export interface ChangeStepOptions {
  store: Store;
  links: SourceLinks;
  runner: Pick<Runner, 'forget'>;
  runs: SourceRuns;
  lanes: SourceLanes;
  bus: EventBus;
  clock: Clock;
  logger: Logger;
  /** This process, as its lease is called: while that lasts, its changes are its own. */
  node: string;
  context: DeploymentContext;
  /** Timers were added or changed. */
  onTimers: () => void;
  onEndpointChange: (endpointKey: string) => void;
  /** The flow control of a source may have changed, or the source went. */
  onFlowControl: (sourceId: string) => void;
  /** Absent: owners may have any number of sources. */
  quotas?: Pick<QuotaGuard, 'requireRoom'>;
}

interface SourceWriteOptions {
  /** Makes another revision: the code is evaluated again for its runs. */
  raise?: boolean;
  accounts?: readonly SourceAccount[];
  /** The timers of these definitions take the place of those that are there. */
  timersOf?: readonly PropDefinition[];
}

/** What changes of sources are made of: writes under the mark of a change, hooks, and the way back. */
export class ChangeSteps {
  readonly #store: Store;
  readonly #links: SourceLinks;
  readonly #runner: Pick<Runner, 'forget'>;
  readonly #runs: SourceRuns;
  readonly #lanes: SourceLanes;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #context: DeploymentContext;
  readonly #onTimers: () => void;
  readonly #onEndpointChange: (endpointKey: string) => void;
  readonly #onFlowControl: (sourceId: string) => void;

  constructor(options: ChangeStepOptions) {
    this.#store = options.store;
    this.#links = options.links;
    this.#runner = options.runner;
    this.#runs = options.runs;
    this.#lanes = options.lanes;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#node = options.node;
    this.#context = options.context;
    this.#onTimers = options.onTimers;
    this.#onEndpointChange = options.onEndpointChange;
    this.#onFlowControl = options.onFlowControl;
  }

  /** The source with the mark of a new change, not written yet. */
  async marked(source: SourceTable): Promise<SourceTable> {
    return {
      ...source,
      change_id: newId('chg'),
      change_node: this.#node,
      before_change: describeBefore(source, await accountsOf(this.#store.read, source.id)),
    };
  }

  /**
   * Runs `deactivate` of the code that is replaced or removed, under the mark of its change. Throws `hook_failed`, with the source as it
   * was, when the hook fails (`onFailure`), or cannot run at all because an account or a
   * secret is gone (`onMissing`).
   */
  async deactivate(
    source: SourceTable,
    marked: SourceTable,
    component: ComponentTable,
    options: { onFailure: 'refuse' | 'go-on'; onMissing: 'refuse' | 'go-on'; msMax?: number },
  ): Promise<void> {
    try {
      let deployment: Deployment;
      try {
        deployment = await makeDeployment(this.#store.read, source, component, this.#context);
      } catch (error) {
        if (!(error instanceof CallerError) && !isLost(error)) throw error;
        if (options.onMissing === 'refuse') throw cannotRun('deactivate', toError(error));
        this.#logger.warn({ source: source.id, error: toError(error).message }, 'source.deactivate-not-run');
        return;
      }
      await this.runHookOrThrow(deployment, 'deactivate', options);
    } catch (error) {
      // Not run, or not known to have run: the mark stays, and the sweep undoes what there is.
      if (!(error instanceof CallerError)) throw error;
      if (options.onFailure === 'go-on') return;
      await this.attempt('source.change-not-undone', source.id, () =>
        this.#putBack({ ...source, ...unchanging }, guardOf(marked)),
      );
      throw error;
    }
  }

  /**
   * Puts back what a source was before its change, active again if it still can be. Does nothing when the mark is not
   * there: nothing was begun, or another process has taken the change over. `activated`: the new code, when its
   * `activate` had finished; what it has set up elsewhere is removed first.
   */
  async restore(marked: SourceTable, activated?: Deployment): Promise<void> {
    const before = beforeChange(marked);
    if (before === undefined || marked.change_id === null) return;
    const { source, accounts } = before;
    const component = await this.componentOf(source);
    const definitions = definitionsOf(component, source);
    const isActive = source.state === 'active';
    const activates = hasHook(source, component, 'activate');
    const guard = guardOf(marked);
    const restored = await this.#putBack(
      { ...source, ...(activates ? markOf(marked) : unchanging), updated_at_ms: this.#clock.now() },
      guard,
      { raise: true, accounts, timersOf: isActive && !activates ? definitions : [] },
    );
    if (restored !== undefined) this.changed(restored);
    // Also when another process took over: it may have run `deactivate` before this `activate` ended.
    if (activated !== undefined) await this.#runs.runHook(activated, 'deactivate');
    if (restored === undefined) return;
    if (!isActive) await this.#runner.forget(source.id);
    if (!activates) return;
    const settled = { ...restored, ...unchanging };
    try {
      await this.runHookOrThrow(
        await makeDeployment(this.#store.read, restored, component, this.#context),
        'activate',
      );
    } catch (error) {
      // Not run, or not known to have run: left to the sweep. What is lost for good is not waited for.
      if (!(error instanceof CallerError) && !isLost(error)) throw error;
      this.changed(await this.write({ ...settled, state: 'inactive' }, guard, { raise: true, timersOf: [] }));
      this.#logger.warn(
        { source: source.id, error: toError(error).message },
        'source.deactivated-after-failed-update',
      );
      return;
    }
    this.changed(await this.write(settled, guard, { timersOf: definitions }));
  }

  /** Writes a source, answers it with its revision. Throws `conflict` when another change came first. */
  async write(row: SourceTable, guard: WriteGuard, options: SourceWriteOptions = {}): Promise<SourceTable> {
    const written = await this.#tryWrite(row, guard, options);
    if (written !== undefined) return written;
    throw changedMeanwhile(row.id);
  }

  /**
   * Writes back what a source was. A slug that was given away meanwhile stays away: the source keeps the one it has,
   * since no undoing may fail because of a name. Returns undefined when another change came first.
   */
  async #putBack(
    row: SourceTable,
    guard: WriteGuard,
    options: SourceWriteOptions = {},
  ): Promise<SourceTable | undefined> {
    try {
      return await this.#tryWrite(row, guard, options);
    } catch (error) {
      if (!(error instanceof CallerError) || error.details.parameter !== 'name_slug') throw error;
      const present = await findSource(this.#store.read, row.id);
      if (present === undefined) return undefined;
      return this.#tryWrite({ ...row, name_slug: present.name_slug }, guard, options);
    }
  }

  async #tryWrite(
    row: SourceTable,
    guard: WriteGuard,
    options: SourceWriteOptions = {},
  ): Promise<SourceTable | undefined> {
    const { raise = false, accounts, timersOf } = options;
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

  async runHookOrThrow(
    deployment: Deployment,
    hook: 'deploy' | 'activate' | 'deactivate',
    limits: { msMax?: number } = {},
  ): Promise<void> {
    const outcome = await this.#runs.runHook(deployment, hook, limits);
    if (outcome.status !== 'finished' && outcome.status !== 'absent')
      throw hookError(hook, outcome, deployment.redact);
  }

  changed(source: SourceTable): void {
    this.#lanes.forget(source.id);
    if (source.endpoint_key !== null) this.#onEndpointChange(source.endpoint_key);
    this.#onTimers();
    this.#onFlowControl(source.id);
  }

  /** Removes a source as it was read, or under its mark. False, with nothing removed, when another change came first. */
  async erase(
    source: SourceTable,
    alongside?: (tx: Tx, source: SourceTable) => Promise<void>,
  ): Promise<boolean> {
    const isErased = await this.#store.transaction(async (tx) => {
      await alongside?.(tx, source);
      if (!(await deleteSource(this.#store, tx, source, guardOf(source), this.#clock.now()))) return false;
      await this.#links.removed(tx, { id: source.id, ownerId: source.owner_id });
      return true;
    });
    if (!isErased) return false;
    this.changed(source);
    await this.#runner.forget(source.id);
    this.#bus.emitterRemoved(source.id);
    return true;
  }

  async componentOf(source: SourceTable): Promise<ComponentTable> {
    const component = await findComponent(this.#store.read, source.component_id);
    return must(component, `component ${source.component_id} of ${source.id}`);
  }

  /** For clean-up after a failure: its own failure is logged, and the sweep tries again. */
  async attempt(failure: string, source: string | undefined, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#logger.warn({ source, error: toError(error).message }, failure);
    }
  }
}

export function changedMeanwhile(id: string): CallerError {
  return new CallerError('conflict', `source ${id} was changed by another request; read it and try again`, {
    id,
  });
}

function cannotRun(hook: string, cause: Error): CallerError {
  const error = { name: 'ConfigurationError', message: cause.message, stack: '' };
  const details = { hook, reason: 'not_run', error, logs: [] };
  return new CallerError('hook_failed', `${hook}: ${error.name}: ${error.message}`, details, { cause });
}
