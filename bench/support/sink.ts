import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * A receiver in a process of its own that verifies what it gets: bodies carry `"number":"000000000123"`, and for each path
 * it knows which numbers came, how often, and in which order. It reads HTTP/1.1 by hand, as the load generator writes it.
 */
export interface Sink {
  readonly url: string;
  report(path: string): Promise<SinkReport>;
  close(): Promise<void>;
}

export interface SinkReport {
  received: number;
  distinct: number;
  duplicates: number;
  /** Came after a higher number. */
  outOfOrder: number;
  highest: number;
  /** From the first to the last request. */
  seconds: number;
  /** The last ten thousand latencies in ms, of bodies that say when they were sent (`"sent"`, epoch ms). */
  latencies: number[];
}

export async function startSink(): Promise<Sink> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const [chunk] = (await Promise.race([
    once(child.stdout, 'data'),
    ended.then(() => {
      throw new Error('the sink ended');
    }),
  ])) as [Buffer];
  const url = `http://127.0.0.1:${Number(chunk.toString())}`;
  return {
    url,
    report: async (path) =>
      (await (
        await fetch(`${url}/report${path}`, { headers: { connection: 'close' } })
      ).json()) as SinkReport,
    close: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

class PathRecord {
  received = 0;
  outOfOrder = 0;
  highest = 0;
  readonly times = new Map<number, number>();
  latencies: number[] = [];
  firstMs = 0;
  lastMs = 0;

  take(number: number, sentMs: number | undefined): void {
    const nowMs = performance.now();
    if (sentMs !== undefined) {
      this.latencies.push(performance.timeOrigin + nowMs - sentMs);
      if (this.latencies.length > 20_000) this.latencies = this.latencies.slice(-10_000);
    }
    if (this.received === 0) this.firstMs = nowMs;
    this.lastMs = nowMs;
    this.received += 1;
    if (number < this.highest) this.outOfOrder += 1;
    else this.highest = number;
    this.times.set(number, (this.times.get(number) ?? 0) + 1);
  }

  report(): SinkReport {
    return {
      received: this.received,
      distinct: this.times.size,
      duplicates: this.received - this.times.size,
      outOfOrder: this.outOfOrder,
      highest: this.highest,
      seconds: (this.lastMs - this.firstMs) / 1000,
      latencies: this.latencies,
    };
  }
}

const noContent = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n');

function serve(): void {
  const records = new Map<string, PathRecord>();
  const answer = (socket: Socket, head: string, body: Buffer): void => {
    const path = head.slice(head.indexOf(' ') + 1, head.indexOf(' HTTP/'));
    if (path.startsWith('/report')) {
      const text = JSON.stringify((records.get(path.slice('/report'.length)) ?? new PathRecord()).report());
      socket.end(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      );
      return;
    }
    const record = records.get(path) ?? new PathRecord();
    records.set(path, record);
    const at = body.indexOf('"number":"');
    const sent = /"sent":([\d.]+)/.exec(body.toString('latin1', 0, 100))?.[1];
    record.take(
      Number(body.toString('latin1', at + 10, at + 22)),
      sent === undefined ? undefined : Number(sent),
    );
    socket.write(noContent);
  };
  const server = createServer({ noDelay: true }, (socket) => {
    let buffered: Buffer = Buffer.alloc(0);
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
      for (;;) {
        const headEnd = buffered.indexOf('\r\n\r\n');
        if (headEnd === -1) return;
        const head = buffered.toString('latin1', 0, headEnd);
        const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        const end = headEnd + 4 + length;
        if (buffered.length < end) return;
        answer(socket, head, buffered.subarray(headEnd + 4, end));
        buffered = buffered.subarray(end);
        if (buffered.length === 0) return;
      }
    });
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    process.stdout.write(String(typeof address === 'object' ? address?.port : 0));
  });
  // Ends with its parent, however that ends.
  process.stdin.on('close', () => process.exit(0)).resume();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) serve();
