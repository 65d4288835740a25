import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { auditedStore } from '#audit/record-change.ts';
import { type ComponentBuilder, createComponentBuilder } from '#components/build-component.ts';
import { defaultBuildLimits } from '#components/build-limits.ts';
import { BuilderWalls } from '#components/builder-walls.ts';
import { npmConfigWith, npmThroughProxy, readNpmConfig } from '#components/npm-config.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { PackageFolders } from '#components/package-folders.ts';
import { SettingsError } from '#config/read-settings.ts';
import { ServiceAddress } from '#config/service-address.ts';
import { type Settings, settingDefinitions } from '#config/settings.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { EgressProxy } from '#egress/egress-proxy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { guardedFetch } from '#egress/guarded-fetch.ts';
import { EventBus } from '#events/event-bus.ts';
import { EventRates } from '#events/event-rates.ts';
import { EventPruner } from '#events/prune-events.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { ServiceDoor } from '#http/service-door.ts';
import { firstStart } from '#identity/first-start.ts';
import { hasSeveralUsers } from '#identity/user-store.ts';
import { JobRegistry } from '#jobs/job-registry.ts';
import { nextNodeId } from '#jobs/node-id.ts';
import { databaseTimeMs } from '#jobs/node-store.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import { ActiveOwners } from '#lib/active-owners.ts';
import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { installationFolder, installedVersion } from '#lib/installation.ts';
import type { Logger } from '#lib/logger.ts';
import { machineMemoryBytes } from '#lib/machine-memory.ts';
import { Observers } from '#lib/observers.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import { QuotaGuard } from '#metering/quota-guard.ts';
import { ShareRecords } from '#metering/share-records.ts';
import { ComponentCatalogue } from '#registry/component-catalogue.ts';
import { LocalRegistry } from '#registry/local-registry.ts';
import { RepositoryFiles } from '#registry/repository-files.ts';
import { ComponentResolver } from '#registry/resolve-component.ts';
import type { UserCodeError } from '#runner/call-outcome.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import type { Runner } from '#runner/runner.ts';
import { memoryBudgetMbOf } from '#runner/runner-limits.ts';
import { DatabaseClock } from '#storage/database-clock.ts';
import { databaseHosts } from '#storage/database-host.ts';
import { lockFolder } from '#storage/lock-folder.ts';
import { openStore } from '#storage/open-store.ts';
import { makePrivate } from '#storage/private-folder.ts';
import type { Store } from '#storage/store.ts';
import { takeMasterKey } from '#vault/check-master-key.ts';
import { keyFilePath, loadMasterKey } from '#vault/master-key.ts';
import { hasSealedValues } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { openTracing } from './open-tracing.ts';

export interface AppOptions {
  settings: Settings;
  /** For npm's own configuration, which component builds honour. */
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  logger: Logger;
  /** Ends the start between two of its steps: `startApp` rejects with its reason when what had started has stopped. */
  signal?: AbortSignal;
  /** Aborted: balancers send no more requests here, because the stop follows. */
  draining?: AbortSignal;
}

const componentFetchBytesMax = 5 * 1024 * 1024;
const proxyCheckEveryMs = 60_000;

export type Platform = Awaited<ReturnType<typeof assemblePlatform>>;

