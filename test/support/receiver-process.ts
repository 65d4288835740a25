import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { endWithProcess } from './end-with-process.ts';
import { patienceMs, within } from './wait-for.ts';

/** One request, as the receiver noted it before it answered. */
export interface NotedRequest {
  path: string;
  webhookId: string;
  body: string;
}

/** A receiver in a process of its own, which can be killed between noting a request and answering it. */
export class ReceiverProcess {
  readonly noted: NotedRequest[] = [];
  #child: ChildProcess | undefined;
  readonly #answerAfterMs: number;
  #port = 0;

  /** `answerAfterMs`: a slow receiver lets deliveries wait for their turn in the service. */
  constructor(options: { answerAfterMs?: number } = {}) {
    this.#answerAfterMs = options.answerAfterMs ?? 0;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Starts it, after a kill on the same port. */
  async start(): Promise<void> {
    const options = [this.#port, this.#answerAfterMs].map(String);
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url), ...options], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    endWithProcess(child);
    this.#child = child;
    const listening = Promise.withResolvers<number>();
    createInterface({ input: child.stdout }).on('line', (line) => {
      const message = JSON.parse(line) as { port: number } | NotedRequest;
      if ('port' in message) listening.resolve(message.port);
      else this.noted.push(message);
    });
    child.once('exit', () => listening.reject(new Error('the receiver ended')));
    this.#port = await within(listening.promise, patienceMs, 'the receiver to listen');
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

function serve(port: number, answerAfterMs: number): void {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const noted = {
        path: request.url,
        webhookId: request.headers['webhook-id'],
        body: Buffer.concat(chunks).toString(),
      };
      // On its way to the test before the answer is: what was answered is known.
      process.stdout.write(`${JSON.stringify(noted)}\n`, () => {
        setTimeout(() => response.writeHead(200).end(), answerAfterMs);
      });
    });
  });
  server.listen(port, '127.0.0.1', () => {
    process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
  });
  // Ends with its parent, however that ends.
  process.stdin.on('close', () => process.exit(0)).resume();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  serve(Number(process.argv[2]), Number(process.argv[3]));
