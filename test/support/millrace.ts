import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { after, before, describe } from 'node:test';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from './databases.ts';
import { endWithProcess } from './end-with-process.ts';
import { programFile } from './program-file.ts';
import { kernelSkip, sandboxOfServices } from './sandbox-level.ts';
import { ServiceClient, testApiKey } from './service-client.ts';
import { type SharedService, sharedService } from './shared-services.ts';
import { storesOfStory, turnVariable } from './story-stores.ts';
import { createTempFolder } from './temp-folder.ts';
import { patienceMs, within } from './wait-for.ts';

export { type ApiAnswer, EventStream, ServiceClient, type TestUser, testApiKey } from './service-client.ts';

/** A busy machine takes ten times longer than an idle one; who waits in vain sees it when the process ends. */
const startPatienceMs = 120_000;

/**
 * Seconds until another node takes over from one that was killed; 15 in production. Long enough for a node of a busy machine to renew
 * its lease in time.
 */
const nodeLeaseSeconds = '5';

export interface MillraceOptions {
  /** The service keeps everything here; the caller removes it. */
  dataFolder: string;
  databaseUrl?: string;
  environment?: Record<string, string>;
  /** Program and arguments that start it, before those of Node. */
  launcher?: readonly string[];
  /** In the place of Node with the sources, such as an installed `millrace`. */
  program?: readonly string[];
}

/** A real service: `node src/main.ts` as a child process on a free port of 127.0.0.1. */
export class Millrace extends ServiceClient {
  readonly process: ChildProcess;
  /** Everything it wrote to standard output so far. */
  output: string;

  private constructor(child: ChildProcess, url: string, output: string) {
    super(url, { key: testApiKey, adminKey: testApiKey });
    this.process = child;
    this.output = output;
    child.stdout?.on('data', (chunk: Buffer) => {
      this.output += chunk;
    });
  }

  static async start(options: MillraceOptions): Promise<Millrace> {
    await kernelSkip();
    const child = Millrace.spawn(options);
    let output = '';
    let errors = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      errors += chunk;
    });
    const ready = new Promise<string>((resolve, reject) => {
      const look = (chunk: Buffer) => {
        output += chunk;
        const address = /Millrace is running at (\S+)/.exec(output)?.[1];
        if (address === undefined) return;
        child.stdout?.off('data', look);
        resolve(address);
      };
      child.stdout?.on('data', look);
      child.once('exit', (code, signal) =>
        reject(new Error(`the service ended with ${code ?? signal}\n${errors}${output}`)),
      );
    });
    const url = await within(ready, startPatienceMs, 'the service to be ready');
    return new Millrace(child, url, output);
  }

  /** Only spawns it, for tests of starts that fail. It never outlives this process. */
  static spawn(options: MillraceOptions): ChildProcess {
    const command = [
      ...(options.launcher ?? []),
      ...(options.program ?? [process.execPath, '--disable-sigusr1', programFile('src/main.ts')]),
    ];
    const child = spawn(command[0] ?? '', command.slice(1), {
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        ...(process.env.TMPDIR === undefined ? {} : { TMPDIR: process.env.TMPDIR }),
        NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        MILLRACE_PORT: '0',
        MILLRACE_DATA: options.dataFolder,
        MILLRACE_API_KEY: testApiKey,
        MILLRACE_EGRESS: 'public,local',
        // Stories have several users, who would not be let in where the kernel level does not work.
        MILLRACE_SANDBOX: sandboxOfServices(),
        MILLRACE_NODE_LEASE: nodeLeaseSeconds,
        // Accounts of tests are not those of real providers.
        MILLRACE_ACCOUNT_CHECK_HOURS: '0',
        ...(options.databaseUrl === undefined ? {} : { MILLRACE_DATABASE_URL: options.databaseUrl }),
        ...options.environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    endWithProcess(child);
    return child;
  }

  /** SIGTERM and the exit code. */
  async stop(): Promise<number | null> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return this.process.exitCode;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    const [code] = (await within(exited, patienceMs, 'the service to stop')) as [number | null];
    return code;
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await exited;
  }
}

export interface ServiceFixture {
  readonly dialect: 'sqlite' | 'postgres';
  /** Only inside tests and hooks. */
  readonly service: Millrace;
  readonly dataFolder: string;
  /** Undefined on SQLite. Only inside tests and hooks. */
  readonly databaseUrl: string | undefined;
  /** Stops (or kills) the service and starts it again on the same data. */
  restart(how?: 'stop' | 'kill'): Promise<void>;
}

