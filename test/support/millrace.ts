import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe } from 'node:test';
import { createTestDatabase, postgresSkip, type TestDatabase } from './databases.ts';
import { programFile } from './program-file.ts';
import { createTempFolder } from './temp-folder.ts';
import { waitFor, within } from './wait-for.ts';

/** A busy machine takes ten times longer than an idle one; who waits in vain sees it when the process ends. */
const startPatienceMs = 120_000;

const mainFile = programFile('src/main.ts');

/** The API key of the first user of every service under test. */
export const testApiKey = 'test-key-0123456789abcdefghij';

export interface ApiAnswer {
  status: number;
  headers: Headers;
  /** The parsed JSON body; undefined when there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  body: any;
}

export interface MillraceOptions {
  /** The service keeps everything here; the caller removes it. */
  dataFolder: string;
  databaseUrl?: string;
  environment?: Record<string, string>;
}

/** A real service: `node src/main.ts` as a child process on a free port of 127.0.0.1. */
export class Millrace {
  readonly url: string;
  readonly process: ChildProcess;
  /** Everything it wrote to standard output so far. */
  output: string;

  private constructor(child: ChildProcess, url: string, output: string) {
    this.process = child;
    this.url = url;
    this.output = output;
    child.stdout?.on('data', (chunk: Buffer) => {
      this.output += chunk;
    });
  }

