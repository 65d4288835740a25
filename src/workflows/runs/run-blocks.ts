import {
  type BlockDefinition,
  isStructured,
  positionsIn,
  type StepRange,
} from '#workflows/definitions/block-definition.ts';
import { attemptAfter, attemptIn } from './block-attempts.ts';
import { BlockDeadline } from './block-deadline.ts';
import { blockExports, type CaughtError, caughtErrorOf, returnValueOf } from './block-exports.ts';
import { ItemPlaces } from './item-places.ts';
import type { LiveRun } from './live-run.ts';
import type { EndedStep, Stop } from './run.ts';
import { ownRetryWaitMs } from './run-retries.ts';
import { payloadError, runDataBytesMax, type StepError, type StepPlace } from './run-step.ts';
import { type SequenceEnd, together } from './run-together.ts';
import type { Strand, StrandWait } from './strand.ts';

/** How a step ended; `stopped`: the run has ended, or is parked; `expired`: the time of a block around it is over. */
export type StepEnd =
  | { kind: 'done'; row: EndedStep }
  | { kind: 'stopped'; stop: Stop }
  | { kind: 'expired'; deadline: BlockDeadline };

export interface StepTurns {
  /**
   * Runs a step that is not recorded yet, or waits (`wait`), until it is recorded as ended. `isCaught`: a block says what follows
   * when it fails.
   */
  run(
    live: LiveRun,
    at: StepPlace & { isCaught: boolean },
    wait: (StrandWait & { failures: number }) | undefined,
  ): Promise<StepEnd>;
  /** Records that an attempt of a block has failed. The next one begins after a wait, with the decision of the block. */
  failAttempt(live: LiveRun, at: FailedAttempt): Promise<AttemptEnd>;
  /** Records that the time of a block is over, and ends the waits in it; the run too, unless the error `isCaught`. */
  expire(live: LiveRun, at: ExpiredBlock): Promise<StepEnd>;
  /** Ends the run with an error that no step had. */
  fail(live: LiveRun, position: number, error: StepError): Promise<Stop>;
}

/** What follows after a failed attempt of a block; `waits`: its strand, until the next one. */
export type AttemptEnd =
  | { kind: 'stopped'; stop: Stop }
  | { kind: 'waits'; wait: StrandWait & { failures: number } };

/** A block that has failed and is run again. */
export interface FailedAttempt extends StepPlace {
  block: BlockDefinition;
  /** The record of its decision. */
  row: EndedStep;
  error: CaughtError;
  /** How often it has failed, this time included. */
  failures: number;
  /** Until its next attempt. */
  waitMs: number;
}

/** A block whose time is over. */
export interface ExpiredBlock extends StepPlace {
  block: BlockDefinition;
  /** The record of its decision. */
  row: EndedStep;
  isCaught: boolean;
}

/**
 * Walks through the steps of a run and their blocks. It holds nothing of a run: what is recorded is passed over, so a run continues
 * where it was, on any node. The results of a block follow from the records of the steps in it.
 */
export class SequenceRunner {
  readonly #steps: StepTurns;
  readonly #now: () => number;
  readonly #places = new ItemPlaces();

  constructor(steps: StepTurns, now: () => number) {
    this.#steps = steps;
    this.#now = now;
  }

  async run(live: LiveRun, strand: Strand, range: StepRange, isCaught: boolean): Promise<SequenceEnd> {
    let last = '{}';
    for (const position of positionsIn(live.deployment.steps, range)) {
      const step = live.stepAt(position);
      if (step.disabled) continue;
      const at = { strand, step, position };
      const wait = strand.parent === undefined ? undefined : live.takeWaitAt(position, strand.iteration);
      let end = await this.#try(live, at, { isCaught, wait });
      while (end.kind === 'again') {
        const next = await this.#steps.failAttempt(live, end.failed);
        end = next.kind === 'stopped' ? next : await this.#try(live, at, { isCaught, wait: next.wait });
      }
      if (end.kind !== 'done') return end;
      last = end.last;
      strand.finished({ namespace: step.namespace, exports: last });
    }
    return { kind: 'done', last };
  }

