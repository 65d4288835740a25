import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import type { Clock } from '#lib/clock.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { Logger } from '#lib/logger.ts';
import { WaitingRuns } from '#sources/waiting-runs.ts';
import type { Store } from '#storage/store.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import type { Vault } from '#vault/vault.ts';
import type { WorkflowDirectory } from '#workflows/definitions/workflow-directory.ts';
import { changeDeliveriesHandler } from './change-deliveries.ts';
import { deliverToSource } from './dispatch/deliver-to-source.ts';
import {
  deliverToWorkflow,
  type RunPreparer,
  type WorkflowDeliveryOptions,
} from './dispatch/deliver-to-workflow.ts';
import { Deliverers } from './dispatch/deliverers.ts';
import { type Deliver, DeliveryDispatcher } from './dispatch/delivery-dispatcher.ts';
import type { LaneBounds } from './dispatch/delivery-lanes.ts';
import type { WebhookPacing } from './dispatch/paced-webhooks.ts';
import { QueuedRuns } from './dispatch/queued-runs.ts';
import { queueFullReports } from './dispatch/report-queue-full.ts';
import { type DeliveryQuota, withinQuota } from './dispatch/wait-for-quota.ts';
import { WaitingDeliveries } from './dispatch/waiting-deliveries.ts';
import { DeliveryPruner } from './prune-deliveries.ts';
import { ReplayQueue } from './replay/queue-replay.ts';
import { fanOutHandler } from './subscriptions/fan-out-event.ts';
import {
  type FanOutBounds,
  fanOutBounds,
  type RoutedDeliveries,
  SubscriberFinder,
} from './subscriptions/find-subscribers.ts';
import { answerTimeoutMs, deliverToWebhook } from './webhooks/deliver-to-webhook.ts';
import { WebhookTargets } from './webhooks/webhook-targets.ts';

/** The parts that bring events to their subscribers, put together. */
export class DeliveryService {
  readonly dispatcher: DeliveryDispatcher;
  /** Finds the subscribers of events in the transaction that stores them. */
  readonly finder: SubscriberFinder;
  readonly targets: WebhookTargets;
  /** Keeps the records of what was sent bounded. */
  readonly pruner: DeliveryPruner;
  /** Sends what is stored again. */
  readonly replays: ReplayQueue;
  /** The functions that do the background jobs of this folder. */
  readonly jobs: Record<'fan_out_event' | 'change_deliveries' | 'queue_replay', JobHandler>;
  readonly #deliverers = new Deliverers();
  readonly #toWorkflows: Omit<WorkflowDeliveryOptions, 'runs'>;
  readonly #onJobs: () => void;

