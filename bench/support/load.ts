import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * A load generator in a process of its own: a fixed number of keep-alive connections, each sending the next request when
 * the answer to the last one is there. It writes HTTP/1.1 by hand, because a client library would cost as much processor
 * as the server under test on the two cores they share.
 */
export interface LoadOptions {
  url: string;
  connections: number;
  seconds: number;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  /**
   * Body of every request. The first run of 12 zeroes in it is replaced by a number that is different in each request
   * and grows, so that receivers can be asked for losses and duplicates.
   */
  body?: string;
  /** First number for the zeroes in the body. */
  firstNumber?: number;
  /** Requests per second of all connections together; absent: each as fast as it can. */
  perSecond?: number;
}

export interface LoadResult {
  requests: number;
  /** Number of answers by status code; connection failures count under 0. */
  statuses: Record<string, number>;
  seconds: number;
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** The number after the last one that was sent. */
  nextNumber: number;
}

/** A server that stops answering ends the run this long after its planned end. */
const graceMs = 10_000;

export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the load generator ended with ${code}`);
  return JSON.parse(output) as LoadResult;
}

/** Share of answers that were not 2xx, as a text for a table; empty when there were none. */
export function failuresOf(result: LoadResult): string {
  return Object.entries(result.statuses)
    .filter(([status]) => !status.startsWith('2'))
    .map(([status, count]) => `${count} × ${status === '0' ? 'no answer' : status}`)
    .join(', ');
}

async function generate(options: LoadOptions): Promise<LoadResult> {
  const url = new URL(options.url);
  const port = Number(url.port || 80);
  const body = Buffer.from(options.body ?? '');
  const head = [
    `${options.method ?? 'POST'} ${url.pathname}${url.search} HTTP/1.1`,
    `host: ${url.host}`,
    `content-length: ${body.length}`,
    ...Object.entries({ 'content-type': 'application/json', ...options.headers }).map(
      ([name, value]) => `${name}: ${value}`,
    ),
  ];
  const request = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
  const numberAt = request.indexOf('000000000000');
  let next = options.firstNumber ?? 1;
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  const start = performance.now();
  const end = start + options.seconds * 1000;

  let slots = 0;
  /** When the next request is to be sent, at a fixed rate. */
  const takeSlot = (): number => {
    if (options.perSecond === undefined) return 0;
    slots += 1;
    return start + (slots / options.perSecond) * 1000;
  };

  const runConnection = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect({ port, host: url.hostname, noDelay: true });
      const own = Buffer.from(request);
      const parser = new AnswerParser();
      let sentAt = 0;
      let isWaiting = false;
      const giveUp = setTimeout(
        () => socket.destroy(new Error('no answer')),
        options.seconds * 1000 + graceMs,
      );
      const send = (): void => {
        if (performance.now() >= end) {
          socket.end();
          return;
        }
        const slot = takeSlot();
        if (slot > performance.now()) setTimeout(write, slot - performance.now());
        else write();
      };
      const write = (): void => {
        if (numberAt !== -1) own.write(String(next).padStart(12, '0'), numberAt, 'latin1');
        next += 1;
        sentAt = performance.now();
        isWaiting = true;
        socket.write(numberAt === -1 ? own : Buffer.from(own));
      };
      socket.on('connect', send);
      socket.on('data', (chunk: Buffer) => {
        const status = parser.push(chunk);
        if (status === undefined) return;
        isWaiting = false;
        latencies.push(performance.now() - sentAt);
        statuses[status] = (statuses[status] ?? 0) + 1;
        send();
      });
      socket.on('error', () => undefined);
      socket.on('close', () => {
        clearTimeout(giveUp);
        if (isWaiting || sentAt === 0) statuses[0] = (statuses[0] ?? 0) + 1;
        // A server may close a connection; the load continues on another one.
        if (performance.now() < end) setTimeout(() => resolve(runConnection()), 10);
        else resolve();
      });
    });

  await Promise.all(Array.from({ length: options.connections }, runConnection));
  const seconds = (performance.now() - start) / 1000;
  const sorted = Float64Array.from(latencies).sort();
  return {
    requests: latencies.length,
    statuses,
    seconds,
    perSecond: latencies.length / seconds,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: sorted.at(-1) ?? 0,
    nextNumber: next,
  };
}

export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Just enough HTTP to know when the answer to the one request in flight is complete. */
class AnswerParser {
  #buffered: Buffer = Buffer.alloc(0);

  /** The status once the answer is complete. */
  push(chunk: Buffer): number | undefined {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    const headEnd = this.#buffered.indexOf('\r\n\r\n');
    if (headEnd === -1) return undefined;
    const head = this.#buffered.toString('latin1', 0, headEnd).toLowerCase();
    const status = Number(head.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
    if (length !== undefined || status === 204 || status === 304) {
      if (this.#buffered.length < headEnd + 4 + Number(length ?? 0)) return undefined;
    } else if (this.#buffered.subarray(-5).toString('latin1') !== '0\r\n\r\n') {
      return undefined;
    }
    this.#buffered = Buffer.alloc(0);
    return status;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  process.stdout.write(JSON.stringify(await generate(JSON.parse(process.argv[2] ?? '{}') as LoadOptions)));
}
