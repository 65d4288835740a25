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
import { databaseHost } from '#storage/database-host.ts';
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
import { type FirstStart, firstStart } from '#workspaces/first-start.ts';
import packageJson from '../package.json' with { type: 'json' };
import { backgroundJobs } from './background-jobs.ts';
import { observeService } from './observe-service.ts';
import { viewInstance } from './view-instance.ts';

/** A running service. */
export interface RunningApp {
  /** Where it listens, such as http://127.0.0.1:8080. */
  address: string;
  /** Set when this start created the first user. */
  firstStart: FirstStart | undefined;
  /** Stops accepting, finishes or gives back what is under way, closes the store. May be called twice. */
  stop(): Promise<void>;
}

export interface AppOptions {
  settings: Settings;
  /** For npm's own configuration, which component builds honour. */
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  logger: Logger;
}

/** Runs under way get this long when the service stops; what is left is given back and runs after the next start. */
const stopGraceMs = 6_000;
/** And requests this long, counted from the same moment: those who wait for a run are answered when it is given back. */
const requestGraceMs = 7_000;
const componentFetchBytesMax = 5 * 1024 * 1024;

/** The only place that constructs parts and hands them to each other. Parts stop in the reverse order of their start. */
export async function startApp(options: AppOptions): Promise<RunningApp> {
  const { settings, logger } = options;
  const databaseClock =
    settings.databaseUrl === '' ? undefined : new DatabaseClock({ machine: options.clock, logger });
  const clock: Clock = databaseClock ?? options.clock;
  const closers: (() => unknown)[] = [];
  const stop = once(async () => {
    for (const close of closers.reverse()) {
      try {
        await close();
      } catch (error) {
        logger.error({ err: error }, 'service.part-failed-to-stop');
      }
    }
  });
  try {
    return await construct(options, closers, stop);
  } catch (error) {
    await stop();
    throw error;
  }

  async function construct(
    { environment, clock: machineClock }: AppOptions,
    close: (() => unknown)[],
    stopAll: () => Promise<void>,
  ): Promise<RunningApp> {
    const release = lockFolder(settings.data);
    close.push(release);
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
    close.push(() => door.close());

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
    close.push(() => packages.close());
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
    if (started.status === 'fulfilled') close.push(() => started.value.close());
    if (opened.status === 'fulfilled') close.push(() => opened.value.close());
    if (opened.status === 'rejected') throw opened.reason;
    if (started.status === 'rejected') throw started.reason;
    const store = opened.value;
    const runner = started.value;
    // Before anything is written with a time.
    await databaseClock?.start(() => databaseTimeMs(store.read));
    close.push(() => databaseClock?.stop());

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
    close.push(() => dispatcher.destroy());
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
    close.push(() => builder.close());
    const registry = new LocalRegistry(join(import.meta.dirname, '..', 'components'));
    const resolver = new ComponentResolver({ store, builder, runner, registry, clock });
    const packageFetcher = new PackageFetcher({
      cacheFolder: join(settings.data, 'components'),
      registry: settings.npmRegistry,
      npmConfig,
      logger,
    });
    close.push(() => packageFetcher.close());
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
    close.push(() => lanes.close());
    const guarded = createGuardedDispatcher({
      policy,
      ...(extraCa === undefined ? {} : { extraCa }),
      connectionsPerOrigin: null,
    });
    close.push(() => guarded.destroy());
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
    const sourceReplies = new SourceReplies({ store, node, clock, logger });
    const runs = new SourceRuns({
      replies: sourceReplies,
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
    close.push(() => deployments.close());
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
    close.push(() => mail?.close());
    // Where the object storage is, the operator says: it may be near. Everything else about a request to it is vetted.
    const toObjects = createGuardedDispatcher({
      policy: new AddressPolicy({
        allow: ['public', 'local'],
        connectTo: settings.connectTo,
        deny: () => [listening, ...database],
      }),
      ...(extraCa === undefined ? {} : { extraCa }),
    });
    close.push(() => toObjects.destroy());
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
    close.push(() => requestsAnswered());
    // Together: what runs emits, what is delivered to sources runs, and runs wait for tokens. One grace for all of them.
    close.push(async () => {
      await Promise.all([
        pool.stop(stopGraceMs),
        delivery.dispatcher.stop(stopGraceMs),
        accounts.stop(stopGraceMs),
        actionRunner.stop(stopGraceMs),
      ]);
      sourceReplies.stop();
      await pool.releaseLanes();
    });
    sourceReplies.start();
    await pool.start();
    // Again, now that a rotation of the key sees this node and will not begin.
    await checkMasterKey(store.read, vault);
    await delivery.dispatcher.start();
    // Again: lanes of a node that is gone are free when its deliveries are.
    await pool.recover();
    deployer.start();
    close.push(() => deployer.stop());
    pruner.start();
    close.push(() => pruner.stop());
    workflowRuns.pruner.start();
    close.push(() => workflowRuns.pruner.stop());
    entryPruner.start();
    close.push(() => entryPruner.stop());
    filePruner.start();
    close.push(() => filePruner.stop());
    npmCache.start();
    close.push(() => npmCache.stop());
    componentPruner.start();
    close.push(() => componentPruner.stop());
    delivery.pruner.start();
    close.push(() => delivery.pruner.stop());
    await accounts.start({ keeps: has('worker') });
    if (has('scheduler')) scheduler.start();
    close.push(() => scheduler.stop());

    const root = join(import.meta.dirname, '..');
    const dashboardPages = new DashboardPages({
      root,
      // Beside the packages, so that all services of one installation share them; where that cannot be written to, the data.
      cacheFolders: [join(root, 'node_modules', '.cache', 'dashboard'), join(settings.data, 'dashboard')],
      logger,
    });
    close.push(() => dashboardPages.stop());
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
    close.push(() => {
      requestsAnswered = beginClose(server, requestGraceMs);
      streams.close();
    });
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
      close.push(() => mails.close());
    }
    logger.info(
      { address, node, store: store.name, sandbox: runner.stats().level, version: packageJson.version },
      'service.ready',
    );
    return { address, firstStart: first, stop: stopAll };
  }
}

/** Where the database listens, by address: the policy knows no names. A local socket is out of reach anyway. */
async function databaseAddresses(url: string): Promise<{ address: string; port: number }[]> {
  const database = url === '' ? undefined : databaseHost(url);
  if (database === undefined) return [];
  const { host, port } = database;
  const found = await lookup(host, { all: true }).catch((cause: unknown) => {
    throw new UnavailableError(
      'store_unavailable',
      `MILLRACE_DATABASE_URL: the host ${host} cannot be resolved`,
      { cause },
    );
  });
  return found.map(({ address }) => ({ address, port }));
}

function urlHost(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}

function once(work: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
