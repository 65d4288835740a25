import { Worker } from 'node:worker_threads';
import { Deferred } from '#lib/deferred.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import { programPath } from '#lib/installation.ts';
import type { Redactor, SecretSet } from './redact.ts';
import type { RedactionTask } from './redact-thread.ts';

/** Texts of an outcome with more characters together are searched in the thread. A smaller one takes up to 5 ms, a hostile one of 5 MB up to 800 ms. */
const smallCharacters = 32 * 1024;
/**
 * The patterns for more characters of secrets are made in the thread only: 250 KB in lines take 30 ms, and 150 ms more when one of them occurs.
 */
const fewSecretCharacters = 16 * 1024;
/** A thread that was idle for this long ends. */
const idleMaxMs = 60_000;

/** Owners take turns, each with the texts of one outcome. */
const turns = new FairQueue(1);

/**
 * `redact` for the texts of one outcome. If they are large, or the secrets are many, they have been searched in a thread, so that nothing
 * else waits for it; any other text is searched when it is asked for.
 */
export async function redactorOfTexts(
  ownerId: string,
  redact: Redactor,
  texts: readonly string[],
): Promise<(text: string) => string> {
  const sets = redact.sets ?? [];
  if (sets.length === 0) return redact;
  const searched = new Set(texts);
  searched.delete('');
  if (searched.size === 0 || (charactersOf(searched) <= smallCharacters && hasFewSecrets(sets)))
    return redact;
  const given = [...searched];
  const answers = await turns.run(ownerId, () => searchInThread(sets, given));
  // The thread was lost, which says nothing about the texts.
  if (answers === undefined) return redact;
  const redacted = new Map(given.map((text, index) => [text, answers[index]]));
  return (text) => redacted.get(text) ?? redact(text);
}

/** One text of any size, redacted. */
export async function redactLarge(ownerId: string, redact: Redactor, text: string): Promise<string> {
  return (await redactorOfTexts(ownerId, redact, [text]))(text);
}

function charactersOf(texts: Iterable<string>): number {
  let characters = 0;
  for (const { length } of texts) characters += length;
  return characters;
}

function hasFewSecrets(sets: readonly SecretSet[]): boolean {
  let characters = 0;
  for (const { secrets, marked } of sets) characters += charactersOf(secrets) + charactersOf(marked);
  return characters <= fewSecretCharacters;
}

const keys = new WeakMap<SecretSet, number>();
let keysGiven = 0;

function keyOf(set: SecretSet): number {
  const known = keys.get(set);
  if (known !== undefined) return known;
  keysGiven += 1;
  keys.set(set, keysGiven);
  return keysGiven;
}

let thread: RedactionThread | undefined;

/** Undefined: the thread did not start, or ended before it answered. */
async function searchInThread(
  sets: readonly SecretSet[],
  texts: readonly string[],
): Promise<string[] | undefined> {
  thread ??= startThread();
  return thread?.search(
    sets.map((set) => ({ ...set, key: keyOf(set) })),
    texts,
  );
}

function startThread(): RedactionThread | undefined {
  try {
    return new RedactionThread((ended) => {
      if (thread === ended) thread = undefined;
    });
  } catch {
    // The system has no thread to give, which the next large text tries again.
    return undefined;
  }
}

/** Does one task at a time. It keeps no process alive that has nothing else to do. */
class RedactionThread {
  readonly #worker = new Worker(programPath('src/vault/redact-thread.ts'), { name: 'redact' });
  readonly #onEnd: (thread: RedactionThread) => void;
  #answer: Deferred<string[] | undefined> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(onEnd: (thread: RedactionThread) => void) {
    this.#onEnd = onEnd;
    this.#worker.on('message', (texts: string[]) => this.#answer?.resolve(texts));
    for (const event of ['error', 'exit'])
      this.#worker.on(event, () => {
        onEnd(this);
        this.#answer?.resolve(undefined);
      });
  }

  async search(sets: RedactionTask['sets'], texts: readonly string[]): Promise<string[] | undefined> {
    clearTimeout(this.#timer);
    this.#answer = new Deferred();
    this.#worker.ref();
    this.#worker.postMessage({ sets, texts } satisfies RedactionTask);
    const answers = await this.#answer.promise;
    this.#worker.unref();
    this.#timer = setTimeout(() => this.#end(), idleMaxMs).unref();
    return answers;
  }

  #end(): void {
    this.#onEnd(this);
    void this.#worker.terminate();
  }
}
