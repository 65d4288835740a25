import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { AccountService } from '#accounts/account-service.ts';
import { AppCatalogue } from '#apps/app-catalogue.ts';
import { acceptsToken } from '#auth/api-tokens.ts';
import { createComponentBuilder, defaultBuildLimits } from '#components/build-component.ts';
import { NpmCacheKeeper } from '#components/npm-cache.ts';
import { npmConfigWith, readNpmConfig } from '#components/npm-config.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { PackageFolders } from '#components/package-folders.ts';
import type { Settings } from '#config/settings.ts';
import { ConnectService } from '#connect/connect-service.ts';
import { dataStoreAsks } from '#data-stores/data-store-asks.ts';
import { DataStoreEntries } from '#data-stores/data-store-entries.ts';
import { EntryPruner } from '#data-stores/entry-pruner.ts';
import { DeliveryService } from '#delivery/delivery-service.ts';
import {
  addAutoSubscriptions,
  listenToSource,
  removeSubscriptionsOf,
  stopListening,
} from '#delivery/manage-subscriptions.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { guardedFetch } from '#egress/guarded-fetch.ts';
import { EventBus } from '#events/event-bus.ts';
import { EventRates } from '#events/event-rates.ts';
import { EventPruner } from '#events/prune-events.ts';
import { fileAsks } from '#files/file-asks.ts';
import { FileUrls } from '#files/file-urls.ts';
import { FilePruner } from '#files/prune-files.ts';
import { StoredFiles } from '#files/stored-files.ts';
import { beginClose } from '#http/close-server.ts';
import { LiveStreams } from '#http/live-updates.ts';
import { createServer } from '#http/server.ts';
import { ServiceDoor } from '#http/service-door.ts';
import { StreamSlots } from '#http/stream-slots.ts';
import { ApiRequests } from '#idempotency/api-requests.ts';
import { KeptAnswers } from '#idempotency/kept-answers.ts';
import { IdempotencyKeyPruner } from '#idempotency/prune-keys.ts';
import { RequestAcceptor } from '#ingress/accept-request.ts';
import { httpEndpoints } from '#ingress/http-endpoints.ts';
import { startMailServer } from '#ingress/mail-service.ts';
import { AppEvents } from '#ingress/push-app-event.ts';
import { EndpointDirectory, endpointKeyOfHost, endpointUrl } from '#ingress/resolve-endpoint.ts';
import { UploadedBodies } from '#ingress/uploaded-bodies.ts';
import { nextNodeId } from '#jobs/node-id.ts';
import { databaseTimeMs } from '#jobs/node-store.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { RunningParts } from '#lib/running-parts.ts';
import { Manual } from '#manual/manual.ts';
import { QuotaGuard } from '#metering/quota-guard.ts';
import { DashboardPages } from '#pages/dashboard-pages.ts';
import { ComponentCatalogue } from '#registry/component-catalogue.ts';
import { LocalRegistry } from '#registry/local-registry.ts';
import { ComponentPruner } from '#registry/prune-components.ts';
import { ComponentResolver } from '#registry/resolve-component.ts';
import type { UserCodeError } from '#runner/call-outcome.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import { ActionRunner } from '#runs/run-action.ts';
import { answerSourceAsks } from '#runs/run-asks.ts';
import { RunService } from '#runs/run-service.ts';
import { WorkflowTicks } from '#runs/timer-triggers.ts';
import { StepTrier } from '#runs/try-step.ts';
import { Scheduler } from '#schedule/scheduler.ts';
import { SourceTicks } from '#schedule/source-ticks.ts';
import { createMailServer } from '#sends/send-email.ts';
import { RunSends } from '#sends/send-from-run.ts';
import { ComponentConfigurer } from '#sources/component-configurer.ts';
import { SourceDeployer } from '#sources/deploy-source.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { SourceRuns } from '#sources/run-source.ts';
import { SourceLanes } from '#sources/source-lanes.ts';
import { SourceReplies } from '#sources/source-replies.ts';
import { DatabaseClock } from '#storage/database-clock.ts';
import { databaseHosts } from '#storage/database-host.ts';
import { lockFolder } from '#storage/lock-folder.ts';
import { openStore } from '#storage/open-store.ts';
import { makePrivate } from '#storage/private-folder.ts';
import { storeTime } from '#storage/store-time.ts';
import { checkMasterKey, takeMasterKey } from '#vault/check-master-key.ts';
import { loadMasterKey } from '#vault/master-key.ts';
import { hasSealedValues, openValue, sealValue } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { WorkflowDeployer } from '#workflows/deploy-workflow.ts';
import { Deployments } from '#workflows/load-deployment.ts';
import { TemplateMaker } from '#workflows/make-template.ts';
import { emailAddress, emailDomain } from '#workflows/trigger-address.ts';
import { WorkflowDirectory } from '#workflows/workflow-directory.ts';
import { listDeployments } from '#workflows/workflow-store.ts';
import { firstStart } from '#workspaces/first-start.ts';
import packageJson from '../package.json' with { type: 'json' };
import { backgroundJobs } from './background-jobs.ts';
import { observeService } from './observe-service.ts';
import type { StartedService } from './start-words.ts';
import { viewInstance } from './view-instance.ts';