  static async start(options: MillraceOptions): Promise<Millrace> {
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

  /** Only spawns it, for tests of starts that fail. */
  static spawn(options: MillraceOptions): ChildProcess {
    return spawn(process.execPath, ['--disable-sigusr1', mainFile], {
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        MILLRACE_PORT: '0',
        MILLRACE_DATA: options.dataFolder,
        MILLRACE_API_KEY: testApiKey,
        MILLRACE_EGRESS: 'public,local',
        // Accounts of tests are not those of real providers.
        MILLRACE_ACCOUNT_CHECK_HOURS: '0',
        ...(options.databaseUrl === undefined ? {} : { MILLRACE_DATABASE_URL: options.databaseUrl }),
        ...options.environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async api(
    method: string,
    path: string,
    body?: unknown,
    options: { key?: string; headers?: Record<string, string> } = {},
  ): Promise<ApiAnswer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${options.key ?? testApiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(text),
    };
  }

  /** Creates a source from code (or another reference) and answers it; fails with the answer when it is not 200. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into sources of every shape.
  async createSource(source: Record<string, unknown>): Promise<any> {
    const answer = await this.api('POST', '/v1/sources/', source);
    if (answer.status !== 200)
      throw new Error(`POST /v1/sources/: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  /** Creates an active workflow and answers it; fails with the answer when it is not 200. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into workflows of every shape.
  async createWorkflow(workflow: { settings?: object; [field: string]: unknown }): Promise<any> {
    const { settings, ...rest } = workflow;
    const answer = await this.api('POST', '/v1/workflows', {
      ...rest,
      settings: { name: 'under test', auto_deploy: true, ...settings },
    });
    if (answer.status !== 200)
      throw new Error(`POST /v1/workflows: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  /** Runs of a workflow, newest first. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into runs of every shape.
  async runs(workflowId: string, query = ''): Promise<any[]> {
    const answer = await this.api('GET', `/v1/workflows/${workflowId}/runs?limit=100${query}`);
    if (answer.status !== 200) throw new Error(`runs: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  /** A run with its steps. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into runs of every shape.
  async runDetail(runId: string): Promise<any> {
    const answer = await this.api('GET', `/v1/runs/${runId}`);
    if (answer.status !== 200) throw new Error(`run: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  /** The newest run of a workflow once it is in one of these states. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into runs of every shape.
  async runInState(workflowId: string, ...states: string[]): Promise<any> {
    const found = await waitFor(
      async () => (await this.runs(workflowId)).slice(0, 1).find((run) => states.includes(run.state)),
      { what: `a run of ${workflowId} to be ${states.join(' or ')}` },
    );
    return this.runDetail(found.id);
  }

  /** Full events of a source, newest first. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape.
  async events(sourceId: string, query = ''): Promise<any[]> {
    const answer = await this.api(
      'GET',
      `/v1/sources/${sourceId}/event_summaries?expand=event&limit=100${query}`,
    );
    if (answer.status !== 200)
      throw new Error(`event_summaries: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  /** Opens the event stream of a source; resolves after the handshake. */
  async stream(
    sourceId: string,
    options: { lastEventId?: string; query?: string } = {},
  ): Promise<EventStream> {
    return EventStream.open(`${this.url}/sources/${sourceId}/sse${options.query ?? ''}`, options.lastEventId);
  }

  /** SIGTERM and the exit code. */
  async stop(): Promise<number | null> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return this.process.exitCode;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    const [code] = (await within(exited, 30_000, 'the service to stop')) as [number | null];
    return code;
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await exited;
  }
}

export interface StreamMessage {
  event: string;
  id: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape.
  data: any;
}

/** A reader of server-sent events that keeps every message. */
export class EventStream {
  readonly messages: StreamMessage[] = [];
  comments = 0;
  /** Resolves when the service ended the stream. */
  readonly ended: Promise<void>;
  readonly #abort: AbortController;
  readonly #waiting: { ready: () => boolean; resolve: () => void }[] = [];

  private constructor(body: ReadableStream<Uint8Array>, abort: AbortController) {
    this.#abort = abort;
    this.ended = this.#read(body);
  }

  static async open(url: string, lastEventId?: string, key = testApiKey): Promise<EventStream> {
    const abort = new AbortController();
    const response = await fetch(url, {
      headers: {
        authorization: `Bearer ${key}`,
        ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      },
      signal: abort.signal,
    });
    if (response.status !== 200 || response.body === null)
      throw new Error(`stream: ${response.status} ${await response.text()}`);
    const stream = new EventStream(response.body, abort);
    await stream.until(() => stream.comments > 0, 'the handshake');
    return stream;
  }

  /** Waits for the n-th message (1 is the first). */
  async message(n: number): Promise<StreamMessage> {
    await this.until(() => this.messages.length >= n, `message ${n}`);
    const message = this.messages[n - 1];
    if (message === undefined) throw new Error(`no message ${n}`);
    return message;
  }

  async until(ready: () => boolean, what: string): Promise<void> {
    if (ready()) return;
    await within(new Promise<void>((resolve) => this.#waiting.push({ ready, resolve })), 30_000, what);
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    let rest = '';
    try {
      for await (const chunk of body.pipeThrough(
        new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>,
      )) {
        rest += chunk;
        const parts = rest.split('\n\n');
        rest = parts.pop() ?? '';
        for (const part of parts) this.#take(part);
        for (const waiting of this.#waiting) if (waiting.ready()) waiting.resolve();
      }
    } catch {
      // Closed by the test, or cut off: what came is in `messages`.
    }
  }

  #take(part: string): void {
    const message: StreamMessage = { event: 'message', id: undefined, data: undefined };
    for (const line of part.split('\n')) {
      if (line.startsWith(':')) this.comments += 1;
      else if (line.startsWith('id: ')) message.id = line.slice(4);
      else if (line.startsWith('event: ')) message.event = line.slice(7);
      else if (line.startsWith('data: ')) message.data = JSON.parse(line.slice(6));
    }
    if (message.data !== undefined) this.messages.push(message);
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

/** Runs `suite` against a real service on each store. */
export function forEachService(
  suite: (fixture: ServiceFixture) => void,
  options: { environment?: Record<string, string> } = {},
): void {
  describe('on SQLite', () => suite(serviceFixture('sqlite', options)));
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
    if (dialect === 'postgres') database = await createTestDatabase();
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
