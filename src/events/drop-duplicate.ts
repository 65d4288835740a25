import { createHash } from 'node:crypto';
import { unreachable } from '#lib/assert.ts';

export type DedupeStrategy = 'unique' | 'greatest' | 'last';

/**
 * Dedupe state of one emitter. Kept as JSON in `emitters.dedupe`; never visible to the component. Lists, and no objects
 * with the channels as keys, because those lose the order of use: keys that look like numbers come first in them.
 */
export interface DedupeState {
  unique?: ByChannel<string[]>;
  greatest?: ByChannel<string>;
  last?: ByChannel<string>;
}

/** The channel used longest ago comes first. */
type ByChannel<V> = [channel: string, value: V][];

/** The state as it is stored; the first stores had objects by channel, and `greatest` had `{id}` for the id. */
export function readDedupeState(json: string): DedupeState {
  const stored = JSON.parse(json) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(stored).map(([strategy, part]) => [strategy, Array.isArray(part) ? part : oldPart(part)]),
  );
}

function oldPart(part: unknown): [string, unknown][] {
  return Object.entries(part ?? {}).map(([channel, value]) => [
    channel,
    typeof value === 'object' && value !== null && 'id' in value ? value.id : value,
  ]);
}

export interface Candidate {
  channel: string;
  id?: string;
  /** SHA-256 (hex) of the whole id, where `id` does not show all of it. */
  idHash?: string;
  idIsNumber?: boolean;
}

/** Ids remembered per channel by `unique`, first in first out (component contract). */
const uniqueIdsMax = 100;
/**
 * Channels remembered per emitter; beyond that the one used longest ago is forgotten. A channel per customer is thinkable,
 * and the state is read and written with every emission.
 */
const channelsMax = 100;
/** Longer ids are remembered by their hash, so that they work and the state stays small. */
const plainIdMax = 64;

/**
 * Pure: which of a run's events pass, given what was emitted before. Events come in the order they are to be emitted
 * (oldest `ts` first). An event without an id always passes; `unidentified` counts those under `unique`.
 */
export function dropDuplicates<C extends Candidate>(
  strategy: DedupeStrategy | undefined,
  state: DedupeState,
  events: readonly C[],
): { kept: C[]; state: DedupeState; unidentified: number } {
  if (strategy === undefined || events.length === 0) return { kept: [...events], state, unidentified: 0 };
  switch (strategy) {
    case 'unique':
      return keepUnique(state, events);
    case 'greatest':
      return keepGreatest(state, events);
    case 'last':
      return keepAfterLast(state, events);
    default:
      return unreachable(strategy);
  }
}

/** What identifies an event among others; undefined without an id. */
function remembered({ id, idHash }: Candidate): string | undefined {
  if (id === undefined || idHash !== undefined) return idHash;
  return id.length <= plainIdMax ? id : createHash('sha256').update(id).digest('hex');
}

function keepUnique<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const seen = new Map(state.unique?.map(([channel, ids]) => [channel, new Set(ids)]));
  let unidentified = 0;
  const kept = events.filter((event) => {
    const id = remembered(event);
    if (id === undefined) {
      unidentified += 1;
      return true;
    }
    const ids = seen.get(event.channel) ?? new Set<string>();
    seen.delete(event.channel);
    seen.set(event.channel, ids);
    if (ids.has(id)) return false;
    ids.add(id);
    for (const oldest of ids) {
      if (ids.size <= uniqueIdsMax) break;
      ids.delete(oldest);
    }
    return true;
  });
  const unique = newestChannels(seen).map(([channel, ids]): [string, string[]] => [channel, [...ids]]);
  return { kept, state: { ...state, unique }, unidentified };
}

function newestChannels<V>(byChannel: ReadonlyMap<string, V>): ByChannel<V> {
  return [...byChannel].slice(-channelsMax);
}

/** Numbers when both are, else text. Ids such as tweets have are longer than a double is exact. */
function isGreater(id: string, than: string): boolean {
  if (isInteger(id) && isInteger(than)) return BigInt(id) > BigInt(than);
  return isNumeric(id) && isNumeric(than) ? Number(id) > Number(than) : id > than;
}

function isInteger(text: string): boolean {
  return /^-?\d{1,100}$/.test(text);
}

function isNumeric(text: string): boolean {
  return text.trim() !== '' && Number.isFinite(Number(text));
}

function keepGreatest<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const greatest = new Map(state.greatest);
  const kept = events.filter((event) => {
    // The number NaN, or an id that is shown only in part, is no mark: it could let nothing pass ever again.
    const isNoNumber = event.idIsNumber === true && !isNumeric(event.id ?? '');
    if (event.id === undefined || event.idHash !== undefined || isNoNumber) return true;
    const mark = greatest.get(event.channel);
    const passes = mark === undefined || isGreater(event.id, mark);
    // The entry is inserted again even if it stays the same, because the channel was used.
    greatest.delete(event.channel);
    greatest.set(event.channel, passes ? event.id : mark);
    return passes;
  });
  return { kept, state: { ...state, greatest: newestChannels(greatest) }, unidentified: 0 };
}

function keepAfterLast<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const last = new Map(state.last);
  const kept: C[] = [];
  for (const [channel, group] of Map.groupBy(events, (event) => event.channel)) {
    const mark = last.get(channel);
    const at = mark === undefined ? -1 : group.findLastIndex((event) => remembered(event) === mark);
    kept.push(...group.slice(at + 1));
    const newest = group.findLast((event) => event.id !== undefined);
    const newestId = newest === undefined ? undefined : remembered(newest);
    if (newestId !== undefined) {
      last.delete(channel);
      last.set(channel, newestId);
    }
  }
  const order = new Map(events.map((event, index) => [event, index]));
  kept.sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
  return { kept, state: { ...state, last: newestChannels(last) }, unidentified: 0 };
}
