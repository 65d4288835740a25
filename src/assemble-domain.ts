import { deleteOwnerHandler } from '#deletion/delete-owner.ts';
import { ApiRequests } from '#idempotency/api-requests.ts';
import { KeptAnswers } from '#idempotency/kept-answers.ts';
import { importProjectHandler } from '#imports/import-project.ts';
import { ImportManager } from '#imports/manage-imports.ts';
import { AppEvents } from '#ingress/push-app-event.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import { findAvailability } from '#registry/component-availability.ts';
import { updateRepositoryHandler } from '#registry/manage-repositories.ts';
import { ComponentConfigurer } from '#sources/component-configurer.ts';
import { TemplateMaker } from '#workflows/definitions/make-template.ts';
import { ActionRunner } from '#workflows/runs/run-action.ts';
import { StepTrier } from '#workflows/runs/try-step.ts';
import { type Accounts, assembleAccounts } from './assemble-accounts.ts';
import { assembleDelivery, type Deliveries } from './assemble-delivery.ts';
import { assembleDeployers, type Deployers } from './assemble-deployers.ts';
import type { Platform } from './assemble-platform.ts';
import { assemblePruners } from './assemble-pruners.ts';
import { assembleRuns, type Runs } from './assemble-runs.ts';
import { assembleUserData, type UserData } from './assemble-user-data.ts';
import { backgroundJobs } from './background-jobs.ts';

export type Domain = Awaited<ReturnType<typeof assembleDomain>>;

/** The nouns of the product, in the order in which they need each other. Nothing of it runs yet. */
export async function assembleDomain(platform: Platform, parts: RunningParts) {
  const { store, resolver, clock } = platform;
  const userData = await assembleUserData(platform, parts);
  const answers = assembleAnswers(platform);
  const deliveries = assembleDelivery(platform, parts);
  const connected = await assembleAccounts(platform, deliveries);
  const runs = assembleRuns(platform, parts, { ...userData, ...answers, ...deliveries, ...connected });
  const deployers = assembleDeployers(platform, { ...deliveries, ...runs });
  const domain = { ...userData, ...deliveries, ...connected, ...runs, ...deployers };
  return {
    ...{ ...domain, ...answers },
    ...assembleTrials(platform, domain),
    ...assembleJobs(platform, domain),
    templateMaker: new TemplateMaker({ store, resolver, clock }),
    pruners: assemblePruners(platform, domain),
  };
}

/** The answers to requests that may be repeated with their `Idempotency-Key`. */
function assembleAnswers({ settings, store, vault, clock, logger, node }: Platform) {
  const waitMs = settings.runDeadlineSeconds * 1000;
  const keptAnswers = new KeptAnswers({ store, vault, clock, logger, waitMs });
  return { keptAnswers, apiRequests: new ApiRequests({ store, answers: keptAnswers, node, clock, logger }) };
}

/** What runs code that is not deployed, or not yet: single actions, single steps, and the props of components. */
function assembleTrials(platform: Platform, domain: Runs & Deployers) {
  const { settings, store, clock, logger, resolver, runner, quotas, version } = platform;
  const { context, workflowContext, deployments, workflowRuns, workflowDeployer, runSends } = domain;
  const componentConfigurer = new ComponentConfigurer({
    ...{ db: store.read, resolver, runner, context },
    deadlineMs: settings.runDeadlineSeconds * 1000,
    nowMs: () => clock.now(),
  });
  const actionRunner = new ActionRunner({
    ...{ store, clock, logger, resolver, runner },
    context: workflowContext,
    steps: workflowRuns.steps,
    sends: runSends,
    admit: (ownerId) => quotas.check(ownerId),
    ...{ platformVersion: version, shares: platform.shares },
  });
  const stepTrier = new StepTrier({
    ...{ store, clock, context, deployments, runner },
    deployer: workflowDeployer,
    steps: workflowRuns.steps,
    ...{ platformVersion: version, shares: platform.shares },
  });
  return { componentConfigurer, actionRunner, stepTrier };
}

/** Background jobs, and what queues some of them. */
function assembleJobs(platform: Platform, domain: UserData & Deliveries & Accounts & Runs & Deployers) {
  const { settings, store, vault, clock, logger, node, bus, egress, quotas, jobs, pool } = platform;
  const { delivery, queueChanges, accounts, variables, variableChanges } = domain;
  const { sourceRuns, workflowRuns, runSends, sourceDeployer, workflowDeployer } = domain;
  const webhookOptions = {
    ...{ store, vault, clock, policy: egress.policy },
    onChange: (id: string) => delivery.targets.forget(id),
    onJobs: () => pool.poke(),
  };
  const importOptions = {
    ...{ store, node, vault, clock, logger, variables, deployer: workflowDeployer },
    builder: platform.builder,
    sources: sourceDeployer,
    webhooks: webhookOptions,
    findComponent: (key: string, wanted: string, owners: readonly string[]) =>
      findAvailability({ db: store.read, registry: platform.registry }, { key, version: wanted, owners }),
    onVariableChange: variableChanges.tell,
  };
  const appEvents = new AppEvents({
    ...{ store, node, clock, logger, quotas, pool },
    payloadBytesMax: settings.bodyMaxKb * 1024,
    onHeld: queueChanges.tell,
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
      imports: importProjectHandler(importOptions),
      deletions: deleteOwnerHandler({
        ...{ store, db: store.read, node, clock, logger, bus, accounts },
        ...{ sources: sourceDeployer, workflows: workflowDeployer, webhooks: webhookOptions },
        removeContent: domain.fileContents.removeOutside,
      }),
    }),
  );
  return { appEvents, imports: new ImportManager({ ...importOptions, onJobs: () => pool.poke() }) };
}
