import type { FlowStep } from './flow-history.ts';

/** Limits that a burst was sent against. */
export interface FlowLimits {
  /** Maximum of each concurrency key. */
  concurrency?: number;
  /** Limit of each throttle key. */
  throttle?: { limit: number; seconds: number };
  /** Maximum of a source, over all keys. */
  places?: number;
  /** Limit of each account, over all workflows and sources. */
  rateLimit?: { limit: number; seconds: number };
  singleton?: true;
  /** True: those with the first places among the waiting runs of a key begin first. */
  inOrder?: true;
}

export interface FlowVerdict {
  /** Limits that were exceeded, and runs that began before others of their key with an earlier place. */
  broken: string[];
  /** Maximum of runs of one key under way, and begun in one period, at any instant. */
  mostUnderWay: number;
  mostInPeriod: number;
  /** Maximum of runs of one source under way, where its own limit is checked. */
  mostAtOnce: number;
  /** Longest time for which runs of a key waited and none of them began. */
  longestSilenceMs: number;
}

/** Goes through the history of a burst step by step, and checks the limits after each of them. */
export function replayFlow(steps: readonly FlowStep[], limits: FlowLimits): FlowVerdict {
  const replay = new FlowReplay(limits);
  // Steps of one transaction have the steps of others between them.
  const lastOf = new Map(steps.map(({ tx }, index) => [tx, index]));
  for (const [index, step] of steps.entries()) {
    replay.take(step);
    if (lastOf.get(step.tx) === index) replay.committed(step.tx);
  }
  return replay.verdict;
}

class FlowReplay {
  readonly verdict: FlowVerdict = {
    broken: [],
    mostUnderWay: 0,
    mostInPeriod: 0,
    mostAtOnce: 0,
    longestSilenceMs: 0,
  };
  readonly #limits: FlowLimits;
  readonly #waiting = new Map<string, Map<string, FlowStep>>();
  readonly #underWay = new Map<string, FlowStep>();
  readonly #held = new Map<string, number>();
  readonly #places = new Map<string, number>();
  readonly #singletons = new Map<string, number>();
  readonly #starts = new Map<string, number[]>();
  /** When a run of a group last began. */
  readonly #begunMs = new Map<string, number>();
  /** The last runs of groups that transactions let begin, by transaction. */
  readonly #lastBegun = new Map<string, Map<string, FlowStep>>();

  constructor(limits: FlowLimits) {
    this.#limits = limits;
  }

  take(step: FlowStep): void {
    if (step.what === 'arrived') this.#arrived(step);
    else if (step.what === 'begun') this.#begun(step);
    else this.#ended(step);
  }

  committed(tx: string): void {
    for (const [group, last] of this.#lastBegun.get(tx) ?? []) {
      const before = [...(this.#waiting.get(group)?.values() ?? [])].find((one) => isBefore(one, last));
      if (before !== undefined)
        this.verdict.broken.push(`run ${last.runId} began before ${before.runId} of its key`);
    }
    this.#lastBegun.delete(tx);
  }

  #arrived(step: FlowStep): void {
    const group = groupOf(step);
    const waiting = this.#waiting.get(group) ?? new Map<string, FlowStep>();
    this.#waiting.set(group, waiting.set(step.runId, step));
  }

  #begun(step: FlowStep): void {
    const { verdict } = this;
    const group = groupOf(step);
    this.#noteSilence(group, step);
    this.#waiting.get(group)?.delete(step.runId);
    if (this.#limits.inOrder === true) this.#noteBegun(group, step);
    if (this.#limits.concurrency !== undefined) {
      const held = this.#count(this.#held, keyOf(step), 1);
      verdict.mostUnderWay = Math.max(verdict.mostUnderWay, held);
      if (held > this.#limits.concurrency) verdict.broken.push(`${held} runs of ${keyOf(step)} under way`);
    }
    this.#underWay.set(step.runId, step);
    if (this.#limits.places !== undefined) {
      const places = this.#count(this.#places, step.subjectId, 1);
      verdict.mostAtOnce = Math.max(verdict.mostAtOnce, places);
      if (places > this.#limits.places) verdict.broken.push(`${places} runs of ${step.subjectId} under way`);
    }
    if (this.#limits.throttle !== undefined)
      this.#startIn(`throttle ${step.subjectId} ${step.throttleKey}`, step, this.#limits.throttle);
    if (this.#limits.rateLimit !== undefined && step.rateKey !== null)
      this.#startIn(`account ${step.rateKey}`, step, this.#limits.rateLimit);
    if (this.#limits.singleton === true && step.singletonKey !== null) {
      const count = this.#count(this.#singletons, step.singletonKey, 1);
      verdict.mostUnderWay = Math.max(verdict.mostUnderWay, count);
      if (count > 1) verdict.broken.push(`${count} runs of singleton ${step.singletonKey} under way`);
    }
  }

  #noteSilence(group: string, { runId, atMs }: FlowStep): void {
    const waiting = this.#waiting.get(group) ?? new Map<string, FlowStep>();
    const firstMs = waiting.values().next().value?.atMs ?? waiting.get(runId)?.atMs ?? atMs;
    const sinceMs = Math.max(firstMs, this.#begunMs.get(group) ?? 0);
    this.verdict.longestSilenceMs = Math.max(this.verdict.longestSilenceMs, atMs - sinceMs);
    this.#begunMs.set(group, atMs);
  }

  #noteBegun(group: string, step: FlowStep): void {
    const begun = this.#lastBegun.get(step.tx) ?? new Map<string, FlowStep>();
    const last = begun.get(group);
    this.#lastBegun.set(step.tx, begun);
    if (last === undefined || isBefore(last, step)) begun.set(group, step);
  }

  #ended({ runId }: FlowStep): void {
    const step = this.#underWay.get(runId);
    if (step === undefined) {
      for (const waiting of this.#waiting.values()) waiting.delete(runId);
      return;
    }
    this.#underWay.delete(runId);
    if (this.#limits.concurrency !== undefined) this.#count(this.#held, keyOf(step), -1);
    if (this.#limits.places !== undefined) this.#count(this.#places, step.subjectId, -1);
    if (this.#limits.singleton === true && step.singletonKey !== null)
      this.#count(this.#singletons, step.singletonKey, -1);
  }

  #startIn(name: string, { atMs }: FlowStep, { limit, seconds }: { limit: number; seconds: number }): void {
    const starts = this.#starts.get(name) ?? [];
    this.#starts.set(name, starts);
    starts.push(atMs);
    const inPeriod = starts.slice(-limit - 1).filter((startMs) => startMs > atMs - seconds * 1000).length;
    this.verdict.mostInPeriod = Math.max(this.verdict.mostInPeriod, inPeriod);
    if (inPeriod > limit) this.verdict.broken.push(`${inPeriod} runs of ${name} within ${seconds} s`);
  }

  #count(counts: Map<string, number>, key: string, change: 1 | -1): number {
    const count = (counts.get(key) ?? 0) + change;
    counts.set(key, count);
    return count;
  }
}

function groupOf({ subjectId, groupKey }: FlowStep): string {
  return `${subjectId} ${groupKey}`;
}

function keyOf({ subjectId, concurrencyKey }: FlowStep): string {
  return `${subjectId} ${concurrencyKey}`;
}

function isBefore(one: FlowStep, other: FlowStep): boolean {
  return one.placeMs === other.placeMs ? one.runId < other.runId : one.placeMs < other.placeMs;
}
