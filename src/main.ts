import { readSettings } from '#config/read-settings.ts';
import { systemClock } from '#lib/clock.ts';
import { logFormat, openLog } from '#lib/logger.ts';
import { traceFields } from '#telemetry/span.ts';
import { type RunningApp, startApp } from './app.ts';
import { closeForeignDescriptors } from './close-foreign-descriptors.ts';
import { growExternalMemoryLimit } from './external-memory-limit.ts';
import { startFailure } from './failed-start.ts';
import { releaseStartMemory } from './release-start-memory.ts';
import { startSummary, welcome } from './start-words.ts';

/** The process: settings, start, wait for a signal, orderly stop. Exit codes: 0 stopped, 1 could not start or stop. */

/** Everything must be over by then; whatever is not is given up, and the store brings it back at the next start. */
const stopDeadlineMs = 9_500;
const oldestNode = 26;
/** Rejects a start that a signal interrupts; the stop continues from there. */
const stopReason = new Error('the service is stopping');

const major = Number(process.versions.node.split('.')[0]);
if (major < oldestNode) {
  process.stderr.write(
    `Millrace needs Node ${oldestNode} or newer, found ${process.version}. \`npm start\` uses the one that npm ci brought.\n`,
  );
  process.exit(1);
}
growExternalMemoryLimit();
const foreignDescriptors = closeForeignDescriptors(process.env);
// No other user of the machine may read what the service writes: the store, its backups, keys.
process.umask(0o077);
// A process of the same user could make Node open its debugger with this signal; with a listener it does not.
process.on('SIGUSR1', () => {});
// Files on a full disk, or pipes whose reader has gone, are no reason to end.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});

try {
  const settings = readSettings(process.env);
  const format = logFormat(settings.logFormat, process.stdout);
  const { logger, print } = openLog({
    ...{ level: settings.logLevel, format },
    ...(settings.traceEndpoint === '' ? {} : { fields: traceFields }),
  });
  if (foreignDescriptors.length > 0)
    logger.debug({ descriptors: foreignDescriptors }, 'service.foreign-descriptors-closed');
  const stopping = new AbortController();
  const draining = new AbortController();
  const starting = startApp({
    ...{ settings, logger, clock: systemClock, environment: process.env },
    signal: stopping.signal,
    draining: draining.signal,
  });
  let started: RunningApp | undefined;
  const stop = (signal: string) => {
    if (stopping.signal.aborted) return;
    // The next signal ends the process at once.
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.off(name, drain);
    logger.info({ signal }, 'service.stop-requested');
    setTimeout(() => {
      const waitingFor = started === undefined ? 'start' : started.stopWaitsFor();
      logger.error({ deadlineMs: stopDeadlineMs, waitingFor }, 'service.stop-timed-out');
      process.exit(1);
    }, stopDeadlineMs).unref();
    stopping.abort(stopReason);
    starting
      .then(
        (app) => app.stop(),
        (error) => {
          if (error !== stopReason) throw error;
        },
      )
      .then(
        () => {
          logger.info('service.stopped');
          process.exit(0);
        },
        // A start that failed by itself has reported the reason, and ends the process.
        () => {},
      );
  };
  const drain = (signal: NodeJS.Signals) => {
    const { drainSeconds } = settings;
    if (started === undefined || drainSeconds === 0 || draining.signal.aborted) return stop(signal);
    logger.info({ signal, drainSeconds }, 'service.drain-requested');
    draining.abort();
    setTimeout(() => stop(signal), drainSeconds * 1000);
  };
  // Before it is up: a signal that comes during the start ends it at its next step.
  process.on('SIGTERM', drain);
  process.on('SIGINT', drain);
  const app = await starting;
  started = app;
  const { address, node, store, sandbox, version } = app;
  if (format === 'text') print(startSummary(app, { data: settings.data }));
  else
    logger.info(
      {
        ...{ address, node, store, sandbox: sandbox.level, ownUsers: sandbox.ownUsers, version },
        ...(sandbox.notKernel === undefined ? {} : { notKernel: sandbox.notKernel }),
        ...(sandbox.notDelegated === undefined ? {} : { cgroupsNotDelegated: sandbox.notDelegated }),
      },
      'service.started',
    );
  print(welcome(app, { hasApi: settings.roles.includes('api') }));
  const keepStartMemory = releaseStartMemory(logger);
  stopping.signal.addEventListener('abort', keepStartMemory);
} catch (error) {
  if (error !== stopReason) {
    process.stderr.write(`${startFailure(error as Error, process.env)}\n`);
    process.exit(1);
  }
}
