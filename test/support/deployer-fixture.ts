import { createHash } from 'node:crypto';
import { openCredentials } from '#accounts/account-credentials.ts';
import { createAccount } from '#accounts/manage-accounts.ts';
import type { ComponentShape } from '#components/component-shape.ts';
import { insertComponent } from '#components/component-store.ts';
import { EventBus } from '#events/event-bus.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { must } from '#lib/assert.ts';
import { type Clock, systemClock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import { ShareRecords } from '#metering/share-records.ts';
import type { ComponentReference } from '#registry/resolve-component.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import type { CallRequest, Runner } from '#runner/runner.ts';
import { SourceDeployer } from '#sources/deploy-source.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { SourceRuns } from '#sources/run-source.ts';
import { SourceLanes } from '#sources/source-lanes.ts';
import { SourceReplies } from '#sources/source-replies.ts';
import type { Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { openValue, sealValue } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { noSubscribers } from './no-subscribers.ts';

const quiet: Omit<CallOutcome, 'status'> = { emits: [], dbSets: {}, logs: [], logsDropped: 0, durationMs: 1 };

export const finished: CallOutcome = { status: 'finished', ...quiet };

/** An outcome that is not `finished`. */
export function failed(status: CallOutcome['status'], message: string): CallOutcome {
  return { status, error: { name: 'Error', message, stack: '' }, ...quiet };
}

/** What a call was, in a word: `activate`, `run`, `additionalProps`. */
function nameOf({ call }: CallRequest): string {
  return call.kind === 'hook' ? call.hook : call.kind;
}

/**
 * A deployer on a real store with a runner that does as the test says: for the moments that real code cannot be made
 * to meet, such as a store that fails, or a process that is lost, between two steps of a change.
 */
export class DeployerFixture {
  readonly store: Store;
  readonly deployer: SourceDeployer;
  readonly runs: SourceRuns;
  readonly lanes: SourceLanes;
  readonly context: DeploymentContext;
  /** The calls so far: hook and mood prop, such as `activate new`. */
  readonly calls: string[] = [];
  /** How a call ends; by default it finishes. */
  answer: (hook: string, request: CallRequest) => CallOutcome | Promise<CallOutcome> = () => finished;

  /** Lanes in which a run has failed that is to be tried again before those behind it. */
  readonly restingLanes = new Set<string>();

  /** How far the clock of this node is ahead. */
  aheadMs = 0;
  readonly clock: Clock = { now: () => systemClock.now() + this.aheadMs };

  readonly accountTools = { vault: new Vault(Buffer.alloc(32, 7)), clock: systemClock };

  /** While it says so, the store takes no transaction. */
  storeFails: () => boolean = () => false;

  constructor(realStore: Store, node = 'node_test') {
    const store = new Proxy(realStore, {
      get: (target, name) => {
        if (name === 'transaction' && this.storeFails())
          return () => Promise.reject(new UnavailableError('store_unavailable', 'the test says so'));
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    this.store = store;
    const { vault } = this.accountTools;
    const runner: Runner = {
      describe: () => Promise.reject(new Error('not in these tests')),
      call: async (request) => {
        this.calls.push([nameOf(request), request.props.mood].filter((word) => word !== undefined).join(' '));
        return this.answer(nameOf(request), request);
      },
      forget: () => Promise.resolve(),
      releaseScratch: () => undefined,
      expectOwners: () => undefined,
      processes: () => ({ processesMax: 0, memoryBytesMax: 0, processes: [], shares: [], setApart: [] }),
      stats: () => ({
        ...{ level: 'off', ownUsers: false, addons: false, warm: 0, deployments: 0, setApart: 0 },
        ...{ prewarmed: 0, calls: 0, kills: 0 },
        shares: new ShareRecords({ logger: silentLogger, nowMs: () => 0 }).byResource,
      }),
      close: () => Promise.resolve(),
    };
    const bus = new EventBus(silentLogger);
    const context: DeploymentContext = {
      endpointUrl: (key) => (key === null ? undefined : `http://127.0.0.1/in/${key}`),
      credentials: async (id, owners) => ({
        credentials: await openCredentials(store.read, vault, id, owners),
        freshUntilMs: null,
      }),
      sealer: {
        seal: (ownerId, id, value) =>
          store.transaction((tx) => sealValue(tx, this.accountTools, { ownerId, id, value })),
        open: (ownerId, id, sealed) => openValue(store.read, vault, { ownerId, id, sealed }),
      },
    };
    this.context = context;
    this.lanes = new SourceLanes({ store, clock: this.clock, context });
    const { lanes, clock } = this;
    const parts = { store, runner, bus, clock, logger: silentLogger, node, context, lanes };
    this.runs = new SourceRuns({
      hostCalls: () => Promise.reject(new Error('these tests ask for nothing')),
      ...parts,
      outcomes: new OutcomeRecorder(store, () => true),
      replies: new SourceReplies(parts),
      keptReplies: {
        recorder: () => {
          throw new Error('these tests have no idempotency keys');
        },
      },
      router: noSubscribers,
      pool: {
        rests: (lane) => this.restingLanes.has(lane),
        fails: ({ lane }) => this.restingLanes.add(must(lane, 'the lane')),
      },
      onFlowEnded: () => {},
      limits: { deadlineMs: 300_000, memoryMb: 64, componentDbBytesMax: 10_000 },
    });
    this.deployer = new SourceDeployer({
      ...parts,
      runs: this.runs,
      resolver: { resolve: (reference: ComponentReference) => this.#saved(reference) },
      links: { added: async () => {}, removed: async () => {} },
      onTimers: () => {},
      onEndpointChange: () => {},
      onFlowControl: () => {},
    });
  }

  [Symbol.dispose](): void {
    this.lanes.close();
  }

  /** A saved source component; by default it has every hook and a prop `mood`. */
  async component(shape: Partial<ComponentShape> = {}): Promise<ComponentTable> {
    const component = this.componentRow(shape);
    const { bundle_hash: hash, created_at_ms } = component;
    const format = 'cjs';
    const bundle = { owner_id: 'u_1', hash, format, code: '', packages: null, created_at_ms } as const;
    await this.store.transaction((tx) => insertComponent(tx, component, bundle));
    return component;
  }

  /** Such a component, not saved. */
  componentRow(shape: Partial<ComponentShape> = {}): ComponentTable {
    const id = newId('sc');
    const hash = createHash('sha256').update(id).digest('hex');
    return {
      id,
      owner_id: 'u_1',
      user_id: 'u_1',
      component_key: null,
      code: '',
      code_hash: hash,
      tree_hash: hash,
      url: null,
      name: 'Fixture',
      version: '',
      shape: JSON.stringify({
        type: 'source',
        hooks: ['deploy', 'activate', 'deactivate'],
        hasRun: true,
        hasAdditionalProps: false,
        hasSampleEmit: false,
        configurableProps: [{ name: 'mood', type: 'string', optional: true }],
        ...shape,
      }),
      bundle_hash: hash,
      lock: '',
      created_at_ms: 1,
      updated_at_ms: 1,
    };
  }

  /** An account with these credentials; its id. */
  async account(ownerId: string, credentials: Record<string, unknown>): Promise<string> {
    const account = await this.store.transaction((tx) =>
      createAccount(tx, this.accountTools, { ownerId, userId: ownerId, app: 'gitlab', credentials }),
    );
    return account.id;
  }

  async #saved({ component_id }: ComponentReference): Promise<ComponentTable> {
    return this.store.read
      .selectFrom('components')
      .selectAll()
      .where('id', '=', component_id ?? '')
      .executeTakeFirstOrThrow();
  }
}

/** The user of these tests. */
export const me = { ownerId: 'u_1', userId: 'u_1', readableOwners: ['u_1'] };
