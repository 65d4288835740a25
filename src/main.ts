import { readSettings, SettingsError } from '#config/settings.ts';
import { systemClock } from '#lib/clock.ts';
import { logFormat, openLog } from '#lib/logger.ts';
import { startApp } from './app.ts';
import { startSummary, welcome } from './start-words.ts';

/** The process: settings, start, wait for a signal, orderly stop. Exit codes: 0 stopped, 1 could not start or stop. */

/** Everything must be over by then; whatever is not is given up, and the store brings it back at the next start. */
const stopDeadlineMs = 9_500;
const oldestNode = 26;

const major = Number(process.versions.node.split('.')[0]);
if (major < oldestNode) {
  process.stderr.write(
    `Millrace needs Node ${oldestNode} or newer, found ${process.version}. \`npm start\` uses the one that npm ci brought.\n`,
  );
  process.exit(1);
}
// What the service writes is nobody else's to read: the store, its backups, keys.
process.umask(0o077);
// A process of the same user could make Node open its debugger with this signal; with a listener it does not.
process.on('SIGUSR1', () => {});
// Files on a full disk, or pipes whose reader has gone, are no reason to end.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});

try {
  const settings = readSettings(process.env);
  const format = logFormat(settings.logFormat, process.stdout);
  const { logger, print } = openLog({ level: settings.logLevel, format });
  const starting = startApp({ settings, environment: process.env, clock: systemClock, logger });
  const stop = (signal: string) => {
    logger.info({ signal }, 'service.stopping');
    setTimeout(() => {
      logger.error({ deadlineMs: stopDeadlineMs }, 'service.stop-deadline');
      process.exit(1);
    }, stopDeadlineMs).unref();
    void starting
      .then((app) => app.stop())
      .then(() => {
        logger.info('service.stopped');
        process.exit(0);
      });
  };
  // Before it is up: a signal that comes during the start ends it as orderly as any other.
  process.once('SIGTERM', () => stop('SIGTERM'));
  process.once('SIGINT', () => stop('SIGINT'));
  const app = await starting;
  const { address, node, store, sandbox, version } = app;
  if (format === 'text') print(startSummary(app, { data: settings.data }));
  else
    logger.info(
      { address, node, store, sandbox: sandbox.level, ownUsers: sandbox.ownUsers, version },
      'service.ready',
    );
  print(welcome(app, { hasApi: settings.roles.includes('api') }));
} catch (error) {
  const expected = error instanceof SettingsError || (error instanceof Error && isStartError(error));
  process.stderr.write(`${expected ? error.message : (error as Error).stack}\n`);
  process.exit(1);
}

/** Faults a person at the terminal can do something about: the message alone says what. */
function isStartError(error: Error & { code?: unknown }): boolean {
  const named = ['FolderLockedError', 'SchemaError', 'MasterKeyError', 'UnavailableError'].includes(
    error.name,
  );
  return named || error.code === 'EADDRINUSE' || error.code === 'EACCES' || error.code === 'ENOENT';
}
