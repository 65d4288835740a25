import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { endBuildsOfGone } from '#deletion/end-builds-of-gone.ts';
import { deliveryDays } from '#delivery/prune-deliveries.ts';
import { ListeningServer } from '#http/listening-server.ts';
import { createServer } from '#http/server.ts';
import { acceptsToken } from '#identity/api-tokens.ts';
import { RequestAcceptor } from '#ingress/accept-request.ts';
import { httpEndpoints } from '#ingress/http-endpoints.ts';
import { startMailServer } from '#ingress/mail-service.ts';
import { endpointKeyOfHost } from '#ingress/resolve-endpoint.ts';
import { UploadedBodies } from '#ingress/uploaded-bodies.ts';
import { installationFolder, isPackaged } from '#lib/installation.ts';
import { admitPerson } from '#runner/admit-person.ts';
import { descriptorsMax } from '#runner/connection-shares.ts';
import { LiveStreams } from '#streams/live-streams.ts';
import { StreamSlots } from '#streams/stream-slots.ts';
import { DashboardPages } from '#web/dashboard/dashboard-pages.ts';
import { Manual } from '#web/manual/manual.ts';
import { emailAddress, emailDomain, noMailReason } from '#workflows/definitions/trigger-address.ts';
import type { Domain } from './assemble-domain.ts';
import type { Platform } from './assemble-platform.ts';
import { assembleSingleSignOn } from './assemble-single-sign-on.ts';
import { observeService } from './observe-service.ts';
import { viewEgressProxy, viewFileBucket, viewInstance, viewSandbox } from './view-instance.ts';
import { viewProcesses } from './view-processes.ts';

export type Edges = Awaited<ReturnType<typeof assembleEdges>>;