/** Assembles what every feature needs, and the building, finding and running of user code. Open parts are in `parts`, so that they are closed in any case. */
export async function assemblePlatform(options: AppOptions, parts: RunningParts) {
  const { settings, environment, logger, signal } = options;
  parts.add('lock of the data folder', lockFolder(settings.data), { isIndispensable: true });
  makePrivate(settings.data, logger);

  const has = (role: string): boolean => settings.roles.includes(role);
  const databaseClock =
    settings.databaseUrl === '' ? undefined : new DatabaseClock({ machine: options.clock, logger });
  const clock: Clock = databaseClock ?? options.clock;
  const address = new ServiceAddress(settings);
  const { publicUrl } = address;
  const egress = await openEgress(settings, address, clock);
  watchProxy(egress.policy.proxy, { logger, parts });
  const door = new ServiceDoor({ publicUrl });
  parts.add('service door', () => door.close());

  const npm = npmThroughProxy(await readNpmConfig(environment, homedir(), settings.extraCa), settings);
  const walls = new BuilderWalls();
  const packages = new PackageFolders({
    folder: join(settings.data, 'packages'),
    cache: join(settings.data, 'components', 'npm'),
    npm: npmConfigWith(npm, settings.npmRegistry),
    limits: defaultBuildLimits,
    ...{ logger, walls },
    // Compared with the times of files, which are the machine's.
    clock: options.clock,
  });
  parts.add('package folders', () => packages.close());

  const unattributedErrors = new Observers<[deploymentId: string, error: UserCodeError]>();
  let quotas: QuotaGuard | undefined;
  const machineBytes = machineMemoryBytes();
  const shares = new ShareRecords({ logger, nowMs: () => clock.now() });
  const activeOwners = new ActiveOwners();
  const openRunner = createProcessRunner({
    ...{ records: shares, activeOwners },
    limitsOf: (ownerId) => quotas?.limitsOf(ownerId) ?? {},
    ...{ logger, clock, door, packages, addons: settings.nativeAddons },
    ...{ policy: egress.policy, ...egress.trust },
    level: settings.sandbox,
    groups: { root: '/sys/fs/cgroup' },
    folder: settings.data,
    limits: {
      memoryMb: settings.runMemoryMb,
      processesMax: settings.processesMax,
      memoryBudgetMb: settings.processesMemoryMb || memoryBudgetMbOf(machineBytes),
      dbBytesMax: settings.componentDbMaxKb * 1024,
    },
    onUnattributedError: unattributedErrors.tell,
  });
  const { store, runner } = await openTogether(parts, {
    store: openStore({
      databaseUrl: settings.databaseUrl,
      databaseSessionUrl: settings.databaseSessionUrl,
      folder: settings.data,
      logger,
      shares,
    }).then(auditedStore),
    runner: openRunner,
  });
  signal?.throwIfAborted();
  walls.raise(runner.kernel);
  const { level, notKernel } = runner.stats();
  // They were let in before, or by a command of the operator: their code continues to run.
  if (settings.sandbox === 'auto' && level !== 'kernel' && (await hasSeveralUsers(store.read)))
    logger.warn({ level, reason: notKernel }, 'sandbox.kernel-level-missed');
  // Before anything is written with a time.
  await databaseClock?.start(() => databaseTimeMs(store.read));
  parts.add('database clock', () => databaseClock?.stop());

  const vault = await openVault(store, settings);
  // Other nodes make keys of their own, and what one of them seals no other can read.
  if (store.isShared && settings.encryptionKey === '')
    logger.warn(
      { keyFile: keyFilePath(settings.data), setting: 'MILLRACE_ENCRYPTION_KEY' },
      'vault.shared-key-missed',
    );
  await takeMasterKey(store, vault, clock);
  const first = await firstStart(store, { folder: settings.data, apiKey: settings.apiKey, clock });

  const dispatcher = createGuardedDispatcher({ policy: egress.policy, ...egress.trust });
  // Not `close`, which waits for answers: who asked is gone by then.
  parts.add('outgoing connections', () => dispatcher.destroy());
  const fromNpm = {
    cacheFolder: join(settings.data, 'components'),
    registry: settings.npmRegistry,
    npmConfig: npm,
  };
  const builder: ComponentBuilder = createComponentBuilder({
    ...{ ...fromNpm, packages, addons: runner.stats().addons, logger, walls, shares },
    fetchText: (url, { signal }) =>
      guardedFetch(url, { dispatcher, maxBytes: componentFetchBytesMax, signal }),
    admit: (ownerId, builds) => quotas?.requireBuild(ownerId, builds),
  });
  parts.add('component builder', () => builder.close());
  const registry = new LocalRegistry(join(installationFolder, 'components'));
  const repositoryOptions = {
    ...{ dispatcher, logger, walls },
    folder: join(settings.data, 'components', 'repositories'),
  };
  const repositories = new RepositoryFiles(repositoryOptions);
  parts.add('files of Git repositories', () => repositories.close());
  const resolver = new ComponentResolver({ store, builder, runner, registry, repositories, clock });
  const packageFetcher = new PackageFetcher({ ...fromNpm, logger, walls, shares });
  parts.add('package fetcher', () => packageFetcher.close());
  const componentCatalogue = new ComponentCatalogue({ store, local: registry, fetcher: packageFetcher });

  const bus = new EventBus(logger);
  store.onNotify((channel, payload) => {
    if (channel === 'millrace_events') bus.heard(payload);
  });
  const eventPruner = new EventPruner({ store, logger });
  bus.observe((events) => eventPruner.observe(events));
  const eventRates = new EventRates(clock);
  bus.observe((events) => eventRates.count(events));

  quotas = new QuotaGuard({
    ...{ store, clock, logger },
    defaults: {
      credits: settings.quotaCredits,
      computeMs: settings.quotaComputeMs,
      invocations: settings.quotaInvocations,
      enforced: settings.quotaEnforced === 'on',
      limits: {
        sources: settings.quotaSources,
        workflows: settings.quotaWorkflows,
        events: settings.quotaEvents,
        deliveries: settings.quotaDeliveries,
        storedMb: settings.quotaStoredMb,
        streams: settings.quotaStreams,
        builds: settings.quotaBuilds,
        workspaces: settings.quotaWorkspaces,
      },
    },
  });

  const { node, predecessor } = nextNodeId(settings.data);
  const tracing = openTracing(settings, {
    ...{ node, clock, logger, version: installedVersion },
    egress: { policy: egress.operatorPolicy, ...egress.trust },
  });
  const { tracer } = tracing;
  parts.add('traces', () => tracing.close());
  tracing.exporter?.start();
  const jobs = new JobRegistry();
  const pool = new WorkerPool({
    ...{ node, store, jobs, clock, logger, predecessor, tracer },
    claims: has('worker'),
    leaseMs: settings.nodeLeaseSeconds * 1000,
    nodeClock: () => databaseClock?.status(),
    shares,
  });
  const outcomes = new OutcomeRecorder(store, () => pool.lanes.hasOthers);

  return {
    ...{ settings, environment, logger, clock, databaseClock, has, version: installedVersion },
    draining: options.draining,
    ...{ address, publicUrl, egress, door, store, vault, first, node, startedAtMs: clock.now() },
    ...{
      runner,
      unattributedErrors,
      dispatcher,
      builder,
      resolver,
      packageFetcher,
      componentCatalogue,
      registry,
    },
    repositoryOptions,
    ...{ tracer, tracing, bus, eventPruner, eventRates, quotas, jobs, pool, outcomes, shares, activeOwners },
  };
}

