import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { makeRedactor, type SecretSet } from './redact.ts';

/** What redact-large.ts asks: the texts, searched for the first set, and then for each further one. */
export interface RedactionTask {
  /** Each with a key that names the same values for as long as the thread lives. */
  sets: readonly (SecretSet & { key: number })[];
  texts: readonly string[];
}

/** Patterns of 64 KB of secrets take up to 40 MB. */
const redactorsMax = 8;

// Those who wait for the service go first. On Linux this is the priority of the thread alone.
if (process.platform === 'linux') setPriority(5);

/** In the order of their use. */
const redactors = new Map<number, (text: string) => string>();

/** One task at a time: the other end waits for the answer before it sends the next. */
parentPort?.on('message', ({ sets, texts }: RedactionTask) => {
  const inOrder = sets.map(redactorOf);
  parentPort?.postMessage(texts.map((text) => inOrder.reduce((result, redact) => redact(result), text)));
});

function redactorOf({ key, secrets, marked }: RedactionTask['sets'][number]): (text: string) => string {
  const redact = redactors.get(key) ?? makeRedactor(secrets, marked);
  redactors.delete(key);
  redactors.set(key, redact);
  const [oldest] = redactors.keys();
  if (redactors.size > redactorsMax && oldest !== undefined) redactors.delete(oldest);
  return redact;
}