/** A running service. */
export interface RunningApp extends StartedService {
  /** Stops accepting, finishes or gives back what is under way, closes the store. May be called twice. */
  stop(): Promise<void>;
  /** The part whose stop is waited for now. */
  stopWaitsFor(): string | undefined;
}

export interface AppOptions {
  settings: Settings;
  /** For npm's own configuration, which component builds honour. */
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  logger: Logger;
  /** Ends the start between two of its steps: `startApp` rejects with its reason when what had started has stopped. */
  signal?: AbortSignal;
}

/** Runs under way get this long from the beginning of a stop; what is left is given back and runs after the next start. */
const stopGraceMs = 6_000;
/** And requests this long, counted from the same moment: those who wait for a run are answered when it is given back. */
const requestGraceMs = 7_000;
/** From then on only the store is waited for. It leaves that a second and a half of what main.ts gives the whole stop. */
const partsLimitMs = 8_000;
const componentFetchBytesMax = 5 * 1024 * 1024;

/** The only place that constructs parts and hands them to each other. Parts stop in the reverse order of their start. */
export async function startApp(options: AppOptions): Promise<RunningApp> {
  const { settings, logger } = options;
  const databaseClock =
    settings.databaseUrl === '' ? undefined : new DatabaseClock({ machine: options.clock, logger });
  const clock: Clock = databaseClock ?? options.clock;
  const parts = new RunningParts({ logger, limitMs: partsLimitMs });
  try {
    return await construct(options, parts);
  } catch (error) {
    await parts.stop();
    throw error;
  }

  async function construct(
    { environment, clock: machineClock, signal }: AppOptions,
    parts: RunningParts,
  ): Promise<RunningApp> {
    const release = lockFolder(settings.data);
    parts.add('lock of the data folder', release, { isIndispensable: true });
    makePrivate(settings.data, logger);
    const has = (role: string) => settings.roles.includes(role);
    const extraCa = settings.extraCa === '' ? undefined : await readFile(settings.extraCa, 'utf8');

    // Where it listens is known only when it does (port 0), and policy and endpoint URLs ask when they need it.
    let listening = { address: settings.host, port: settings.port };
    const publicUrl = () =>
      settings.publicUrl === ''
        ? `http://${urlHost(listening.address)}:${listening.port}`
        : settings.publicUrl.replace(/\/$/, '');
    const database = await databaseAddresses(settings.databaseUrl);
    const mailDomain = () => emailDomain(settings.emailDomain, publicUrl());
    const policy = new AddressPolicy({
      allow: settings.egress,
      connectTo: settings.connectTo,
      deny: () => [listening, ...database],
    });

    const door = new ServiceDoor({ publicUrl });
    parts.add('service door', () => door.close());

    const npmConfig = await readNpmConfig(environment, homedir(), settings.extraCa);
    const packages = new PackageFolders({
      folder: join(settings.data, 'packages'),
      cache: join(settings.data, 'components', 'npm'),
      npm: npmConfigWith(npmConfig, settings.npmRegistry),
      limits: defaultBuildLimits,
      logger,
      // Compared with the times of files, which are the machine's.
      clock: machineClock,
    });
    parts.add('package folders', () => packages.close());
    const addons = settings.nativeAddons === 'allow';

    let onStray = (_sourceId: string, _error: UserCodeError): void => undefined;
    // The self-test of the sandbox and the opening of the store take about the same time: together they take it once.
    const starting = Promise.allSettled([
      openStore({ databaseUrl: settings.databaseUrl, folder: settings.data, logger }),
      createProcessRunner({
        level: settings.sandbox,
        policy,
        door,
        ...(extraCa === undefined ? {} : { extraCa }),
        packages,
        addons,
        folder: settings.data,
        limits: { memoryMb: settings.runMemoryMb, dbBytesMax: settings.componentDbMaxKb * 1024 },
        logger,
        clock,
        onStray: (sourceId, error) => onStray(sourceId, error),
      }),
    ]);
    const [opened, started] = await starting;
    if (started.status === 'fulfilled') parts.add('sandbox', () => started.value.close());
    if (opened.status === 'fulfilled')
      parts.add('store', () => opened.value.close(), { isIndispensable: true });
    if (opened.status === 'rejected') throw opened.reason;
    if (started.status === 'rejected') throw started.reason;
    signal?.throwIfAborted();
    const store = opened.value;
    const runner = started.value;
    // Before anything is written with a time.
    await databaseClock?.start(() => databaseTimeMs(store.read));
    parts.add('database clock', () => databaseClock?.stop());

    const masterKey = await loadMasterKey({
      setting: settings.encryptionKey,
      dataFolder: settings.data,
      mayCreate: !(await hasSealedValues(store.read)),
    });
    const vault = new Vault(masterKey);
    await takeMasterKey(store, vault, clock);
    const first = await firstStart(store, { folder: settings.data, apiKey: settings.apiKey, clock });

    const dispatcher = createGuardedDispatcher({ policy, ...(extraCa === undefined ? {} : { extraCa }) });
    // Not `close`, which waits for answers: who asked is gone by then.
    parts.add('outgoing connections', () => dispatcher.destroy());
    const builder = createComponentBuilder({
      cacheFolder: join(settings.data, 'components'),
      registry: settings.npmRegistry,
      npmConfig,
      packages,
      addons,
      fetchText: (url, { signal }) =>
        guardedFetch(url, { dispatcher, maxBytes: componentFetchBytesMax, signal }),
      logger,
    });
    parts.add('component builder', () => builder.close());
    const registry = new LocalRegistry(join(import.meta.dirname, '..', 'components'));
    const resolver = new ComponentResolver({ store, builder, runner, registry, clock });
    const packageFetcher = new PackageFetcher({
      cacheFolder: join(settings.data, 'components'),
      registry: settings.npmRegistry,
      npmConfig,
      logger,
    });
    parts.add('package fetcher', () => packageFetcher.close());
    const componentCatalogue = new ComponentCatalogue({ store, local: registry, fetcher: packageFetcher });

    const bus = new EventBus(logger);
    store.onNotify((channel, payload) => {
      if (channel === 'millrace_events') bus.heard(payload);
    });
    const pruner = new EventPruner({ store, logger });
    bus.observe((events) => pruner.observe(events));
    const eventRates = new EventRates(clock);
    bus.observe((events) => eventRates.count(events));

    const quotas = new QuotaGuard({
      store,
      clock,
      logger,
      defaults: {
        credits: settings.quotaCredits,
        computeMs: settings.quotaComputeMs,
        invocations: settings.quotaInvocations,
        enforced: settings.quotaEnforced === 'on',
      },
    });

    const dataStores = new DataStoreEntries({
      store,
      clock,
      bytesPerOwnerMax: settings.dataStoresMaxMb * 1024 * 1024,
    });
    const entryPruner = new EntryPruner({ store, clock, logger });

    const files = new StoredFiles({ store, clock, bytesPerOwnerMax: settings.filesMaxGb * 1024 ** 3 });
    const fileUrls = new FileUrls({ key: vault.keyFor('file urls'), publicUrl, clock });
    const npmCache = new NpmCacheKeeper({ folder: join(settings.data, 'components', 'npm'), logger });
    const componentPruner = new ComponentPruner({
      ...{ store, clock, logger },
      listDeployments: (limit) => listDeployments(store, limit),
    });
    const filePruner = new FilePruner({ store, clock, logger });
    const uploads = new UploadedBodies({
      files,
      urls: fileUrls,
      clock,
      bytesMax: settings.uploadMaxMb * 1024 * 1024,
    });

    const apps = await AppCatalogue.load({
      store,
      folders: [
        join(import.meta.dirname, '..', 'apps'),
        ...(settings.appsFolder === '' ? [] : [settings.appsFolder]),
      ],
      logger,
    });
    const { node, predecessor } = nextNodeId(settings.data);
    const startedAtMs = clock.now();
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
    const guarded = createGuardedDispatcher({
      policy,
      ...(extraCa === undefined ? {} : { extraCa }),
      connectionsPerOrigin: null,
    });
    parts.add('deliveries under way', () => guarded.destroy());
    const workflows = new WorkflowDirectory({ store, clock });
    const delivery = new DeliveryService({
      store,
      node,
      clock,
      logger,
      vault,
      guarded,
      bus,
      version: packageJson.version,
      sends: has('worker'),
      watchMs: (settings.nodeLeaseSeconds * 1000) / 3,
      pool: () => pool,
      workflows,
      runs: () => workflowRuns.starter,
    });
    const onAccountChange = (accountId: string): void => {
      lanes.forgetAccount(accountId);
      deployments.forgetAccount(accountId);
    };
    const accounts = new AccountService({
      ...{ store, vault, clock, logger, node, dispatcher, policy, bus, apps, publicUrl },
      router: delivery.finder,
      checkHours: settings.accountCheckHours,
      auditDays: settings.auditDays,
      onChange: onAccountChange,
    });
    const connecting = new ConnectService({
      ...{ store, vault, clock, logger, dispatcher, apps, publicUrl },
      onChange: onAccountChange,
    });
    const asks = {
      data_store: dataStoreAsks({ store, clock, entries: dataStores }),
      file: fileAsks({ store: files, clock, urls: fileUrls }),
    };
    const keptAnswers = new KeptAnswers({
      ...{ store, vault, clock, logger },
      waitMs: settings.runDeadlineSeconds * 1000,
    });
    const apiRequests = new ApiRequests({ store, answers: keptAnswers, node, clock, logger });
    parts.add('repeated requests', () => apiRequests.stop());
    const keyPruner = new IdempotencyKeyPruner({ store, clock, logger });
    const sourceReplies = new SourceReplies({ store, node, clock, logger });
    const runs = new SourceRuns({
      replies: sourceReplies,
      keptReplies: keptAnswers,
      asks: answerSourceAsks(asks),
      store,
      runner,
      bus,
      router: delivery.finder,
      clock,
      logger,
      node,
      lanes,
      limits: {
        deadlineMs: settings.runDeadlineSeconds * 1000,
        memoryMb: settings.runMemoryMb,
        componentDbBytesMax: settings.componentDbMaxKb * 1024,
      },
    });
    onStray = (deploymentId, error) => {
      const told = deploymentId.startsWith('d_')
        ? workflowRuns.strayError(deploymentId, error)
        : runs.strayError(deploymentId, error);
      told.catch((cause) => {
        logger.warn({ deployment: deploymentId, err: cause }, 'runner.stray_error_not_stored');
      });
    };
    const deployments = new Deployments({ store, clock, context });
    parts.add('deployments', () => deployments.close());
    const workflowRuns = new RunService({
      store,
      bus,
      router: delivery.finder,
      clock,
      logger,
      node,
      runner,
      deployments,
      pool: () => pool,
      inboundUrl: () => `${publicUrl()}/in`,
      platformVersion: packageJson.version,
      asks,
      mayRun: (ownerId) => quotas.mayRun(ownerId),
      settingsOf: async (workflowId) => (await workflows.find(workflowId))?.settings,
      keptAnswers,
      runsKept: settings.runsKept,
    });
    const mail =
      settings.smtpUrl === ''
        ? undefined
        : createMailServer({
            url: settings.smtpUrl,
            from: settings.emailFrom,
            ...(extraCa === undefined ? {} : { extraCa }),
          });
    parts.add('outgoing mail', () => mail?.close());
    // Where the object storage is, the operator says: it may be near. Everything else about a request to it is vetted.
    const toObjects = createGuardedDispatcher({
      policy: new AddressPolicy({
        allow: ['public', 'local'],
        connectTo: settings.connectTo,
        deny: () => [listening, ...database],
      }),
      ...(extraCa === undefined ? {} : { extraCa }),
    });
    parts.add('object storage', () => toObjects.destroy());
    const runSends = new RunSends({
      store,
      node,
      clock,
      bus,
      router: delivery.finder,
      http: { dispatcher: guarded, version: packageJson.version },
      mail,
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
    const appEvents = new AppEvents({
      ...{ store, node, clock, logger, quotas },
      pool: () => pool,
      payloadBytesMax: settings.bodyMaxKb * 1024,
    });
    const handlers = backgroundJobs({
      ...{ store, node, bus, clock, runs, delivery, runSends, workflowRuns, appEvents },
    });
    const pool: WorkerPool = new WorkerPool({
      ...{ node, store, handlers, clock, logger },
      claims: has('worker'),
      leaseMs: settings.nodeLeaseSeconds * 1000,
      predecessor,
    });
    const isClockUnreliable = () => databaseClock?.status().state === 'unreliable';
    const scheduler = new Scheduler({
      store,
      targets: {
        dc: new SourceTicks({ store, onJobs: () => pool.poke() }),
        p: new WorkflowTicks({ store, runs: workflowRuns.starter }),
      },
      mayRun: (ownerId) => quotas.mayRun(ownerId),
      time: storeTime(store, clock),
      isPaused: isClockUnreliable,
      logger,
    });
    const directory = new EndpointDirectory({ store, clock, sealer: context.sealer });
    const deployer = new SourceDeployer({
      store,
      resolver,
      runner,
      runs,
      lanes,
      bus,
      clock,
      logger,
      node,
      context,
      links: {
        added: (tx, source) => addAutoSubscriptions(tx, source, clock.now()),
        removed: (tx, source) => removeSubscriptionsOf(store, tx, source, clock.now()),
      },
      onTimers: () => scheduler.poke(),
      onEndpointChange: (key) => directory.forget(key),
    });
    const componentConfigurer = new ComponentConfigurer({
      db: store.read,
      resolver,
      runner,
      context,
      deadlineMs: settings.runDeadlineSeconds * 1000,
      nowMs: () => clock.now(),
    });
    const workflowDeployer = new WorkflowDeployer({
      store,
      resolver,
      runner,
      sources: deployer,
      links: {
        added: (tx, workflow) => addAutoSubscriptions(tx, workflow, clock.now()),
        removed: (tx, workflow) => removeSubscriptionsOf(store, tx, workflow, clock.now()),
        listen: (tx, link) => listenToSource(store, tx, link, clock.now()),
        unlisten: (tx, { workflow, sourceId }) =>
          stopListening(store, tx, { workflowId: workflow.id, sourceId }, clock.now()),
      },
      context,
      clock,
      logger,
      deadlineMs: settings.runDeadlineSeconds * 1000,
      onChange: ({ workflowId, endpointKeys, removed }) => {
        workflows.forget(workflowId);
        deployments.forgetWorkflow(workflowId);
        for (const key of endpointKeys) directory.forget(key);
        scheduler.poke();
        if (removed) bus.emitterRemoved(workflowId);
      },
      onJobs: () => pool.poke(),
    });
    const actionRunner = new ActionRunner({
      ...{ store, clock, logger, resolver, runner, context },
      steps: workflowRuns.steps,
      sends: runSends,
      admit: (ownerId) => quotas.check(ownerId),
      platformVersion: packageJson.version,
    });
    const stepTrier = new StepTrier({
      ...{ store, clock, context, deployments, runner },
      deployer: workflowDeployer,
      steps: workflowRuns.steps,
      platformVersion: packageJson.version,
    });
    // The server stops listening first and is gone last: requests wait for runs, so the runs have to end before them.
    let requestsAnswered = async () => {};
    parts.add('requests', () => requestsAnswered());
    // Together: what runs emits, what is delivered to sources runs, and runs wait for tokens. One grace for all of them.
    parts.add('runs and deliveries', async (timeLeft) => {
      const graceMs = timeLeft(stopGraceMs);
      await Promise.all([
        pool.stop(graceMs),
        delivery.dispatcher.stop(graceMs),
        accounts.stop(graceMs),
        actionRunner.stop(graceMs),
      ]);
      sourceReplies.stop();
      keptAnswers.stop();
      await pool.releaseLanes();
    });
    signal?.throwIfAborted();
    sourceReplies.start();
    await pool.start();
    // Again, now that a rotation of the key sees this node and will not begin.
    await checkMasterKey(store.read, vault);
    await delivery.dispatcher.start();
    // Again: lanes of a node that is gone are free when its deliveries are.
    await pool.recover();
    signal?.throwIfAborted();
    deployer.start();
    parts.add('source deployer', () => deployer.stop());
    pruner.start();
    parts.add('event pruner', () => pruner.stop());
    workflowRuns.pruner.start();
    parts.add('run pruner', () => workflowRuns.pruner.stop());
    entryPruner.start();
    parts.add('data store pruner', () => entryPruner.stop());
    filePruner.start();
    parts.add('file pruner', () => filePruner.stop());
    keyPruner.start();
    parts.add('idempotency key pruner', () => keyPruner.stop());
    npmCache.start();
    parts.add('npm cache', () => npmCache.stop());
    componentPruner.start();
    parts.add('component pruner', () => componentPruner.stop());
    delivery.pruner.start();
    parts.add('delivery pruner', () => delivery.pruner.stop());
    await accounts.start({ keeps: has('worker') });
    if (has('scheduler')) scheduler.start();
    parts.add('scheduler', () => scheduler.stop());

    const root = join(import.meta.dirname, '..');
    const dashboardPages = new DashboardPages({
      root,
      // Beside the packages, so that all services of one installation share them; where that cannot be written to, the data.
      cacheFolders: [join(root, 'node_modules', '.cache', 'dashboard'), join(settings.data, 'dashboard')],
      logger,
    });
    parts.add('dashboard build', () => dashboardPages.stop());
    const metrics = new Registry();
    const streams = new LiveStreams({
      slots: new StreamSlots({ clock, perKeyMax: settings.streamsPerKey }),
    });
    observeService(metrics, {
      ...{ store, runner, builder, pool, streams, deliveries: delivery.dispatcher },
      clockOffsetMs: () => databaseClock?.status().offsetMs ?? 0,
    });
    const server = await createServer({
      store,
      clock,
      logger,
      metrics,
      version: packageJson.version,
      settings: { publicUrl: settings.publicUrl, sessionHours: settings.sessionHours },
      dashboardPages,
      manual: new Manual({ root, version: packageJson.version }),
      eventRates,
      apiRequests,
      viewInstance: () =>
        viewInstance({
          ...{ settings, environment, node, startedAtMs, clock, store, runner, pool, streams, publicUrl },
          version: packageJson.version,
          deliveries: delivery.dispatcher,
          clockStatus: databaseClock?.status(),
        }),
      unreadyReason: () =>
        has('scheduler') && isClockUnreliable()
          ? 'the clock of this machine and that of the database are more than a minute apart: no timer fires here until they agree'
          : undefined,
      endpointUrl: context.endpointUrl,
      quotas,
      dataStores,
      runManager: workflowRuns.manager,
      stepTrier,
      actionRunner,
      files,
      fileUrls,
      vault,
      resolver,
      componentConfigurer,
      deployer,
      workflowDeployer,
      templateMaker: new TemplateMaker({ store, resolver, clock }),
      workflowViews: {
        endpointUrl: context.endpointUrl,
        emailAddress: (key) => emailAddress(mailDomain(), key),
        now: () => clock.now(),
      },
      delivery,
      policy,
      bus,
      streams,
      api: has('api'),
      trustedProxies: settings.trustedProxies,
      onJobs: () => pool.poke(),
      accountCredentials: accounts.credentials,
      revokeGrant: (account, credentials) => accounts.revoke(account, credentials),
      connectByClient: connecting.connectByClient,
      oauth1Signer: accounts.signer,
      accountChecker: accounts.checker,
      onAccountChange,
      connector: connecting.connector,
      publicUrl,
      findApp: apps.find.bind(apps),
      appEvents,
      catalogue: apps,
      componentCatalogue,
      packageFetcher,
      redirectUri: () => connecting.connector.redirectUri(),
      rewritePath: (host, path) => {
        const key = endpointKeyOfHost(host, settings.endpointDomain);
        return key === undefined ? path : `/in/${key}${path}`;
      },
      ...(has('ingress')
        ? {
            ingress: (app: FastifyInstance) =>
              httpEndpoints(app, {
                acceptor: new RequestAcceptor({
                  store,
                  pool,
                  runs,
                  clock,
                  replyTimeoutMs: settings.runDeadlineSeconds * 1000,
                }),
                directory,
                answers: keptAnswers,
                starter: workflowRuns.starter,
                resumer: workflowRuns.resumer,
                uploads,
                accessTokens: {
                  accepts: (token, workspaceId) =>
                    acceptsToken(store.read, token, { workspaceId, nowMs: clock.now() }),
                },
                bodyBytesMax: settings.bodyMaxKb * 1024,
                quotas,
              }),
          }
        : {}),
    });
    parts.add('HTTP server', (timeLeft) => {
      requestsAnswered = beginClose(server, timeLeft(requestGraceMs));
      streams.close();
    });
    signal?.throwIfAborted();
    await server.listen({ host: settings.host, port: settings.port });
    door.leadTo((request, response) => server.routing(request, response));
    const bound = server.server.address();
    if (bound !== null && typeof bound === 'object') listening = { address: settings.host, port: bound.port };
    const address = `http://${urlHost(listening.address)}:${listening.port}`;
    if (has('ingress') && settings.smtpPort !== 0) {
      const mails = await startMailServer({
        settings,
        parts: {
          store,
          runs: workflowRuns.starter,
          files: uploads,
          clock,
          domain: mailDomain,
          mayRun: (ownerId) => quotas.mayRun(ownerId),
        },
        logger,
      });
      parts.add('mail server', () => mails.close());
    }
    return {
      ...{ address, node, firstStart: first, store: store.name, sandbox: runner.stats() },
      version: packageJson.version,
      stop: () => parts.stop(),
      stopWaitsFor: () => parts.waitingFor,
    };
  }
}

/** Where the database listens, by address: the policy knows no names. A local socket is out of reach anyway. */
async function databaseAddresses(url: string): Promise<{ address: string; port: number }[]> {
  const hosts = url === '' ? [] : databaseHosts(url);
  const found = await Promise.all(
    hosts.map(async ({ host, port }) => {
      const addresses = await lookup(host, { all: true }).catch((cause: unknown) => {
        throw new UnavailableError(
          'store_unavailable',
          `MILLRACE_DATABASE_URL: the host ${host} cannot be resolved`,
          { cause },
        );
      });
      return addresses.map(({ address }) => ({ address, port }));
    }),
  );
  return found.flat();
}

function urlHost(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}