/** Assembles what accepts requests and mails, and what serves users. Nothing listens yet. */
export async function assembleEdges(platform: Platform, domain: Domain) {
  const { settings, has, clock, logger, version, address, publicUrl, store, databaseClock } = platform;
  const { runner, builder, resolver, bus, quotas, pool } = platform;
  const { delivery, workflowRuns, files, fileUrls, context, connecting, accounts, apps } = domain;

  const root = installationFolder;
  const dashboardPages = new DashboardPages({
    root,
    ...(isPackaged ? { builtFolder: join(root, 'lib', 'dashboard') } : {}),
    // Beside the packages, so that all services of one installation share them; where that cannot be written to, the data.
    cacheFolders: [join(root, 'node_modules', '.cache', 'dashboard'), join(settings.data, 'dashboard')],
    logger,
  });
  const streams = new LiveStreams({
    owners: platform.activeOwners,
    onDelayed: (ownerId) => platform.shares.delayed(ownerId, 'transfers'),
    slots: new StreamSlots({
      clock,
      perKeyMax: settings.streamsPerKey,
      perOwnerMax: (ownerId) => quotas.streamsMaxOf(ownerId),
      onOwnerRefused: () => quotas.streamRefused(),
      shares: platform.shares,
    }),
  });
  store.onNotify((channel, id) => {
    if (channel !== 'millrace_access') return;
    streams.recheck();
    // Notifications of this node itself do not come here.
    void endBuildsOfGone({ store, builder, logger }, id);
  });
  const uploads = new UploadedBodies({
    ...{ files, urls: fileUrls, clock },
    bytesMax: settings.uploadMaxMb * 1024 * 1024,
  });
  const mailDomain = () => emailDomain(settings.emailDomain, publicUrl());
  const deliveries = delivery.dispatcher;
  const metrics = new Registry();
  observeService(metrics, {
    ...{ store, runner, builder, pool, streams, deliveries, settings, quotas },
    spans: platform.tracing.exporter,
    now: () => clock.now(),
    clockOffsetMs: () => databaseClock?.status().offsetMs ?? 0,
  });

  const acceptor = new RequestAcceptor({
    ...{ store, pool, clock, runs: domain.sourceRuns },
    replyTimeoutMs: settings.runDeadlineSeconds * 1000,
    onHeld: (sourceId) => domain.workflowRuns.flow.poke(sourceId),
  });
  bus.observeRemovals((emitterId) => acceptor.removed(emitterId));
  const ingress = (app: FastifyInstance) =>
    httpEndpoints(app, {
      acceptor,
      directory: domain.endpoints,
      answers: domain.keptAnswers,
      starter: workflowRuns.starter,
      resumer: workflowRuns.resumer,
      accessTokens: {
        accepts: (token, workspaceId) => acceptsToken(store.read, token, { workspaceId, nowMs: clock.now() }),
      },
      bodyBytesMax: settings.bodyMaxKb * 1024,
      ...{ uploads, quotas },
    });
  const singleSignOn = assembleSingleSignOn(platform, domain);
  const server = await createServer({
    ...{ store, clock, logger, metrics, version, dashboardPages, quotas, files, fileUrls, resolver },
    ...{ delivery, bus, streams, builder, publicUrl },
    vault: platform.vault,
    tracer: platform.tracer,
    policy: platform.egress.policy,
    eventRates: platform.eventRates,
    apiRequests: domain.apiRequests,
    shares: platform.shares,
    componentCatalogue: platform.componentCatalogue,
    packageFetcher: platform.packageFetcher,
    repositoryOptions: platform.repositoryOptions,
    dataStores: domain.dataStores,
    variables: domain.variables,
    onVariableChange: domain.variableChanges.tell,
    onAccessEnd: () => streams.recheck(),
    onOwnerDeleted: (ownerId) => {
      domain.endpoints.forgetOwner(ownerId);
      builder.endBuildsOf(ownerId);
    },
    stepTrier: domain.stepTrier,
    actionRunner: domain.actionRunner,
    componentConfigurer: domain.componentConfigurer,
    deployer: domain.sourceDeployer,
    workflowDeployer: domain.workflowDeployer,
    templateMaker: domain.templateMaker,
    imports: domain.imports,
    appEvents: domain.appEvents,
    settings: { publicUrl: settings.publicUrl, sessionHours: settings.sessionHours },
    singleSignOn,
    instanceDays: {
      events: null,
      runs: null,
      deliveries: deliveryDays,
      audit: settings.auditDays,
      files: null,
    },
    manual: new Manual({ root, version }),
    viewInstance: () =>
      viewInstance({
        ...{ settings, version, clock, store, runner, pool, streams, publicUrl, deliveries, singleSignOn },
        environment: platform.environment,
        node: platform.node,
        startedAtMs: platform.startedAtMs,
        clockStatus: databaseClock?.status(),
        fileBucket: () => viewFileBucket(domain),
        egressProxy: platform.egress.policy.proxy,
      }),
    viewProcesses: (caller) => viewProcesses({ runner, db: store.read, node: platform.node }, caller),
    unreadyReason: () => {
      if (platform.draining?.aborted === true) return 'this node is about to stop';
      return has('scheduler') && domain.isClockUnreliable()
        ? 'the clock of this machine and that of the database are more than a minute apart: no timer fires here until they agree'
        : undefined;
    },
    endpointUrl: context.endpointUrl,
    runManager: workflowRuns.manager,
    runWaits: workflowRuns.waits,
    bulkRuns: workflowRuns.bulk,
    runStarter: workflowRuns.starter,
    workflowViews: {
      endpointUrl: context.endpointUrl,
      emailAddress: (key) => emailAddress(mailDomain(), key),
      noMail: settings.smtpPort === 0 ? noMailReason : null,
      now: () => clock.now(),
    },
    api: has('api'),
    trustedProxies: settings.trustedProxies,
    connections: { perAddressMax: settings.connectionsPerAddress, descriptorsMax: descriptorsMax() },
    onJobs: () => pool.poke(),
    accountCredentials: accounts.credentials,
    revokeGrant: (account, credentials) => accounts.revoke(account, credentials),
    oauth1Signer: accounts.signer,
    accountChecker: accounts.checker,
    onAccountChange: domain.accountChanges.tell,
    admitPerson: () => admitPerson({ setting: settings.sandbox, stats: runner.stats() }),
    sandbox: () => viewSandbox(runner.stats()),
    fileBucket: () => viewFileBucket(domain),
    egressProxy: () => viewEgressProxy(platform.egress.policy.proxy),
    connectByClient: connecting.connectByClient,
    connector: connecting.connector,
    redirectUri: () => connecting.connector.redirectUri(),
    findApp: apps.find.bind(apps),
    catalogue: apps,
    rewritePath: (host, path) => {
      const key = endpointKeyOfHost(host, settings.endpointDomain);
      return key === undefined ? path : `/in/${key}${path}`;
    },
    ...(has('ingress') ? { ingress } : {}),
  });

  return {
    ...{ dashboardPages, streams },
    server: new ListeningServer({ server, address, door: platform.door }),
    /** Undefined: no mail is taken here. */
    startMail:
      has('ingress') && settings.smtpPort !== 0
        ? () =>
            startMailServer({
              owners: platform.activeOwners,
              onDelayed: (ownerId) => platform.shares.delayed(ownerId, 'transfers'),
              ...{ settings, logger },
              acceptorOptions: {
                ...{ store, clock, files: uploads, domain: mailDomain },
                runs: workflowRuns.starter,
                mayRun: (ownerId) => quotas.mayRun(ownerId),
              },
            })
        : undefined,
  };
}
