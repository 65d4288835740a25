import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Agent, setGlobalDispatcher } from 'undici';
import { tryCpuPriority } from '#runner/cpu-priority.ts';
import { statusOf } from './status-of.ts';

/** So many requests that are kept under way: the next one follows when one was answered. */
export interface GreedyLoad {
  name: string;
  times: number;
  url: string;
  headers: Record<string, string>;
  /** Default: POST. */
  method?: string;
  /** Body of a POST; default: an empty object. */
  body?: string;
  /** A source that is new each time and endless to build, instead of a body. */
  build?: { orgId: string };
  /** What was made is removed at once: by this URL and the id in `data`. */
  removes?: string;
  /** What each caller waits after an answer, ms; default: 100. */
  pauseMs?: number;
}

/** Number of requests by name of the load, status and error. */
export type Outcomes = Record<string, number>;

const usualPauseMs = 100;

/**
 * The callers of a greedy owner, in a process of its own: what they do must not keep the loop busy that measures its neighbour. It has the
 * lowest priority, since callers are on other machines.
 */
export class GreedyClient {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = fork(fileURLToPath(import.meta.url), { detached: true });
    const { pid } = this.#child;
    if (pid !== undefined) tryCpuPriority(pid, 19);
  }

  /** Resolves when the requests can begin. */
  async ready(): Promise<void> {
    await once(this.#child, 'message');
  }

  add(load: GreedyLoad): void {
    this.#child.send(load);
  }

  /** Ends the client. */
  async stop(): Promise<Outcomes> {
    this.#child.send('stop');
    const [outcomes] = (await once(this.#child, 'message')) as [Outcomes];
    this.#child.kill('SIGKILL');
    return outcomes;
  }
}

/** Half a megabyte of source text that is different each time, so that it is built each time, and never evaluated to its end. */
function endless(n: number): string {
  return `const table = [${Array.from({ length: 20_000 }, (_, index) => `{ n: ${n}, i: ${index} }`).join(',')}]; for (;;) table.reverse();
  export default { name: 'endless', version: '0.0.1', props: {}, async run() {} };`;
}

async function ask(load: GreedyLoad, n: number): Promise<Response> {
  const { url, headers, build, method = 'POST', removes } = load;
  const body = build
    ? JSON.stringify({ name: 'endless', org_id: build.orgId, component_code: endless(n) })
    : (load.body ?? '{}');
  const response = await fetch(url, { method, headers, ...(method === 'POST' ? { body } : {}) });
  if (removes === undefined || !response.ok) return response;
  const { data } = (await response.json()) as { data: { id: string } };
  const { authorization = '' } = headers;
  return fetch(`${removes}/${data.id}`, { method: 'DELETE', headers: { authorization } });
}

function serve(): void {
  setPriority(19);
  // Callers wait for minutes.
  setGlobalDispatcher(new Agent({ headersTimeout: 0, bodyTimeout: 0 }));
  const outcomes: Outcomes = {};
  let made = 0;
  const keepUnderWay = async (load: GreedyLoad): Promise<never> => {
    for (;;) {
      made += 1;
      const status = await statusOf(ask(load, made));
      outcomes[`${load.name}: ${status}`] = (outcomes[`${load.name}: ${status}`] ?? 0) + 1;
      await delay(load.pauseMs ?? usualPauseMs);
    }
  };
  process.on('message', (message: GreedyLoad | 'stop') => {
    if (message === 'stop') process.send?.(outcomes);
    else for (let n = 0; n < message.times; n += 1) void keepUnderWay(message);
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.('ready');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) serve();