  constructor(options: {
    store: Store;
    node: string;
    outcomes: OutcomeRecorder;
    clock: Clock;
    logger: Logger;
    vault: Vault;
    /** For webhooks. Without a bound on connections: the lanes have theirs. */
    guarded: GuardedDispatcher;
    bus: EventBus;
    version: string;
    /** False for a node without the worker role. */
    sends: boolean;
    /** Runs what is delivered to sources. */
    pool: WorkerPool;
    workflows: WorkflowDirectory;
    /** A run of a source was stored that flow control has to look at. */
    onHeld: (sourceId: string) => void;
    /** Absent: deliveries are not limited. */
    quotas?: DeliveryQuota;
    tracer?: Tracer;
    /** As in `DeliveryDispatcher`. */
    watchMs?: number;
    random?: () => number;
    /** For tests of receivers that do not answer. */
    answerTimeoutMs?: number;
    /** For tests of events with many subscribers. */
    fanOut?: FanOutBounds;
    /** Absent: nothing is held back for the sake of others. */
    owners?: ActiveOwners;
    /** Called for each wait of a webhook for others. */
    onWebhookDelayed?: WebhookPacing['onDelayed'];
    /** For tests of receivers that fill what this node has room for. */
    lanes?: LaneBounds;
  }) {
    const { store, node, clock, logger, vault, guarded, bus, version, pool, random, quotas, owners } =
      options;
    this.#onJobs = () => pool.poke();
    this.targets = new WebhookTargets({ store, vault });
    this.pruner = new DeliveryPruner({ store, clock, logger });
    const waitingRuns = new WaitingRuns({ store, clock });
    const webhookOptions = {
      store,
      dispatcher: guarded,
      targets: this.targets,
      clock,
      logger,
      version,
      answerTimeoutMs: options.answerTimeoutMs ?? answerTimeoutMs,
    };
    const toWebhook: Deliver = (delivery, signal) => deliverToWebhook(webhookOptions, delivery, signal);
    const toSource: Deliver = (delivery) =>
      deliverToSource({ store, pool, waiting: waitingRuns, clock, onHeld: options.onHeld }, delivery);
    this.#deliverers.register('webhook', toWebhook);
    this.#deliverers.register('source', toSource);
    this.dispatcher = new DeliveryDispatcher({
      node,
      store,
      outcomes: options.outcomes,
      clock,
      logger,
      sends: options.sends,
      turns: pool.lanes,
      deliverTo: (listenerId) => {
        const deliver = this.#deliverers.to(listenerId);
        return quotas === undefined ? deliver : withinQuota({ quotas, clock }, deliver);
      },
      tracer: options.tracer ?? noTracer,
      webhookPacing: owners && { owners, onDelayed: options.onWebhookDelayed ?? (() => {}) },
      ...(random === undefined ? {} : { random }),
      ...(options.watchMs === undefined ? {} : { watchMs: options.watchMs }),
      ...(options.lanes === undefined ? {} : { lanes: options.lanes }),
      onEnded: (listenerId, wasDelivered) =>
        this.pruner.ended(listenerId, wasDelivered ? 'delivered' : 'dead'),
    });
    const room = this.dispatcher;
    const waiting = new WaitingDeliveries({ store });
    // One at a time: what many commits wait behind has to be short, and a hundred of them would wait for a hundred.
    // While others have something to do, two thirds of the time are theirs.
    const turns = new FairQueue(1, { rest: () => (owners?.areSeveral === true ? 2 : 0) });
    const bounds = options.fanOut ?? fanOutBounds;
    const onRouted = (routed: RoutedDeliveries) => this.#handOver(routed);
    this.finder = new SubscriberFinder({ store, room, waiting, bounds, owners, onRouted });
    this.#toWorkflows = {
      ...{ workflows: options.workflows, clock, queued: new QueuedRuns({ store, clock }) },
      onQueueFull: queueFullReports({ store, router: this.finder, bus, clock, version }),
    };
    this.replays = new ReplayQueue({ store, node, clock, waiting, turns, onRouted });
    this.jobs = {
      fan_out_event: fanOutHandler({
        store,
        node,
        clock,
        turns,
        room,
        waiting,
        bounds,
        onRouted,
      }),
      change_deliveries: changeDeliveriesHandler({
        store,
        node,
        clock,
        turns,
        onChanged: (listenerId, ids) => room.letGo(listenerId, ids),
        onQueued: (listenerId) => room.leftInStore(listenerId),
        onEnded: (listenerId, count) => this.pruner.ended(listenerId, 'dead', count),
      }),
      queue_replay: this.replays.job,
    };
  }

  /** What is delivered to workflows becomes runs. To be called before the dispatcher starts. */
  deliverToWorkflows(runs: RunPreparer): void {
    const parts = { ...this.#toWorkflows, runs };
    this.#deliverers.register('workflow', (delivery) => deliverToWorkflow(parts, delivery));
  }

  #handOver({ held, left, ended, hasJob }: RoutedDeliveries): void {
    if (held.length > 0) this.dispatcher.take(held);
    for (const listenerId of new Set(left)) this.dispatcher.leftInStore(listenerId);
    for (const listenerId of ended) this.pruner.ended(listenerId, 'dead');
    if (hasJob) this.#onJobs();
  }
}