export interface SharedServiceFixture {
  readonly dialect: 'sqlite' | 'postgres';
  /** As a user of the suite's own sees it, who has a workspace `Main` and is no admin of the instance. Only inside tests and hooks. */
  readonly service: ServiceClient;
  /** Everything is kept here, also what belongs to other suites. Only inside tests and hooks. */
  readonly dataFolder: string;
  /** What the service logged so far, also about other suites. */
  log(): Promise<string>;
}

/**
 * Runs `suite` on each store, against a service that `npm test` started once for all suites of this kind: for suites that restart
 * nothing, need no settings of their own, and look at nothing but what belongs to their user. A file that is run by itself starts the
 * service for itself, and runs on both stores; in a run of all files it runs on one of them (story-stores.ts).
 */
export function forEachSharedService(suite: (fixture: SharedServiceFixture) => void): void {
  const stores = storesOfStory(process.argv[1] ?? '', process.env[turnVariable]);
  if (stores.includes('sqlite')) describe('on SQLite', () => suite(useSharedService('sqlite')));
  if (stores.includes('postgres'))
    describe('on PostgreSQL', { skip: postgresSkip() }, () => suite(useSharedService('postgres')));
}

/** As `forEachSharedService`, on one store: for suites that ask nothing of the store. Called at the start of a suite. */
export function useSharedService(dialect: 'sqlite' | 'postgres' = 'sqlite'): SharedServiceFixture {
  let shared: SharedService | undefined;
  let service: ServiceClient | undefined;
  const opened = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the service is only there inside tests and hooks');
    return value;
  };
  before(async () => {
    shared = await sharedService(dialect);
    const admin = new ServiceClient(shared.url, { key: testApiKey, adminKey: testApiKey });
    service = admin.as(await admin.createUser('owner'));
    await service.api('POST', '/v1/workspaces', { name: 'Main' });
  });
  after(async () => {
    // Timers of this suite would continue for as long as the others run.
    await service?.deleteEverything();
    await shared?.release();
  });
  return {
    dialect,
    get service() {
      return opened(service);
    },
    get dataFolder() {
      return opened(shared).dataFolder;
    },
    log: () => readFile(opened(shared).logFile, 'utf8'),
  };
}

/**
 * Runs `suite` against a real service of its own on each store; suites that can, use `forEachSharedService`. With `inTurns`, for suites
 * whose subject is not the store, a run of all files has it on one of the stores (story-stores.ts).
 */
export function forEachService(
  suite: (fixture: ServiceFixture) => void,
  options: { environment?: Record<string, string>; inTurns?: boolean } = {},
): void {
  const turn = options.inTurns === true ? process.env[turnVariable] : undefined;
  const stores = storesOfStory(process.argv[1] ?? '', turn);
  if (stores.includes('sqlite')) describe('on SQLite', () => suite(serviceFixture('sqlite', options)));
  if (stores.includes('postgres'))
    describe('on PostgreSQL', { skip: postgresSkip() }, () => suite(serviceFixture('postgres', options)));
}

function serviceFixture(
  dialect: 'sqlite' | 'postgres',
  options: { environment?: Record<string, string> },
): ServiceFixture {
  let service: Millrace | undefined;
  let folder: Awaited<ReturnType<typeof createTempFolder>> | undefined;
  let database: TestDatabase | undefined;
  const start = async () => {
    service = await Millrace.start({
      dataFolder: `${folder?.path}/data`,
      ...(database === undefined ? {} : { databaseUrl: database.url }),
      ...(options.environment === undefined ? {} : { environment: options.environment }),
    });
  };
  before(async () => {
    folder = await createTempFolder('service');
    if (dialect === 'postgres') database = await borrowTestDatabase();
    await start();
  });
  after(async () => {
    await service?.stop();
    await database?.drop();
    await folder?.remove();
  });
  return {
    dialect,
    get service() {
      if (service === undefined) throw new Error('the service is only there inside tests and hooks');
      return service;
    },
    get dataFolder() {
      return `${folder?.path}/data`;
    },
    get databaseUrl() {
      return database?.url;
    },
    async restart(how = 'stop') {
      await (how === 'stop' ? service?.stop() : service?.kill());
      await start();
    },
  };
}
