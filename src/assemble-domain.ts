import { join } from 'node:path';
import { AccountService } from '#accounts/account-service.ts';
import { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import { ConnectService } from '#accounts/connect/connect-service.ts';
import { NpmCacheKeeper } from '#components/npm-cache.ts';
import { DeliveryService } from '#delivery/delivery-service.ts';
import {
  addAutoSubscriptions,
  listenToSource,
  removeSubscriptionsOf,
  stopListening,
} from '#delivery/subscriptions/manage-subscriptions.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { ApiRequests } from '#idempotency/api-requests.ts';
import { KeptAnswers } from '#idempotency/kept-answers.ts';
import { IdempotencyKeyPruner } from '#idempotency/prune-keys.ts';
import { AppEvents } from '#ingress/push-app-event.ts';
import { EndpointDirectory, endpointUrl } from '#ingress/resolve-endpoint.ts';
import { Observers } from '#lib/observers.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import { updateRepositoryHandler } from '#registry/manage-repositories.ts';
import { ComponentPruner } from '#registry/prune-components.ts';
import { Scheduler } from '#schedule/scheduler.ts';
import { SourceTicks } from '#schedule/source-ticks.ts';
import { ComponentConfigurer } from '#sources/component-configurer.ts';
import { SourceDeployer } from '#sources/deploy-source.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { SourceRuns } from '#sources/run-source.ts';
import { SourceLanes } from '#sources/source-lanes.ts';
import { SourceReplies } from '#sources/source-replies.ts';
import { storeTime } from '#storage/store-time.ts';
import { DataStoreEntries } from '#user-data/data-stores/data-store-entries.ts';
import { dataStoreHostCalls } from '#user-data/data-stores/data-store-host-calls.ts';
import { EntryPruner } from '#user-data/data-stores/entry-pruner.ts';
import { fileHostCalls } from '#user-data/files/file-host-calls.ts';
import { FileUrls } from '#user-data/files/file-urls.ts';
import { FilePruner } from '#user-data/files/prune-files.ts';
import { StoredFiles } from '#user-data/files/stored-files.ts';
import { VariableAuditPruner } from '#user-data/variables/variable-audit-pruner.ts';
import { Variables } from '#user-data/variables/variables.ts';
import { openValue, sealValue } from '#vault/sealed-values.ts';
import { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { Deployments, type WorkflowContext } from '#workflows/definitions/load-deployment.ts';
import { TemplateMaker } from '#workflows/definitions/make-template.ts';
import { WorkflowDirectory } from '#workflows/definitions/workflow-directory.ts';
import { listDeployments } from '#workflows/definitions/workflow-store.ts';
import { ActionRunner } from '#workflows/runs/run-action.ts';
import { answerSourceHostCalls } from '#workflows/runs/run-host-calls.ts';
import { RunService } from '#workflows/runs/run-service.ts';
import { WorkflowTicks } from '#workflows/runs/timer-triggers.ts';
import { StepTrier } from '#workflows/runs/try-step.ts';
import { createMailServer } from '#workflows/sends/send-email.ts';
import { RunSends } from '#workflows/sends/send-from-run.ts';
import type { Platform } from './assemble-platform.ts';
import { backgroundJobs } from './background-jobs.ts';

export type Domain = Awaited<ReturnType<typeof assembleDomain>>;

/** The nouns of the product. Nothing of it runs yet. */
export async function assembleDomain(platform: Platform, parts: RunningParts) {
  const { settings, has, clock, logger, version, publicUrl, egress, store, vault, node } = platform;
  const {
    runner,
    unattributedErrors,
    dispatcher,
    resolver,
    bus,
    quotas,
    jobs,
    pool,
    outcomes,
    databaseClock,
  } = platform;
  const mayRun = (ownerId: string): boolean => quotas.mayRun(ownerId);
  const deadlineMs = settings.runDeadlineSeconds * 1000;

  const dataStores = new DataStoreEntries({
    ...{ store, clock },
    bytesPerOwnerMax: settings.dataStoresMaxMb * 1024 * 1024,
  });
  const files = new StoredFiles({ store, clock, bytesPerOwnerMax: settings.filesMaxGb * 1024 ** 3 });
  const fileUrls = new FileUrls({ key: vault.keyFor('file urls'), publicUrl, clock });
  const variables = new Variables({ vault, clock });
  const variableChanges = new Observers<[ownerId: string]>();
  const hostCalls = {
    data_store: dataStoreHostCalls({ store, clock, entries: dataStores }),
    file: fileHostCalls({ store: files, clock, urls: fileUrls }),
  };
  const keptAnswers = new KeptAnswers({ ...{ store, vault, clock, logger }, waitMs: deadlineMs });
  const apiRequests = new ApiRequests({ store, answers: keptAnswers, node, clock, logger });

  const receivers = createGuardedDispatcher({
    policy: egress.policy,
    ...egress.trust,
    connectionsPerOrigin: null,
  });
  parts.add('deliveries under way', () => receivers.destroy());
  const workflows = new WorkflowDirectory({ store, clock });
  const delivery = new DeliveryService({
    ...{ store, node, clock, logger, vault, bus, version, pool, workflows, outcomes },
    guarded: receivers,
    sends: has('worker'),
    watchMs: (settings.nodeLeaseSeconds * 1000) / 3,
  });
  const router = delivery.finder;

  const apps = await AppCatalogue.load({
    store,
    folders: [
      join(import.meta.dirname, '..', 'apps'),
      ...(settings.appsFolder === '' ? [] : [settings.appsFolder]),
    ],
    logger,
  });
  const accountChanges = new Observers<[accountId: string]>();
  const accounts = new AccountService({
    ...{ store, vault, clock, logger, node, dispatcher, policy: egress.policy, bus, apps, publicUrl, router },
    checkHours: settings.accountCheckHours,
    auditDays: settings.auditDays,
    onChange: accountChanges.tell,
  });
  const connecting = new ConnectService({
    ...{ store, vault, clock, logger, dispatcher, apps, publicUrl },
    onChange: accountChanges.tell,
  });

  const context: DeploymentContext = {
    endpointUrl: (key) =>
      key === null
        ? undefined
        : endpointUrl({ publicUrl: publicUrl(), endpointDomain: settings.endpointDomain }, key),
    credentials: (accountId, owners, usedBy) => accounts.credentials.use(accountId, owners, usedBy),
    sealer: {
      seal: (ownerId, id, value) =>
        store.transaction((tx) => sealValue(tx, { vault, clock }, { ownerId, id, value })),
      open: (ownerId, id, sealed) => openValue(store.read, vault, { ownerId, id, sealed }),
    },
  };
  const lanes = new SourceLanes({ store, clock, context });
  parts.add('sources', () => lanes.close());
  const workflowContext: WorkflowContext = {
    ...context,
    variables: (ownerId, projectId) => variables.open(store.read, ownerId, projectId),
  };
  const deployments = new Deployments({ store, clock, context: workflowContext });
  parts.add('deployments', () => deployments.close());
  accountChanges.observe((accountId) => lanes.forgetAccount(accountId));
  accountChanges.observe((accountId) => deployments.forgetAccount(accountId));
  variableChanges.observe((ownerId) => deployments.forgetOwner(ownerId));
  store.onNotify((channel, ownerId) => {
    if (channel === 'millrace_variables') deployments.forgetOwner(ownerId);
  });

  const sourceReplies = new SourceReplies({ store, node, clock, logger });
  const sourceRuns = new SourceRuns({
    ...{ store, runner, bus, router, clock, logger, node, lanes, outcomes },
    replies: sourceReplies,
    keptReplies: keptAnswers,
    hostCalls: answerSourceHostCalls(hostCalls),
    limits: {
      deadlineMs,
      memoryMb: settings.runMemoryMb,
      componentDbBytesMax: settings.componentDbMaxKb * 1024,
    },
  });
  const workflowRuns = new RunService({
    ...{ store, bus, router, clock, logger, node, runner, deployments, pool, outcomes },
    ...{ hostCalls, mayRun, keptAnswers },
    inboundUrl: () => `${publicUrl()}/in`,
    platformVersion: version,
    settingsOf: async (workflowId) => (await workflows.find(workflowId))?.settings,
    runsKept: settings.runsKept,
  });
  delivery.deliverToWorkflows(workflowRuns.starter);
  unattributedErrors.observe((deploymentId, error) => {
    const runs = deploymentId.startsWith('d_') ? workflowRuns : sourceRuns;
    runs.unattributedError(deploymentId, error).catch((cause: unknown) => {
      logger.warn({ deployment: deploymentId, err: cause }, 'runner.unattributed-error-not-stored');
    });
  });
  // What sleeps in a process would do so until its deadline, on this node or on another one.
  bus.observeRemovals((emitterId) => {
    if (emitterId.startsWith('p_')) workflowRuns.runs.abandonWorkflow(emitterId);
    else void runner.forget(emitterId);
  });

  const mail =
    settings.smtpUrl === ''
      ? undefined
      : createMailServer({ url: settings.smtpUrl, from: settings.emailFrom, ...egress.trust });
  parts.add('outgoing mail', () => mail?.close());
  const toObjects = createGuardedDispatcher({ policy: egress.objectStoragePolicy, ...egress.trust });
  parts.add('object storage', () => toObjects.destroy());
  const runSends = new RunSends({
    ...{ store, node, clock, bus, router, mail },
    http: { dispatcher: receivers, version },
    objects:
      settings.s3AccessKey === ''
        ? undefined
        : {
            endpoint: settings.s3Endpoint,
            region: settings.s3Region,
            accessKey: settings.s3AccessKey,
            secretKey: settings.s3SecretKey,
            dispatcher: toObjects,
          },
  });

  const isClockUnreliable = () => databaseClock?.status().state === 'unreliable';
  const scheduler = new Scheduler({
    store,
    targets: {
      dc: new SourceTicks({ store, onJobs: () => pool.poke() }),
      p: new WorkflowTicks({ store, runs: workflowRuns.starter }),
    },
    mayRun,
    time: storeTime(store, clock),
    isPaused: isClockUnreliable,
    logger,
  });
  const endpoints = new EndpointDirectory({ store, clock, sealer: context.sealer });
  bus.observeRemovals((emitterId) => {
    endpoints.forgetSubject(emitterId);
    workflows.forget(emitterId);
  });
  const sourceDeployer = new SourceDeployer({
    ...{ store, resolver, runner, runs: sourceRuns, lanes, bus, clock, logger, node, context },
    links: {
      added: (tx, source) => addAutoSubscriptions(tx, source, clock.now()),
      removed: (tx, source) => removeSubscriptionsOf(store, tx, source, clock.now()),
    },
    onTimers: () => scheduler.poke(),
    onEndpointChange: (key) => endpoints.forget(key),
  });
  const componentConfigurer = new ComponentConfigurer({
    ...{ db: store.read, resolver, runner, context, deadlineMs },
    nowMs: () => clock.now(),
  });
  const workflowDeployer = new WorkflowDeployer({
    ...{ store, resolver, runner, context, clock, logger, deadlineMs, sources: sourceDeployer },
    links: {
      added: (tx, workflow) => addAutoSubscriptions(tx, workflow, clock.now()),
      removed: (tx, workflow) => removeSubscriptionsOf(store, tx, workflow, clock.now()),
      listen: (tx, link) => listenToSource(store, tx, link, clock.now()),
      unlisten: (tx, { workflow, sourceId }) =>
        stopListening(store, tx, { workflowId: workflow.id, sourceId }, clock.now()),
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
  const actionRunner = new ActionRunner({
    ...{ store, clock, logger, resolver, runner },
    context: workflowContext,
    steps: workflowRuns.steps,
    sends: runSends,
    admit: (ownerId) => quotas.check(ownerId),
    platformVersion: version,
  });
  const stepTrier = new StepTrier({
    ...{ store, clock, context, deployments, runner },
    deployer: workflowDeployer,
    steps: workflowRuns.steps,
    platformVersion: version,
  });
  const appEvents = new AppEvents({
    ...{ store, node, clock, logger, quotas, pool },
    payloadBytesMax: settings.bodyMaxKb * 1024,
  });
  jobs.register(
    backgroundJobs({
      store,
      node,
      bus,
      clock,
      runs: sourceRuns,
      delivery,
      runSends,
      workflowRuns,
      appEvents,
      repositories: updateRepositoryHandler({
        ...{ store, node, clock, logger, repository: platform.repositoryOptions },
        fetcher: platform.packageFetcher,
      }),
    }),
  );

  return {
    ...{
      dataStores,
      variables,
      variableChanges,
      files,
      fileUrls,
      apps,
      accounts,
      accountChanges,
      connecting,
      keptAnswers,
      context,
    },
    apiRequests,
    ...{ delivery, sourceReplies, sourceRuns, sourceDeployer, workflowRuns, workflowDeployer, appEvents },
    ...{ endpoints, scheduler, isClockUnreliable, componentConfigurer, actionRunner, stepTrier },
    templateMaker: new TemplateMaker({ store, resolver, clock }),
    /** What is kept bounded, each by its name. */
    pruners: {
      event: platform.eventPruner,
      run: workflowRuns.pruner,
      'data store': new EntryPruner({ store, clock, logger }),
      file: new FilePruner({ store, clock, logger }),
      'variable audit': new VariableAuditPruner({ store, clock, logger, daysKept: settings.auditDays }),
      'idempotency key': new IdempotencyKeyPruner({ store, clock, logger }),
      'npm cache': new NpmCacheKeeper({ folder: join(settings.data, 'components', 'npm'), logger }),
      component: new ComponentPruner({
        ...{ store, clock, logger },
        listDeployments: (limit) => listDeployments(store, limit),
      }),
      delivery: delivery.pruner,
    },
  };
}
