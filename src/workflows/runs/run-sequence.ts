import {
  type BlockDefinition,
  isStructured,
  positionsIn,
  type StepRange,
} from '#workflows/definitions/block-definition.ts';
import { blockExports, type CaughtError, caughtErrorOf, returnValueOf } from './block-exports.ts';
import type { LiveRun } from './live-run.ts';
import type { EndedStep, Stop } from './run.ts';
import { payloadError, runDataBytesMax, type StepError, type StepPlace } from './run-step.ts';
import type { Strand, StrandWait } from './strand.ts';

/** How a step ended; `stopped`: the run has ended, or is parked. */
export type StepEnd = { kind: 'done'; row: EndedStep } | { kind: 'stopped'; stop: Stop };

/** How the steps of a sequence ended. */
export type SequenceEnd =
  /** `last`: JSON text of the exports of its last step. */
  | { kind: 'done'; last: string }
  /** A filter left the block. */
  | { kind: 'left' }
  /** A step failed for good, and a block around it says what follows. */
  | { kind: 'failed'; error: CaughtError }
  | { kind: 'stopped'; stop: Stop };

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
  /** Ends the run with an error that no step had. */
  fail(live: LiveRun, position: number, error: StepError): Promise<Stop>;
}

/**
 * Walks through the steps of a run and their blocks. It holds no state of its own: what is recorded is passed over, so a run continues
 * where it was, on any node. The results of a block follow from the records of the steps in it.
 */
export class SequenceRunner {
  readonly #steps: StepTurns;

  constructor(steps: StepTurns) {
    this.#steps = steps;
  }

  async run(live: LiveRun, strand: Strand, range: StepRange, isCaught: boolean): Promise<SequenceEnd> {
    let last = '{}';
    for (const position of positionsIn(live.deployment.steps, range)) {
      const step = live.stepAt(position);
      if (step.disabled) continue;
      const end = await this.#step(live, { strand, step, position }, isCaught);
      if (end.kind !== 'done') return end;
      last = end.last;
      strand.finished({ namespace: step.namespace, exports: last });
    }
    return { kind: 'done', last };
  }

  async #step(live: LiveRun, at: StepPlace, isCaught: boolean): Promise<SequenceEnd> {
    const { strand, step, position } = at;
    const wait = strand.parent === undefined ? undefined : live.takeWaitAt(position, strand.iteration);
    let row = live.recordedAt(position, strand.iteration);
    if (row === undefined || wait !== undefined) {
      const end = await this.#steps.run(live, { ...at, isCaught }, wait);
      if (end.kind === 'stopped') return end;
      row = end.row;
    }
    if (row.state === 'caught') return { kind: 'failed', error: caughtErrorOf(row) };
    const { block } = step;
    if (block?.kind === 'filter' && hasLeft(row)) return { kind: 'left' };
    if (block === undefined || !isStructured(block.kind)) return { kind: 'done', last: row.exports };
    return this.#block(live, { ...at, block, row }, isCaught);
  }

  /** Runs what is in a block, whose decision is recorded. */
  async #block(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<SequenceEnd> {
    const { strand, step, block } = at;
    const mark = strand.mark;
    // The steps in the block see what was decided.
    if (block.kind !== 'map') strand.finished({ namespace: step.namespace, exports: at.row.exports });
    const isCaughtHere = isCaught || block.onError !== 'fail';
    const end =
      block.kind === 'map'
        ? await this.#map(live, at, isCaughtHere)
        : block.kind === 'parallel'
          ? await this.#parallel(live, at, isCaughtHere)
          : await this.#choice(live, at, isCaughtHere);
    if (end.kind === 'stopped') return end;
    strand.forgetSince(mark);
    const { result, errors } = end;
    const bytes = strand.bytes + result.length;
    if (bytes > runDataBytesMax) return this.#tooLarge(live, at, bytes, isCaught);
    const [first] = errors;
    if (first === undefined) return { kind: 'done', last: result };
    if (block.onError === 'fail') return { kind: 'failed', error: first };
    if (block.onError === 'continue' || block.error === null) return { kind: 'done', last: result };
    strand.finished({ namespace: step.namespace, exports: result });
    const after = await this.run(live, strand, block.error, isCaught);
    if (after.kind === 'stopped') return after;
    strand.forgetSince(mark);
    if (after.kind === 'failed') return after;
    return { kind: 'done', last: blockExports(result, { $return_value: resultOf(after) }) };
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
    if (end.kind === 'stopped') return end;
    const errors = end.kind === 'failed' ? [end.error] : [];
    const result = blockExports(row.exports, { $return_value: resultOf(end), ...errorsOf(errors) });
    return { kind: 'ended', result, errors };
  }

  async #parallel(live: LiveRun, at: BlockPlace, isCaught: boolean): Promise<BlockEnd> {
    const { strand, block, row } = at;
    const { branches: slugs } = JSON.parse(row.exports) as { branches: string[] };
    const taken = block.branches.filter(({ slug }) => slugs.includes(slug));
    const ends = await together(live, taken.length, taken.length, (index) => {
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
    const ends = await together(live, items.length, block.concurrency, (index) => {
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
  | { kind: 'stopped'; stop: Stop };

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

/**
 * Runs sequences at the same time, at most `limit` of them. As soon as one has ended the run, is parked or throws, none begins, and
 * after an end or an error the steps of the others are stopped. Their ends, in the order of their indexes, or how the run stopped.
 */
async function together(
  live: LiveRun,
  count: number,
  limit: number,
  run: (index: number) => Promise<SequenceEnd> | undefined,
): Promise<SequenceEnd[] | { kind: 'stopped'; stop: Stop }> {
  const ends: SequenceEnd[] = new Array(count);
  const failures: unknown[] = [];
  let next = 0;
  let stop: Stop | undefined;
  const work = async () => {
    while (next < count && stop === undefined && failures.length === 0) {
      const index = next;
      next += 1;
      try {
        const end = (await run(index)) ?? { kind: 'left' };
        ends[index] = end;
        if (end.kind !== 'stopped') continue;
        stop = stop === 'ended' ? stop : end.stop;
      } catch (error) {
        failures.push(error);
      }
      if (stop === 'ended' || failures.length > 0) live.abort.abort();
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, count) }, work));
  if (stop === 'ended') return { kind: 'stopped', stop };
  if (failures.length > 0) throw failures[0];
  return stop === undefined ? ends : { kind: 'stopped', stop };
}
