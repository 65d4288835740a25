import {
  addAutoSubscriptions,
  listenToFailures,
  listenToSource,
  removeSubscriptionsOf,
  stopListening,
  stopListeningToFailures,
} from '#delivery/subscriptions/manage-subscriptions.ts';
import { EndpointDirectory } from '#ingress/resolve-endpoint.ts';
import { countWorkingNodes } from '#jobs/node-store.ts';
import { DueSoon } from '#schedule/due-soon.ts';
import { Scheduler } from '#schedule/scheduler.ts';
import { SourceTicks } from '#schedule/source-ticks.ts';
import { SourceDeployer } from '#sources/deploy-source.ts';
import { holdTicks } from '#sources/hold-run.ts';
import { storeTime } from '#storage/store-time.ts';
import { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { WorkflowTicks } from '#workflows/runs/workflow-ticks.ts';
import type { Deliveries } from './assemble-delivery.ts';
import type { Platform } from './assemble-platform.ts';
import type { Runs } from './assemble-runs.ts';

export type Deployers = ReturnType<typeof assembleDeployers>;

/** What starts code: timers and endpoints, and the deployment of sources and workflows that have them. */
export function assembleDeployers(platform: Platform, domain: Deliveries & Runs) {
  const { store, clock, bus } = platform;
  const { context, workflows } = domain;
  const isClockUnreliable = () => platform.databaseClock?.status().state === 'unreliable';
  const scheduler = assembleScheduler(platform, domain, isClockUnreliable);
  const endpoints = new EndpointDirectory({ store, clock, sealer: context.sealer });
  bus.observeRemovals((emitterId) => {
    endpoints.forgetSubject(emitterId);
    workflows.forget(emitterId);
  });
  const timersAndEndpoints = { scheduler, endpoints };
  const sourceDeployer = assembleSourceDeployer(platform, { ...domain, ...timersAndEndpoints });
  const workflowDeployer = assembleWorkflowDeployer(platform, {
    ...{ ...domain, ...timersAndEndpoints, sourceDeployer },
  });
  const dueSoon = assembleDueSoon(platform);
  return { ...timersAndEndpoints, dueSoon, isClockUnreliable, sourceDeployer, workflowDeployer };
}

function assembleScheduler(
  { store, clock, logger, pool, quotas }: Platform,
  { queueChanges, workflowRuns }: Deliveries & Runs,
  isPaused: () => boolean,
): Scheduler {
  return new Scheduler({
    store,
    targets: {
      dc: new SourceTicks({
        store,
        pool,
        hold: holdTicks,
        onHeld: queueChanges.tell,
      }),
      p: new WorkflowTicks({ store, runs: workflowRuns.starter }),
    },
    mayRun: (ownerId) => quotas.mayRun(ownerId),
    time: storeTime(store, clock),
    isPaused,
    logger,
  });
}

function assembleDueSoon({ store, runner, clock, logger }: Platform): DueSoon {
  const time = storeTime(store, clock);
  return new DueSoon({
    ...{ store, time, logger },
    partOfRuns: async () => (store.isShared ? 1 / Math.max(1, await countWorkingNodes(store.read, time)) : 1),
    tell: (ownerIds, part) => runner.expectOwners(ownerIds, part),
  });
}

interface TimersAndEndpoints {
  scheduler: Scheduler;
  endpoints: EndpointDirectory;
}

function assembleSourceDeployer(
  { store, resolver, runner, bus, clock, logger, node, quotas }: Platform,
  { sourceRuns, lanes, context, workflowRuns, scheduler, endpoints }: Runs & TimersAndEndpoints,
): SourceDeployer {
  return new SourceDeployer({
    ...{ store, resolver, runner, runs: sourceRuns, lanes, bus, clock, logger, node, context, quotas },
    links: {
      added: (tx, source) => addAutoSubscriptions(tx, source, clock.now()),
      removed: (tx, source) => removeSubscriptionsOf(store, tx, source, clock.now()),
    },
    onTimers: () => scheduler.poke(),
    onEndpointChange: (key) => endpoints.forget(key),
    onFlowControl: (sourceId) => workflowRuns.flow.settingsChanged(sourceId),
  });
}

function assembleWorkflowDeployer(
  { settings, store, resolver, runner, clock, logger, quotas, bus, pool }: Platform,
  domain: Deliveries & Runs & TimersAndEndpoints & { sourceDeployer: SourceDeployer },
): WorkflowDeployer {
  const { context, sourceDeployer, workflows, deployments, workflowRuns, endpoints, scheduler } = domain;
  return new WorkflowDeployer({
    ...{ store, resolver, runner, context, clock, logger, sources: sourceDeployer, quotas },
    deadlineMs: settings.runDeadlineSeconds * 1000,
    links: {
      added: (tx, workflow) => addAutoSubscriptions(tx, workflow, clock.now()),
      removed: (tx, workflow) => removeSubscriptionsOf(store, tx, workflow, clock.now()),
      listen: (tx, link) => listenToSource(store, tx, link, clock.now()),
      unlisten: (tx, { workflow, sourceId }) =>
        stopListening(store, tx, { workflowId: workflow.id, sourceId }, clock.now()),
      listenToFailures: (tx, workflow) => listenToFailures(tx, workflow, clock.now()),
      unlistenToFailures: (tx, workflow) => stopListeningToFailures(store, tx, workflow, clock.now()),
    },
    onChange: ({ workflowId, endpointKeys, removed }) => {
      workflows.forget(workflowId);
      deployments.forgetWorkflow(workflowId);
      workflowRuns.flow.settingsChanged(workflowId);
      for (const key of endpointKeys) endpoints.forget(key);
      scheduler.poke();
      if (removed) bus.emitterRemoved(workflowId);
    },
    onJobs: () => pool.poke(),
  });
}