  /** A step, or one attempt of a block. */
  async #try(
    live: LiveRun,
    at: StepPlace,
    { isCaught, wait }: { isCaught: boolean; wait: (StrandWait & { failures: number }) | undefined },
  ): Promise<SequenceEnd | FailedBlock> {
    const { strand, step, position } = at;
    let row = live.recordedAt(position, strand);
    if (row === undefined || wait !== undefined) {
      const end = await this.#steps.run(live, { ...at, isCaught }, wait);
      if (end.kind !== 'done') return end;
      row = end.row;
    } else if (isWaitOver(strand, position)) {
      const deadline = strand.deadline?.expired;
      if (deadline !== undefined) return { kind: 'expired', deadline };
    }
    const { block } = step;
    const isBlock = block !== undefined && isStructured(block.kind);
    if (row.state === 'caught' && !(isBlock && isOfBlock(row)))
      return { kind: 'failed', error: caughtErrorOf(row) };
    if (block?.kind === 'filter' && hasLeft(row)) return { kind: 'left' };
    if (!isBlock) return { kind: 'done', last: row.exports };
    return this.#block(live, { ...at, block, row }, isCaught);
  }

  /** Runs what is in a block, whose decision is recorded. */
  async #block(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<SequenceEnd | FailedBlock> {
    const { strand, step, block, position } = at;
    const mark = strand.mark;
    const failures = live.failuresAt(position, strand) + 1;
    const retryMs = step.retries === undefined ? undefined : ownRetryWaitMs(step.retries, failures);
    // The steps in the block see what was decided.
    if (block.kind !== 'map') strand.finished({ namespace: step.namespace, exports: at.row.exports });
    const isCaughtHere = isCaught || block.onError !== 'fail' || retryMs !== undefined;
    const end =
      at.row.state === 'caught'
        ? expiredEnd(at.row)
        : await this.#withinTime(live, at, {
            isCaught: isCaughtHere,
            mark,
            isRetried: retryMs !== undefined,
          });
    if (end.kind !== 'ended') return end;
    strand.forgetSince(mark);
    const { result, errors } = end;
    if (errors[0] !== undefined && retryMs !== undefined)
      return { kind: 'again', failed: { ...at, error: errors[0], failures, waitMs: retryMs } };
    const bytes = strand.bytes + result.length;
    if (bytes > runDataBytesMax) return this.#tooLarge(live, at, bytes, isCaught);
    const [first] = errors;
    if (first === undefined) return { kind: 'done', last: result };
    if (block.onError === 'fail') return { kind: 'failed', error: first };
    if (block.onError === 'continue' || block.error === null) return { kind: 'done', last: result };
    strand.finished({ namespace: step.namespace, exports: result });
    const after = await this.run(live, strand, block.error, isCaught);
    if (after.kind === 'stopped' || after.kind === 'expired') return after;
    strand.forgetSince(mark);
    if (after.kind === 'failed') return after;
    return { kind: 'done', last: blockExports(result, { $return_value: resultOf(after) }) };
  }

  /** Runs the steps in a block until its time is over. `isRetried`: another attempt follows when it fails. */
  async #withinTime(
    live: LiveRun,
    at: BlockPlace,
    { isCaught, mark, isRetried }: { isCaught: boolean; mark: number; isRetried: boolean },
  ): Promise<BlockEnd> {
    const { strand, step, block, row } = at;
    if (block.timeoutSeconds === undefined) return this.#attempt(live, at, isCaught);
    const outer = strand.deadline;
    const deadline = new BlockDeadline({
      outer,
      untilMs: Math.max(row.started_at_ms, live.begunAtMs) + block.timeoutSeconds * 1000,
      now: this.#now,
      signal: live.abort.signal,
    });
    strand.deadline = deadline;
    let end: BlockEnd;
    try {
      end = await this.#attempt(live, at, isCaught);
    } finally {
      strand.deadline = outer;
      deadline.stop();
    }
    if (end.kind !== 'expired' || end.deadline !== deadline) return end;
    if (isRetried)
      return {
        kind: 'ended',
        result: '{}',
        errors: [{ ...timeError(step, block), namespace: step.namespace }],
      };
    strand.forgetSince(mark);
    const recorded = await this.#steps.expire(live, { ...at, isCaught });
    return recorded.kind === 'done' ? expiredEnd(recorded.row) : recorded;
  }

  /** Runs the steps in a block. Their records say in which attempt of it they ran. */
  async #attempt(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    const { strand, step, position } = at;
    if (step.retries === undefined) return this.#inside(live, at, isCaught);
    const outer = strand.attempt;
    strand.attempt = attemptIn(outer, attemptAfter(step.retries, live.failuresAt(position, strand)));
    try {
      return await this.#inside(live, at, isCaught);
    } finally {
      strand.attempt = outer;
    }
  }

  #inside(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    if (at.block.kind === 'map') return this.#map(live, at, isCaught);
    if (at.block.kind === 'parallel') return this.#parallel(live, at, isCaught);
    return this.#choice(live, at, isCaught);
  }

  async #tooLarge(live: LiveRun, at: BlockPlace, bytes: number, isCaught: boolean): Promise<SequenceEnd> {
    const { step, position } = at;
    const error = payloadError(`the results of block ${step.namespace}`, bytes);
    if (isCaught) return { kind: 'failed', error: { ...error, namespace: step.namespace } };
    return { kind: 'stopped', stop: await this.#steps.fail(live, position, { ...error, stack: '' }) };
  }

  /** if and switch: the steps of one branch, in the strand of the block. */
  async #choice(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    const { strand, block, row } = at;
    const { branch: slug } = JSON.parse(row.exports) as { branch: string | null };
    const branch = block.branches.find((one) => one.slug === slug);
    const end: SequenceEnd =
      branch === undefined ? { kind: 'left' } : await this.run(live, strand, branch, isCaught);
    if (end.kind === 'stopped' || end.kind === 'expired') return end;
    const errors = end.kind === 'failed' ? [end.error] : [];
    const result = blockExports(row.exports, { $return_value: resultOf(end), ...errorsOf(errors) });
    return { kind: 'ended', result, errors };
  }

  async #parallel(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    const { strand, block, row } = at;
    const { branches: slugs } = JSON.parse(row.exports) as { branches: string[] };
    const taken = block.branches.filter(({ slug }) => slugs.includes(slug));
    const ends = await together(live, { count: taken.length, limit: taken.length }, (index) => {
      const branch = taken[index];
      return branch === undefined ? undefined : this.run(live, strand.child(), branch, isCaught);
    });
    if (!Array.isArray(ends)) return ends;
    const errors = ends.flatMap((end) => (end.kind === 'failed' ? [end.error] : []));
    const values = taken.map(({ slug }, index): [string, unknown] => {
      const end = ends[index];
      if (end?.kind === 'failed') return [slug, { $error: end.error }];
      return [slug, end?.kind === 'done' ? JSON.parse(end.last) : {}];
    });
    const result = blockExports(row.exports, {
      $return_value: Object.fromEntries(values),
      ...errorsOf(errors),
    });
    return { kind: 'ended', result, errors };
  }

  /** The steps of a map, once for each item, some items at a time. The results keep the order of the items. */
  async #map(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    const { strand, step, block, row } = at;
    const { items } = JSON.parse(row.exports) as { items: unknown[] };
    const [body] = block.branches;
    const sequences = { count: items.length, limit: block.concurrency, places: this.#places };
    const ends = await together(live, sequences, (index) => {
      if (body === undefined) return undefined;
      const exports = `{"item":${JSON.stringify(items[index])},"index":${index}}`;
      const item = strand.child({ index, namespace: step.namespace, exports });
      return this.run(live, item, body, isCaught);
    });
    if (!Array.isArray(ends)) return ends;
    const errors = ends.flatMap((end, index) => (end.kind === 'failed' ? [{ index, ...end.error }] : []));
    const result = blockExports('{}', {
      count: items.length,
      $return_value: ends.map(resultOf),
      ...errorsOf(errors),
    });
    return { kind: 'ended', result, errors };
  }
}

