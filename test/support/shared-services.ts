import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { borrowTestDatabase } from './databases.ts';
import { Millrace } from './millrace.ts';
import { createTempFolder } from './temp-folder.ts';

/** Where a service runs that several test files use, and what it leaves for inspection. */
export interface SharedService {
  readonly url: string;
  readonly dataFolder: string;
  /** Everything it writes to standard output and standard error. */
  readonly logFile: string;
  /** The suite is done with it. */
  release(): Promise<void>;
}

type Dialect = 'sqlite' | 'postgres';
type Places = Partial<Record<Dialect, { url: string; dataFolder: string; logFile: string }>>;

/** Set by `npm test` for the test files: where the services run that it started for all of them. */
const placesVariable = 'MILLRACE_TEST_SERVICES';

/** What the services run with beside what every service under test has: limits that a story reaches, and no other comes near. */
const settings = { MILLRACE_UPLOAD_MAX: '20' };

/** The service on this store that `npm test` started for all files, else one for this suite alone. */
export async function sharedService(dialect: Dialect): Promise<SharedService> {
  const places = JSON.parse(process.env[placesVariable] ?? '{}') as Places;
  const place = places[dialect];
  return place === undefined ? startService(dialect) : { ...place, release: async () => {} };
}

/** Starts a service per store for all test files of a run, and returns the environment variable with their addresses. */
export async function startSharedServices(
  dialects: readonly Dialect[],
): Promise<{ environment: Record<string, string>; stop: () => Promise<void> }> {
  const started = await Promise.all(
    dialects.map(async (dialect) => ({ dialect, service: await startService(dialect) })),
  );
  const places = Object.fromEntries(
    started.map(({ dialect, service: { url, dataFolder, logFile } }) => [
      dialect,
      { url, dataFolder, logFile },
    ]),
  );
  return {
    environment: { [placesVariable]: JSON.stringify(places) },
    stop: async () => {
      await Promise.all(started.map(({ service }) => service.release()));
    },
  };
}

async function startService(dialect: Dialect): Promise<SharedService> {
  const folder = await createTempFolder('shared-service');
  const database = dialect === 'postgres' ? await borrowTestDatabase() : undefined;
  const dataFolder = join(folder.path, 'data');
  const logFile = join(folder.path, 'log');
  await mkdir(dataFolder);
  const service = await Millrace.start({
    dataFolder,
    ...(database === undefined ? {} : { databaseUrl: database.url }),
    environment: settings,
  });
  const log = createWriteStream(logFile);
  log.write(service.output);
  service.process.stdout?.pipe(log, { end: false });
  service.process.stderr?.pipe(log, { end: false });
  return {
    url: service.url,
    dataFolder,
    logFile,
    release: async () => {
      await service.stop();
      log.end();
      await database?.drop();
      await folder.remove();
    },
  };
}
