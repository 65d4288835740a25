import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { percentile } from './load.ts';

/**
 * Readers of an event stream in a process of their own, which check what they get. Each event says when it was sent and
 * its number, as `sentFields` writes them. They read HTTP/1.1 by hand: a client library for a thousand readers would
 * cost more processor than the server under test.
 */
export interface ReaderOptions {
  url: string;
  readers: number;
  headers: Record<string, string>;
}

export interface ReaderResult {
  deliveries: number;
  /** Over all readers: events that never came, that came again, and that came with an id that is not above the last. */
  lost: number;
  duplicated: number;
  disordered: number;
  /** Streams that ended by themselves. */
  ended: number;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** Processor time of the readers themselves: near one core, they are what is measured. */
  cpuUs: number;
}

export interface StreamReaders {
  /** Waits until every reader has `events` events, or `timeoutMs` have passed; then they are gone. */
  finish(events: number, timeoutMs: number): Promise<ReaderResult>;
}

/** The beginning of the JSON of an event; times are those of one clock of the machine, in microseconds. */
export function sentFields(number: number, sentUs: number): string {
  return `"number":"${String(number).padStart(12, '0')}","sent":"${String(sentUs).padStart(16, '0')}"`;
}

/** CLOCK_MONOTONIC: the same in all processes. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Resolves when all streams are open. */
export async function openReaders(options: ReaderOptions): Promise<StreamReaders> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit').then(() => {
    throw new Error('the readers ended');
  });
  ended.catch(() => undefined);
  const answer = async <T>(): Promise<T> => ((await Promise.race([once(child, 'message'), ended])) as [T])[0];
  await answer();
  return {
    finish: async (events, timeoutMs) => {
      const result = answer<ReaderResult>();
      child.send({ events, timeoutMs });
      try {
        return await result;
      } finally {
        child.kill('SIGKILL');
      }
    },
  };
}

const numberField = Buffer.from('"number":"');
/** The id of the event, which all streams have in the data. */
const idField = Buffer.from('"id":"');
const openTimeoutMs = 30_000;

/** Counts what one reader gets. */
class Reader {
  readonly seen = new Set<number>();
  duplicated = 0;
  disordered = 0;
  readonly #onLatency: (us: number) => void;
  #lastMs = 0;
  #lastSeq = 0;
  #rest: Buffer | undefined;

  constructor(onLatency: (us: number) => void) {
    this.#onLatency = onLatency;
  }

  /** Whole messages are looked at where they are; only what is cut off is copied. */
  push(bytes: Buffer, receivedUs: number): void {
    const text = this.#rest === undefined ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = undefined;
    let at = 0;
    for (;;) {
      const end = text.indexOf('\n\n', at);
      if (end === -1) break;
      const field = text.indexOf(numberField, at);
      if (field !== -1 && field < end) this.#take(text, field + numberField.length, receivedUs);
      at = end + 2;
    }
    if (at < text.length) this.#rest = Buffer.from(text.subarray(at));
  }

  #take(text: Buffer, field: number, receivedUs: number): void {
    const number = Number(text.toString('latin1', field, field + 12));
    const sentAt = field + '000000000000","sent":"'.length;
    this.#onLatency(receivedUs - Number(text.toString('latin1', sentAt, sentAt + 16)));
    if (this.seen.has(number)) this.duplicated += 1;
    this.seen.add(number);
    const idAt = text.indexOf(idField, sentAt) + idField.length;
    const [ms, seq] = text.toString('latin1', idAt, text.indexOf('"', idAt)).split('-');
    const isNext = Number(ms) > this.#lastMs || (Number(ms) === this.#lastMs && Number(seq) > this.#lastSeq);
    if (!isNext) this.disordered += 1;
    this.#lastMs = Number(ms);
    this.#lastSeq = Number(seq);
  }
}

async function read(options: ReaderOptions): Promise<void> {
  const url = new URL(options.url);
  const head = Object.entries({ host: url.host, accept: 'text/event-stream', ...options.headers });
  const request = [
    `GET ${url.pathname}${url.search} HTTP/1.1`,
    ...head.map(([name, value]) => `${name}: ${value}`),
    '\r\n',
  ].join('\r\n');
  let latencies = new Float64Array(1 << 20);
  let deliveries = 0;
  const onLatency = (us: number): void => {
    if (deliveries === latencies.length) {
      const longer = new Float64Array(latencies.length * 2);
      longer.set(latencies);
      latencies = longer;
    }
    latencies[deliveries] = us / 1000;
    deliveries += 1;
  };
  const readers: Reader[] = [];
  let ended = 0;
  const open = (): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const reader = new Reader(onLatency);
      readers.push(reader);
      let opening: string | undefined = '';
      const socket: Socket = connect({
        port: Number(url.port),
        host: url.hostname,
        // One buffer for all: what is read is looked at before the next read.
        onread: {
          buffer: shared,
          callback: (size, buffer) => {
            const bytes = Buffer.from(buffer.buffer, buffer.byteOffset, size);
            if (opening === undefined) {
              reader.push(bytes, nowUs());
              return true;
            }
            opening += bytes.toString('latin1');
            if (!opening.includes(':sse-handshake\n\n')) return true;
            if (!opening.startsWith('HTTP/1.1 200')) reject(new Error(opening.split('\r\n')[0]));
            opening = undefined;
            resolve(socket);
            return true;
          },
        },
      });
      socket.on('error', reject);
      socket.on('close', () => {
        ended += 1;
        reject(new Error(`a stream ended: ${opening}`));
      });
      socket.write(request);
    });
  const shared = Buffer.alloc(1 << 16);
  // A few at a time: a listen queue has an end.
  const sockets: Socket[] = [];
  while (sockets.length < options.readers) {
    const some = Math.min(50, options.readers - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: some }, open))));
  }
  const cpuBefore = process.cpuUsage();
  process.send?.('open');
  const [{ events, timeoutMs }] = (await once(process, 'message')) as [{ events: number; timeoutMs: number }];
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline && readers.some(({ seen }) => seen.size < events))
    await new Promise((resolve) => setTimeout(resolve, 50));
  const cpu = process.cpuUsage(cpuBefore);
  const sorted = latencies.subarray(0, deliveries).sort();
  const sum = (of: (reader: Reader) => number): number =>
    readers.reduce((total, reader) => total + of(reader), 0);
  const result: ReaderResult = {
    deliveries,
    lost: sum(({ seen }) => events - seen.size),
    duplicated: sum((reader) => reader.duplicated),
    disordered: sum((reader) => reader.disordered),
    ended,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: sorted.at(-1) ?? 0,
    cpuUs: cpu.user + cpu.system,
  };
  process.send?.(result);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const giveUp = setTimeout(() => {
    console.error('the streams did not open');
    process.exit(1);
  }, openTimeoutMs);
  process.on('disconnect', () => process.exit(0));
  const reading = read(JSON.parse(process.argv[2] ?? '{}') as ReaderOptions);
  process.once('message', () => clearTimeout(giveUp));
  await reading;
}