/** A block whose decision is recorded. */
interface BlockPlace extends StepPlace {
  block: BlockDefinition;
  row: EndedStep;
}

/** `result`: JSON text of the exports of the block. */
type BlockEnd =
  | { kind: 'ended'; result: string; errors: readonly CaughtError[] }
  | { kind: 'expired'; deadline: BlockDeadline }
  | { kind: 'stopped'; stop: Stop };

/** An attempt of a block has failed, and another one follows. */
interface FailedBlock {
  kind: 'again';
  failed: FailedAttempt;
}

/** The error of a block whose time is over. */
export function timeError(
  { namespace }: Pick<StepPlace['step'], 'namespace'>,
  { timeoutSeconds }: BlockDefinition,
): Pick<StepError, 'code' | 'msg'> {
  return { code: 'Timeout', msg: `block ${namespace} did not end within ${timeoutSeconds} seconds` };
}

/** The end of a block whose time was over; `row`: the record that says so. */
function expiredEnd(row: EndedStep): BlockEnd {
  const errors = [caughtErrorOf(row)];
  const decided = (JSON.parse(row.exports) as { items?: unknown[] }).items === undefined ? row.exports : '{}';
  return {
    kind: 'ended',
    result: blockExports(decided, { $return_value: null, ...errorsOf(errors) }),
    errors,
  };
}

/** True when the time of the block was over, false when its decision failed. */
function isOfBlock({ error }: EndedStep): boolean {
  return (JSON.parse(error ?? '{}') as Partial<StepError>).ofBlock === true;
}

/** True when the run's own strand waited at a later step, and that wait ended without an answer. */
function isWaitOver({ waited }: Strand, position: number): boolean {
  return waited?.position === position && waited.resumption.request === undefined;
}

/** What a sequence gives to the block around it; null where it gives nothing. */
function resultOf(end: SequenceEnd): unknown {
  return end.kind === 'done' ? returnValueOf(end.last) : null;
}

function errorsOf(errors: readonly CaughtError[]): object {
  const [first] = errors;
  return first === undefined ? {} : { $error: first, $errors: errors };
}

function hasLeft({ exports }: EndedStep): boolean {
  return (JSON.parse(exports) as { passed?: unknown }).passed === false;
}
