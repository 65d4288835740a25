import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { patienceMs, waitFor, within } from './wait-for.ts';

/** The API key of the first user of every service under test, who is the admin of the instance. */
export const testApiKey = 'test-key-0123456789abcdefghij';

export interface ApiAnswer {
  status: number;
  headers: Headers;
  /** The parsed JSON body; undefined when there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  body: any;
}

/** A user that a test has made, with the first API key. */
export interface TestUser {
  id: string;
  username: string;
  email: string;
  key: string;
}

/** A service under test as one user sees it: the API with that user's key. */
export class ServiceClient {
  readonly url: string;
  /** Sent with every request that names no other. */
  readonly key: string;
  readonly #adminKey: string;

  constructor(url: string, keys: { key: string; adminKey: string }) {
    this.url = url;
    this.key = keys.key;
    this.#adminKey = keys.adminKey;
  }

  /**
   * Creates a user whose name begins with `name`; as the admin of the instance, whichever user this client is. The rest of the name is
   * random: other tests have their users on the same service.
   */
  async createUser(name: string): Promise<TestUser> {
    const username = `${name}-${randomBytes(4).toString('hex')}`;
    const email = `${username}@example.com`;
    const made = await this.api('POST', '/v1/users', { username, email }, { key: this.#adminKey });
    if (made.status !== 200) throw new Error(`POST /v1/users: ${made.status} ${JSON.stringify(made.body)}`);
    return { id: made.body.data.id, username, email, key: made.body.data.api_key };
  }

  /** The same service as the admin of the instance sees it, with what belongs to the admin. */
  get admin(): ServiceClient {
    return this.as({ key: this.#adminKey });
  }

  /** The same service as another user sees it. */
  as(user: Pick<TestUser, 'key'>): ServiceClient {
    return new ServiceClient(this.url, { key: user.key, adminKey: this.#adminKey });
  }

  /** Deletes the sources and workflows of this user and of the user's workspaces. */
  async deleteEverything(): Promise<void> {
    const me = await this.api('GET', '/v1/users/me');
    const owners = [
      '/v1/users/me',
      ...me.body.data.orgs.map(({ id }: { id: string }) => `/v1/workspaces/${id}`),
    ];
    for (const owner of owners) {
      for (const kind of ['workflows', 'sources']) {
        for (;;) {
          const { status, body } = await this.api('GET', `${owner}/${kind}?limit=100&include=id`);
          if (status !== 200 || body.data.length === 0) break;
          const ids: string[] = body.data.map(({ id }: { id: string }) => id);
          for (const id of ids) await this.api('DELETE', `/v1/${kind}/${id}`);
        }
      }
    }
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
        authorization: `Bearer ${options.key ?? this.key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    // Exports are JSON lines: an array of what they hold.
    const isLines = response.headers.get('content-type')?.startsWith('application/x-ndjson') ?? false;
    const json = isLines ? `[${text.trimEnd().replaceAll('\n', ',')}]` : text;
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(json),
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
    return EventStream.open(
      `${this.url}/sources/${sourceId}/sse${options.query ?? ''}`,
      options.lastEventId,
      this.key,
    );
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

  /**
   * The access that the stream was opened with has ended: it ends because of that, not when it looks by itself, which it does with
   * each comment that keeps the connection alive.
   */
  async assertEndsWithAccess(): Promise<void> {
    const { comments } = this;
    await within(this.ended, patienceMs, 'the end of the stream');
    assert.deepEqual(this.messages.at(-1)?.data, { reason: 'access ended' });
    assert.equal(this.comments, comments, 'it has ended when it looked by itself');
  }

  async until(ready: () => boolean, what: string): Promise<void> {
    if (ready()) return;
    await within(new Promise<void>((resolve) => this.#waiting.push({ ready, resolve })), patienceMs, what);
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
