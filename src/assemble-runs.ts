import { type AddressPolicy, isLoopback } from '#egress/address-policy.ts';
import type { KeptAnswers } from '#idempotency/kept-answers.ts';
import { endpointUrl } from '#ingress/resolve-endpoint.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { SourceRuns } from '#sources/run-source.ts';
import { SourceFlowTarget } from '#sources/source-flow-target.ts';
import { SourceLanes } from '#sources/source-lanes.ts';
import { SourceReplies } from '#sources/source-replies.ts';
import { openValue, sealValue } from '#vault/sealed-values.ts';
import { Deployments, type WorkflowContext } from '#workflows/definitions/load-deployment.ts';
import { answerSourceHostCalls } from '#workflows/runs/run-host-calls.ts';
import { RunService } from '#workflows/runs/run-service.ts';
import { createMailServer } from '#workflows/sends/send-email.ts';
import { RunSends } from '#workflows/sends/send-from-run.ts';
import type { Accounts } from './assemble-accounts.ts';
import type { Deliveries } from './assemble-delivery.ts';
import type { Platform } from './assemble-platform.ts';
import type { UserData } from './assemble-user-data.ts';

export type Runs = ReturnType<typeof assembleRuns>;

/** What runs of sources and workflows are made of: the deployments that are loaded, the engine of each, and what it sends at the end. */
export function assembleRuns(
  platform: Platform,
  parts: RunningParts,
  domain: UserData & Accounts & Deliveries & { keptAnswers: KeptAnswers },
) {
  const context = contextOf(platform, domain);
  const loaded = loadedCode(platform, parts, { ...domain, context });
  const engines = assembleEngines(platform, { ...domain, ...loaded });
  observeProcesses(platform, engines);
  return { context, ...loaded, ...engines, runSends: assembleSends(platform, parts, domain) };
}

/** What a deployment needs to be run: the URL of its endpoint, credentials of accounts, and secret props in clear. */
function contextOf(
  { settings, store, vault, clock, publicUrl }: Platform,
  { accounts }: Pick<Accounts, 'accounts'>,
): DeploymentContext {
  return {
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
}

/** Deployments in memory, which are forgotten when an account or a variable of theirs changes. */
function loadedCode(
  { store, clock }: Platform,
  parts: RunningParts,
  domain: UserData & Accounts & { context: DeploymentContext },
) {
  const { context, variables, variableChanges, accountChanges } = domain;
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
  return { lanes, deployments, workflowContext };
}

function assembleEngines(
  platform: Platform,
  domain: UserData & Deliveries & ReturnType<typeof loadedCode> & { keptAnswers: KeptAnswers },
) {
  const { settings, clock, logger, version, publicUrl, store, node, tracer } = platform;
  const { runner, bus, quotas, pool, outcomes } = platform;
  const { lanes, deployments, keptAnswers, hostCalls, router, workflows, delivery, queueChanges } = domain;
  const sourceReplies = new SourceReplies({ store, node, clock, logger });
  const sourceRuns = new SourceRuns({
    ...{ store, runner, bus, router, clock, logger, node, lanes, outcomes },
    replies: sourceReplies,
    keptReplies: keptAnswers,
    hostCalls: answerSourceHostCalls(hostCalls),
    pool,
    onFlowEnded: queueChanges.tell,
    allowance: quotas,
    limits: {
      deadlineMs: settings.runDeadlineSeconds * 1000,
      memoryMb: settings.runMemoryMb,
      componentDbBytesMax: settings.componentDbMaxKb * 1024,
    },
  });
  const workflowRuns = new RunService({
    ...{ store, bus, router, clock, logger, node, runner, deployments, pool, outcomes },
    ...{ hostCalls, keptAnswers, activeOwners: platform.activeOwners },
    mayRun: (ownerId) => quotas.mayRun(ownerId),
    allowance: quotas,
    inboundUrl: () => `${publicUrl()}/in`,
    platformVersion: version,
    settingsOf: async (workflowId) => (await workflows.find(workflowId))?.settings,
    ...{ tracer, runsKept: settings.runsKept },
    sourceFlow: new SourceFlowTarget({ store, clock }),
    onReplaced: (jobId) => sourceRuns.replaced(jobId),
  });
  queueChanges.observe((sourceId) => workflowRuns.flow.poke(sourceId));
  delivery.deliverToWorkflows(workflowRuns.starter);
  return { sourceReplies, sourceRuns, workflowRuns };
}

/** What processes report about code whose run has ended, and the end of code that is removed. */
function observeProcesses(
  { unattributedErrors, bus, runner, logger }: Platform,
  { sourceRuns, workflowRuns }: ReturnType<typeof assembleEngines>,
): void {
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
}

function assembleSends(
  { settings, egress, store, node, clock, bus, outcomes, version }: Platform,
  parts: RunningParts,
  {
    receivers,
    router,
    objectStorage,
  }: Pick<Deliveries, 'receivers' | 'router'> & Pick<UserData, 'objectStorage'>,
): RunSends {
  const mail =
    settings.smtpUrl === ''
      ? undefined
      : createMailServer({
          ...{ url: settings.smtpUrl, from: settings.emailFrom, ...egress.trust },
          ...(isMailByProxy(settings, egress.policy) ? { proxy: settings.egressProxy } : {}),
        });
  parts.add('outgoing mail', () => mail?.close());
  return new RunSends({
    ...{ store, node, clock, bus, router, outcomes, mail },
    http: { dispatcher: receivers, version },
    objects: objectStorage && { ...objectStorage, ownBucket: settings.filesBucket },
  });
}

/** The mail server is named by the operator and dialled by name, so its address is not vetted. */
function isMailByProxy(settings: Platform['settings'], { proxy }: AddressPolicy): boolean {
  const host = new URL(settings.smtpUrl).hostname.replace(/^\[|\]$/g, '');
  return proxy !== undefined && host !== 'localhost' && !isLoopback(host) && !proxy.passes(host, host);
}
