import type { RunStepTable, WaitKind } from '#storage/tables/workflow-tables.ts';
import type { BlockDeadline } from './block-deadline.ts';
import type { RunResumption } from './run.ts';

/** What a strand waits for. */
export interface StrandWait {
  kind: WaitKind;
  position: number;
  resumption: RunResumption;
  /** Epoch ms. */
  untilMs: number;
}

/**
 * Steps of a run that run one after the other: those of the run itself, of a branch of a parallel block, or for one
 * item of a map. It knows which exports its next step sees.
 */
export class Strand {
  /** Undefined for the strand of the run itself, which keeps its waits in the row of the run. */
  readonly parent: Strand | undefined;
  /** Indexes of the items of the maps around it, as `3` or `3-17`; '' outside of maps. */
  readonly iteration: string;
  /** Numbers of the attempts of the blocks with retries around its next step, as `2` or `2-1`; '' outside of such blocks. */
  attempt: string;
  /** What it waited for before its next step; null: it did not wait. */
  waited: StrandWait | null = null;
  /** The time limit of the innermost block around its next step that has one. */
  deadline: BlockDeadline | undefined;
  /** Failures of the next step so far. */
  failures = 0;
  /** JSON text of `steps` without its last brace, up to the exports of this strand. */
  readonly #above: string;
  /** JSON text of the exports of each step that has ended, by namespace, in order. */
  readonly #exports = new Map<string, string>();
  #bytes: number;

  constructor(options: {
    above: string;
    bytes: number;
    iteration?: string;
    parent?: Strand;
  }) {
    this.#above = options.above;
    this.#bytes = options.bytes;
    this.iteration = options.iteration ?? '';
    this.parent = options.parent;
    this.attempt = options.parent?.attempt ?? '';
    this.deadline = options.parent?.deadline;
  }

  /** A strand that begins here and sees what this one does. `item`: what a map exports while it runs for one item. */
  child(item?: { index: number; namespace: string; exports: string }): Strand {
    const parts = [this.#text()];
    if (item !== undefined) parts.push(`"${item.namespace}":${item.exports}`);
    const before = this.iteration === '' ? '' : `${this.iteration}-`;
    return new Strand({
      above: parts.join(','),
      bytes: this.#bytes + (item?.exports.length ?? 0),
      iteration: item === undefined ? this.iteration : `${before}${item.index}`,
      parent: this,
    });
  }

  /** A step or block has succeeded: later steps see its exports. */
  finished({ namespace, exports }: Pick<RunStepTable, 'namespace' | 'exports'>): void {
    this.#bytes += exports.length - (this.#exports.get(namespace)?.length ?? 0);
    this.#exports.set(namespace, exports);
  }

  /** How many steps are seen: `forgetSince` takes back those after it. */
  get mark(): number {
    return this.#exports.size;
  }

  /** A block has ended: what its steps exported is not seen after it. */
  forgetSince(mark: number): void {
    for (const namespace of [...this.#exports.keys()].slice(mark)) {
      this.#bytes -= this.#exports.get(namespace)?.length ?? 0;
      this.#exports.delete(namespace);
    }
  }

  /** Counts the tries of a step in one attempt of the blocks around it, from 1: those before it failed, or asked to be run again. */
  tryAt(position: number): number {
    const reruns = this.waited?.position === position ? (this.waited.resumption.run?.runs ?? 1) - 1 : 0;
    return 1 + this.failures + reruns;
  }

  /** The run that a `call` block at this position has begun, and waits for; undefined: none. */
  calledAt(position: number): RunResumption['called'] {
    return this.waited?.position === position && this.waited.kind === 'call'
      ? this.waited.resumption.called
      : undefined;
  }

  /** Bytes of the event and of all exports that are seen. */
  get bytes(): number {
    return this.#bytes;
  }

  /** JSON text of `steps`: `trigger`, and the exports that the next step sees. */
  stepsJson(): string {
    return `${this.#text()}}`;
  }

  get exports(): ReadonlyMap<string, string> {
    return this.#exports;
  }

  #text(): string {
    let text = this.#above;
    for (const [namespace, exports] of this.#exports) text += `,"${namespace}":${exports}`;
    return text;
  }
}
