import type { TimeLeft } from '#lib/running-parts.ts';
import { RunningParts } from '#lib/running-parts.ts';
import { checkMasterKey } from '#vault/check-master-key.ts';
import { assembleDomain, type Domain } from './assemble-domain.ts';
import { assembleEdges, type Edges } from './assemble-edges.ts';
import { type AppOptions, assemblePlatform, type Platform } from './assemble-platform.ts';
import type { StartedService } from './start-words.ts';

/** A running service. */
export interface RunningApp extends StartedService {
  /** Stops accepting, finishes or gives back what is under way, closes the store. May be called twice. */
  stop(): Promise<void>;
  /** The part whose stop is waited for now. */
  stopWaitsFor(): string | undefined;
  /** What runs, in the order of its start; the stop has the reverse order. */
  parts: readonly string[];
}

/** Runs under way get this long from the beginning of a stop; the rest is given back and runs after the next start. */
const stopGraceMs = 6_000;
/** And requests this long, counted from the same moment: those who wait for a run are answered when it is given back. */
const requestGraceMs = 7_000;
/**
 * After this time each remaining part gets about 20 ms. The store and the lock of the data folder are not cut short: they have the last second and
 * a half before `main.ts` gives up.
 */
const partsLimitMs = 8_000;

/**
 * Puts the service together: the platform (store, sandbox, builder), the domain (sources, runs, deliveries) and the edges (HTTP, mail). All parts
 * stop in the reverse order of their start. Some run from when they are made; the files `assemble-*.ts` add these. `RunningApp.parts` has all names in
 * order, and app.test.ts shows them.
 *
 * A stop begins with the drain (`main.ts`): for `drainSeconds`, `/readyz` tells balancers to send no more requests here, and all else runs as before.
 * Then the parts stop: mail and HTTP, the scheduler, pruners, runs and deliveries together, requests that waited for them, connections and clocks, and
 * last the store, the sandbox and the lock of the data folder.
 */
export async function startApp(options: AppOptions): Promise<RunningApp> {
  const { logger, signal } = options;
  const running = new RunningParts({ logger, limitMs: partsLimitMs });
  try {
    const platform = await assemblePlatform(options, running);
    const domain = await assembleDomain(platform, running);
    const edges = await assembleEdges(platform, domain);
    for (const part of partsInOrder(platform, domain, edges)) {
      signal?.throwIfAborted();
      // Also what fails half-way is stopped.
      running.add(part.name, (timeLeft) => part.stop?.(timeLeft));
      await part.start?.();
    }
    const { address, node, first, store, runner, version } = platform;
    return {
      ...{
        address: address.localUrl,
        node,
        firstStart: first,
        store: store.name,
        sandbox: runner.stats(),
        version,
      },
      stop: () => running.stop(),
      stopWaitsFor: () => running.waitingFor,
      parts: running.names,
    };
  } catch (error) {
    await running.stop();
    throw error;
  }
}

interface Part {
  name: string;
  start?: () => unknown;
  stop?: (timeLeft: TimeLeft) => unknown;
}

/** The parts that start when everything is made: from the top to the bottom. They stop from the bottom to the top, before what they need is closed. */
function partsInOrder(platform: Platform, domain: Domain, edges: Edges): Part[] {
  const { has, store, vault, pool } = platform;
  const { delivery, accounts, actionRunner, sourceReplies, keptAnswers, sourceDeployer, scheduler, dueSoon } =
    domain;
  const { workflowRuns, fileBucket, unnamedBucket } = domain;
  const { apiRequests } = domain;
  const { server, streams, dashboardPages, startMail } = edges;
  let mail: { close(): Promise<void> } | undefined;
  return [
    // Stops after the requests, so that how they ended is stored.
    { name: 'repeated requests', stop: () => apiRequests.stop() },
    // Requests wait for runs, so the runs have to end before them.
    { name: 'requests', stop: () => server.answered() },
    {
      name: 'runs and deliveries',
      async start() {
        sourceReplies.start();
        await pool.start();
        if (has('worker')) workflowRuns.flow.start();
        // Again, now that a rotation of the key sees this node and will not begin.
        await checkMasterKey(store.read, vault);
        await delivery.dispatcher.start();
        // Again: lanes of a node that is gone are free when its deliveries are.
        await pool.recover();
      },
      // Together, since each needs the others: a run emits events, a delivery starts a run, a run waits for a token. One grace for all of them.
      async stop(timeLeft) {
        const graceMs = timeLeft(stopGraceMs);
        await Promise.all([
          workflowRuns.flow.stop(),
          pool.stop(graceMs),
          delivery.dispatcher.stop(graceMs),
          accounts.stop(graceMs),
          actionRunner.stop(graceMs),
        ]);
        sourceReplies.stop();
        keptAnswers.stop();
        await pool.releaseLanes();
      },
    },
    {
      name: 'file bucket',
      async start() {
        fileBucket?.keeper.start();
        await unnamedBucket?.start();
      },
      stop: () => fileBucket?.keeper.stop(),
    },
    { name: 'source deployer', start: () => sourceDeployer.start(), stop: () => sourceDeployer.stop() },
    ...Object.entries(domain.pruners).map(([name, pruner]) => ({
      name: `${name} pruner`,
      start: () => pruner.start(),
      stop: () => pruner.stop(),
    })),
    // They stop with the runs, which wait for their tokens.
    { name: 'accounts', start: () => accounts.start({ keeps: has('worker') }) },
    {
      name: 'scheduler',
      start: () => (has('scheduler') ? scheduler.start() : undefined),
      stop: () => scheduler.stop(),
    },
    {
      name: 'timers due soon',
      start: () => (has('worker') ? dueSoon.start() : undefined),
      stop: () => dueSoon.stop(),
    },
    { name: 'dashboard build', stop: () => dashboardPages.stop() },
    {
      name: 'HTTP server',
      start: () => server.listen(),
      stop: (timeLeft) => {
        server.stopListening(timeLeft(requestGraceMs));
        streams.close();
      },
    },
    {
      name: 'mail server',
      async start() {
        mail = await startMail?.();
      },
      stop: () => mail?.close(),
    },
  ];
}
