import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { percentile } from './support/load.ts';

/** What figures are compared with, measured in the same run. */

export interface PlainServer {
  readonly url: string;
  readonly pid: number;
  close(): Promise<void>;
}

/** The ceiling: node:http alone, in a process of its own, that parses the body, calls a function and answers with JSON. */
export function startPlainServer(): Promise<PlainServer> {
  return start('plain-server');
}

/** As little as streaming takes: what is posted is written at once to all readers, in Millrace's message form. */
export function startPlainStreams(): Promise<PlainServer> {
  return start('plain-streams');
}

async function start(which: keyof typeof listeners): Promise<PlainServer> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), which], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const [chunk] = (await Promise.race([
    once(child.stdout, 'data'),
    ended.then(() => {
      throw new Error('the plain server ended');
    }),
  ])) as [Buffer];
  return {
    url: `http://127.0.0.1:${Number(chunk.toString())}/`,
    pid: child.pid ?? 0,
    close: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

const answerPlainly = (): RequestListener => {
  const answer = (body: { number?: unknown }): unknown => ({ ok: true, number: body.number });
  return (request, response) => {
    whenRead(request, (body) => {
      const reply = JSON.stringify(answer(JSON.parse(body) as { number?: unknown }));
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(reply),
      });
      response.end(reply);
    });
  };
};

const streamPlainly = (): RequestListener => {
  const readers = new Set<ServerResponse>();
  let events = 0;
  return (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(':sse-handshake\n\n');
      readers.add(response);
      response.on('close', () => readers.delete(response));
      return;
    }
    whenRead(request, (body) => {
      events += 1;
      const id = `${Date.now()}-${events}`;
      const metadata = `{"emit_id":"${'0'.repeat(27)}","name":"","emitter_id":"dc_000000000000"}`;
      const data = `{"event":${JSON.stringify(JSON.parse(body))},"id":"${id}","indexed_at_ms":${Date.now()},"metadata":${metadata}}`;
      const message = `id: ${id}\ndata: ${data}\n\n`;
      for (const reader of readers) reader.write(message);
      response.end('{"ok":true}');
    });
  };
};

function whenRead(request: IncomingMessage, use: (body: string) => void): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => use(Buffer.concat(chunks).toString()));
}

function serve(listener: RequestListener): void {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1', () => process.stdout.write(String((server.address() as AddressInfo).port)));
  // Ends with its parent, however that ends.
  process.stdin.on('close', () => process.exit(0)).resume();
}

export interface AppendResult {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/**
 * The floor of any durable store here: 1 kB rows into one SQLite table (WAL, synchronous FULL), where appends that
 * arrive while the last commit syncs share the next one. On this thread, without any layer above.
 */
export async function bareGroupCommit(options: {
  folder: string;
  inFlight: number;
  seconds: number;
}): Promise<AppendResult> {
  const db = new DatabaseSync(join(options.folder, `bare-${Date.now()}-${options.inFlight}.db`));
  db.exec(
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT)',
  );
  const insert = db.prepare('INSERT INTO rows (body) VALUES (?)');
  const body = 'x'.repeat(1000);
  let waiting: (() => void)[] = [];
  const commit = (): void => {
    const batch = waiting;
    waiting = [];
    db.exec('BEGIN IMMEDIATE');
    for (let i = 0; i < batch.length; i += 1) insert.run(body);
    db.exec('COMMIT');
    for (const done of batch) done();
  };
  const append = (): Promise<void> =>
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(commit);
      waiting.push(resolve);
    });
  const result = await measureAppends(append, options);
  db.close();
  return result;
}

/** Keeps `inFlight` appends going for `seconds`. */
export async function measureAppends(
  append: () => Promise<unknown>,
  options: { inFlight: number; seconds: number },
): Promise<AppendResult> {
  const latencies: number[] = [];
  const start = performance.now();
  const end = start + options.seconds * 1000;
  const caller = async (): Promise<void> => {
    while (performance.now() < end) {
      const from = performance.now();
      await append();
      latencies.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: options.inFlight }, caller));
  const seconds = (performance.now() - start) / 1000;
  const sorted = Float64Array.from(latencies).sort();
  return {
    perSecond: latencies.length / seconds,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
  };
}

const listeners = { 'plain-server': answerPlainly, 'plain-streams': streamPlainly };

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const listener = listeners[process.argv[2] as keyof typeof listeners];
  serve(listener());
}