/** The self-test of the sandbox and the opening of the store take about the same time: together they take it once. */
async function openTogether(
  parts: RunningParts,
  opening: { store: Promise<Store>; runner: Promise<Runner> },
): Promise<{ store: Store; runner: Runner }> {
  const [store, runner] = await Promise.allSettled([opening.store, opening.runner]);
  if (runner.status === 'fulfilled') parts.add('sandbox', () => runner.value.close());
  if (store.status === 'fulfilled') parts.add('store', () => store.value.close(), { isIndispensable: true });
  if (store.status === 'rejected') throw store.reason;
  if (runner.status === 'rejected') throw runner.reason;
  return { store: store.value, runner: runner.value };
}

async function openVault(store: Store, settings: Pick<Settings, 'encryptionKey' | 'data'>): Promise<Vault> {
  const masterKey = await loadMasterKey({
    setting: settings.encryptionKey,
    dataFolder: settings.data,
    mayCreate: !(await hasSealedValues(store.read)),
  });
  return new Vault(masterKey);
}

function readAuthorities(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: Error) => {
    throw new SettingsError(
      `MILLRACE_EXTRA_CA: ${cause.message}; expected a file of certificates that the service may read`,
      { cause },
    );
  });
}

/** Where connections may go, and which authorities they trust. */
async function openEgress(settings: Settings, address: ServiceAddress, clock: Clock) {
  const trust = settings.extraCa === '' ? {} : { extraCa: await readAuthorities(settings.extraCa) };
  const database = await databaseAddresses(settings);
  const proxy = await openProxy(settings, clock);
  const vetted = (allow: readonly string[]) =>
    new AddressPolicy({
      allow,
      connectTo: settings.connectTo,
      deny: () => [address.listening, ...database, ...(proxy?.places ?? [])],
      ...(proxy === undefined ? {} : { proxy }),
    });
  return {
    trust,
    policy: vetted(settings.egress),
    // The operator says where the object storage and the receiver of traces are: they may be near. Everything else about a request to them is vetted.
    operatorPolicy: vetted(['public', 'local', ...settings.egress]),
  };
}

async function openProxy(settings: Settings, clock: Clock): Promise<EgressProxy | undefined> {
  const { egressProxy: url, egressProxyExcept: except } = settings;
  if (url === '') return undefined;
  const proxy = new EgressProxy({ url, except, clock });
  await proxy.resolve().catch((cause: unknown) => {
    throw new UnavailableError(
      'not_ready',
      `MILLRACE_EGRESS_PROXY: the host of ${proxy.place} cannot be resolved`,
      { cause },
    );
  });
  return proxy;
}

/** Finds out that the proxy works, also while nothing else is asked of it. */
function watchProxy(
  proxy: EgressProxy | undefined,
  { logger, parts }: { logger: Logger; parts: RunningParts },
): void {
  if (proxy === undefined) return;
  const stopping = new AbortController();
  const task = new PeriodicTask({
    everyMs: proxyCheckEveryMs,
    work: () =>
      proxy.check(stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) throw error;
      }),
    logger,
    failure: 'egress.proxy-failed',
    about: { proxy: proxy.place },
  });
  parts.add('outbound proxy', () => {
    stopping.abort();
    return task.stop();
  });
  task.start({ atOnce: true });
}

/** Where the database listens, by address: the policy knows no names. A local socket is out of reach anyway. */
async function databaseAddresses(settings: Settings): Promise<{ address: string; port: number }[]> {
  const hosts = (['databaseUrl', 'databaseSessionUrl'] as const).flatMap((name) =>
    settings[name] === ''
      ? []
      : databaseHosts(settings[name]).map((host) => ({ ...host, env: settingDefinitions[name].env })),
  );
  const found = await Promise.all(
    hosts.map(async ({ host, port, env }) => {
      const addresses = await lookup(host, { all: true }).catch((cause: unknown) => {
        throw new UnavailableError('store_unavailable', `${env}: the host ${host} cannot be resolved`, {
          cause,
        });
      });
      return addresses.map(({ address }) => ({ address, port }));
    }),
  );
  return found.flat();
}
