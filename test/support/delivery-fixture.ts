import { randomBytes } from 'node:crypto';
import type { AttemptRecord } from '#delivery/delivery.ts';
import { DeliveryService } from '#delivery/delivery-service.ts';
import type { RunPreparer } from '#delivery/dispatch/deliver-to-workflow.ts';
import type { LaneBounds } from '#delivery/dispatch/delivery-lanes.ts';

import type { FanOutBounds } from '#delivery/subscriptions/find-subscribers.ts';
import { insertSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { newSigningSecret } from '#delivery/webhooks/sign-request.ts';
import { insertWebhook } from '#delivery/webhooks/webhook-store.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher, type GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { LookupAll } from '#egress/resolve-address.ts';
import { emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { insertEmitter } from '#events/event-store.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { JobRegistry } from '#jobs/job-registry.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import { newId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryReason, DeliveryState, WebhookState } from '#storage/tables/delivery-tables.ts';
import { sealValue } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { WorkflowDirectory } from '#workflows/definitions/workflow-directory.ts';
import { TestClock } from './test-clock.ts';

export interface DeliveryFixtureOptions {
  clock?: TestClock;
  lookup?: LookupAll;
  /** PEM text of an authority whose certificates are trusted. */
  extraCa?: string;
  /** Default: a receiver that hangs is waited for until the test ends. */
  answerTimeoutMs?: number;
  /** How many deliveries a transaction makes; default: as the service does it. */
  fanOut?: FanOutBounds;
  owners?: ActiveOwners;
  /** What is in memory and under way at most; default: as in the service. */
  lanes?: LaneBounds;
  node?: string;
  /** What MILLRACE_EGRESS opens; default this machine. */
  allow?: readonly string[];
  vault?: Vault;
  /** Makes the runs of workflows; default: nothing is delivered to any. */
  runs?: RunPreparer;
  /** False: no jobs are claimed. By default they are, and those of sources and workflows do nothing. */
  claims?: boolean;
}

/** A delivery as tests look at it. */
export interface SeenDelivery {
  id: string;
  state: DeliveryState;
  reason: DeliveryReason | null;
  attempts: number;
  status: number | null;
  runAtMs: number;
  log: AttemptRecord[];
}

/** Everything between an emitted event and its listeners, on a real store, without user code. */
export class DeliveryFixture implements AsyncDisposable {
  readonly store: Store;
  readonly clock: TestClock;
  readonly vault: Vault;
  readonly bus = new EventBus(silentLogger);
  readonly workflows: WorkflowDirectory;
  readonly service: DeliveryService;
  readonly pool: WorkerPool;
  readonly node: string;
  readonly #guarded: GuardedDispatcher;

  constructor(store: Store, options: DeliveryFixtureOptions = {}) {
    this.store = store;
    this.clock = options.clock ?? new TestClock();
    this.vault = options.vault ?? new Vault(randomBytes(32));
    this.node = options.node ?? newId('node');
    const { lookup, extraCa, answerTimeoutMs = 600_000, fanOut, lanes, owners } = options;
    const policy = new AddressPolicy({ allow: options.allow ?? ['127.0.0.0/8'], deny: () => [] });
    this.#guarded = createGuardedDispatcher({
      policy,
      connectionsPerOrigin: null,
      ...(lookup === undefined ? {} : { lookup }),
      ...(extraCa === undefined ? {} : { extraCa }),
    });
    const { clock, node, vault, bus } = this;
    const workflows = new WorkflowDirectory({ store, clock });
    this.workflows = workflows;
    const noRuns: RunPreparer = {
      prepare: () => {
        throw new Error('nothing is delivered to workflows here');
      },
    };
    const jobs = new JobRegistry();
    this.pool = new WorkerPool({
      node,
      store,
      jobs,
      clock,
      logger: silentLogger,
      claims: options.claims ?? true,
    });
    this.service = new DeliveryService({
      onHeld: () => {},
      store,
      outcomes: new OutcomeRecorder(store, () => this.pool.lanes.hasOthers),
      node,
      clock,
      logger: silentLogger,
      vault,
      guarded: this.#guarded,
      bus,
      version: '0.0.0',
      sends: true,
      pool: this.pool,
      workflows,
      // No jitter.
      random: () => 0,
      answerTimeoutMs,
      ...(fanOut === undefined ? {} : { fanOut }),
      ...(owners === undefined ? {} : { owners }),
      ...(lanes === undefined ? {} : { lanes }),
    });
    this.service.deliverToWorkflows(options.runs ?? noRuns);
    const nothing: JobHandler = { run: async () => {}, quarantined: async () => {} };
    jobs.register({
      run_source: nothing,
      fan_out_apphook: nothing,
      delete_events: nothing,
      deliver_scheduled_event: nothing,
      run_workflow: nothing,
      delete_workflow: nothing,
      send_from_run: nothing,
      ...this.service.jobs,
    });
  }

  static async start(store: Store, options: DeliveryFixtureOptions = {}): Promise<DeliveryFixture> {
    const fixture = new DeliveryFixture(store, options);
    await fixture.start();
    return fixture;
  }

  async start(): Promise<void> {
    await this.pool.start();
    await this.service.dispatcher.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.pool.stop(0), this.service.dispatcher.stop(0)]);
    await this.#guarded.destroy();
  }

  async emitter(id = 'dc_1', ownerId = 'o_1'): Promise<string> {
    await this.store.transaction((tx) => insertEmitter(tx, { id, ownerId }));
    return id;
  }

  /** A webhook, and its secret. */
  async webhook(url: string, options: { ownerId?: string; id?: string; state?: WebhookState } = {}) {
    const { ownerId = 'o_1', id = newId('wh'), state = 'active' } = options;
    const secret = newSigningSecret();
    const nowMs = this.clock.now();
    await this.store.transaction(async (tx) => {
      const sealed = await sealValue(tx, this, { ownerId, id, value: secret });
      await insertWebhook(tx, {
        id,
        owner_id: ownerId,
        user_id: 'u_1',
        name: null,
        description: null,
        url,
        secret: sealed,
        old_secret: null,
        old_secret_until_ms: null,
        state,
        disabled_reason: null,
        disabled_at_ms: null,
        failing_since_ms: null,
        removed_records: 0,
        created_at_ms: nowMs,
        updated_at_ms: nowMs,
      });
    });
    return { id, secret };
  }

  async subscribe(
    listenerId: string,
    options: { emitterId?: string; eventName?: string; ownerId?: string } = {},
  ): Promise<string> {
    const { emitterId = 'dc_1', eventName = '', ownerId = 'o_1' } = options;
    const row = await this.store.transaction((tx) =>
      insertSubscription(tx, {
        id: newId('sub'),
        emitter_owner_id: ownerId,
        emitter_id: emitterId,
        event_name: eventName,
        listener_id: listenerId,
        listener_owner_id: ownerId,
        user_id: 'u_1',
        created_at_ms: this.clock.now(),
      }),
    );
    return row.id;
  }

  /** Emits in one transaction, and publishes on the bus as real emitters do. */
  async emit(
    events: readonly string[],
    options: { emitterId?: string; channel?: string; hops?: number } = {},
  ): Promise<StoredEvent[]> {
    const { emitterId = 'dc_1', channel = '', hops = 0 } = options;
    const emission = { emitterId, hops, events: events.map((event) => ({ channel, event })) };
    const stored = await this.store.transaction(async (tx) => {
      const batch = { emissions: [emission], router: this.service.finder, nowMs: this.clock.now() };
      const [result] = await emitEvents(this.store, tx, batch);
      return result?.accepted === true ? result.stored : [];
    });
    this.bus.publish(stored);
    return stored;
  }

  /** Lets time pass, and everything happen that is due then. */
  async pass(ms: number): Promise<void> {
    this.clock.step(ms);
    this.service.dispatcher.poke();
    await this.idle();
  }

  /** Until nothing is due or under way. */
  async idle(): Promise<void> {
    // Twice in a row: a job that is over in the store may still have to hand over what it made.
    for (let quiet = 0; quiet < 2; ) {
      await this.service.dispatcher.untilIdle();
      const jobs = await this.store.read
        .selectFrom('jobs')
        .select('id')
        .where('run_at_ms', '<=', this.clock.now())
        .limit(1)
        .execute();
      quiet = jobs.length === 0 && this.pool.runningCount() === 0 ? quiet + 1 : 0;
      if (quiet > 0) continue;
      this.pool.poke();
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  /** Oldest first. */
  async deliveries(listenerId?: string): Promise<SeenDelivery[]> {
    let query = this.store.read
      .selectFrom('deliveries')
      .select(['id', 'state', 'reason', 'attempts', 'status', 'run_at_ms', 'attempt_log'])
      .orderBy('created_at_ms')
      .orderBy('id');
    if (listenerId !== undefined) query = query.where('listener_id', '=', listenerId);
    return (await query.execute()).map((row) => ({
      id: row.id,
      state: row.state,
      reason: row.reason,
      attempts: row.attempts,
      status: row.status,
      runAtMs: row.run_at_ms,
      log: JSON.parse(row.attempt_log) as AttemptRecord[],
    }));
  }

  async payloads(): Promise<number> {
    return (await this.store.read.selectFrom('delivery_payloads').select('emit_id').execute()).length;
  }
}
