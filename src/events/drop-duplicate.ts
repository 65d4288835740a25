import { createHash } from 'node:crypto';

export type DedupeStrategy = 'unique' | 'greatest' | 'last';

/** Dedupe state of one emitter, by channel. Kept as JSON in `emitters.dedupe`; never visible to the component. */
export interface DedupeState {
  unique?: Record<string, string[]>;
  greatest?: Record<string, { id: string; number: boolean }>;
  last?: Record<string, string>;
}

export interface Candidate {
  channel: string;
  id?: string;
  idIsNumber?: boolean;
}

/** Ids remembered per channel by `unique`, first in first out (component contract). */
const uniqueIdsMax = 100;
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
  }
}

function remembered(id: string): string {
  return id.length <= plainIdMax ? id : createHash('sha256').update(id).digest('hex');
}

function keepUnique<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const seen = new Map<string, Set<string>>();
  for (const [channel, ids] of Object.entries(state.unique ?? {})) seen.set(channel, new Set(ids));
  let unidentified = 0;
  const kept = events.filter((event) => {
    if (event.id === undefined) {
      unidentified += 1;
      return true;
    }
    const ids = seen.get(event.channel) ?? new Set();
    seen.set(event.channel, ids);
    const id = remembered(event.id);
    if (ids.has(id)) return false;
    ids.add(id);
    for (const oldest of ids) {
      if (ids.size <= uniqueIdsMax) break;
      ids.delete(oldest);
    }
    return true;
  });
  const unique = Object.fromEntries([...seen].map(([channel, ids]) => [channel, [...ids]]));
  return { kept, state: { ...state, unique }, unidentified };
}

function isGreater(id: string, isNumber: boolean, than: { id: string; number: boolean }): boolean {
  const bothNumbers = (isNumber && than.number) || (isNumeric(id) && isNumeric(than.id));
  return bothNumbers ? Number(id) > Number(than.id) : id > than.id;
}

function isNumeric(text: string): boolean {
  return text.trim() !== '' && Number.isFinite(Number(text));
}

function keepGreatest<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const greatest = new Map(Object.entries(state.greatest ?? {}));
  const kept = events.filter((event) => {
    if (event.id === undefined) return true;
    const number = event.idIsNumber === true;
    const mark = greatest.get(event.channel);
    if (mark !== undefined && !isGreater(event.id, number, mark)) return false;
    greatest.set(event.channel, { id: event.id, number });
    return true;
  });
  return { kept, state: { ...state, greatest: Object.fromEntries(greatest) }, unidentified: 0 };
}

function keepAfterLast<C extends Candidate>(state: DedupeState, events: readonly C[]) {
  const last = new Map(Object.entries(state.last ?? {}));
  const kept: C[] = [];
  for (const [channel, group] of Map.groupBy(events, (event) => event.channel)) {
    const mark = last.get(channel);
    const at =
      mark === undefined
        ? -1
        : group.findLastIndex((event) => event.id !== undefined && remembered(event.id) === mark);
    kept.push(...group.slice(at + 1));
    const newest = group.findLast((event) => event.id !== undefined);
    if (newest?.id !== undefined) last.set(channel, remembered(newest.id));
  }
  const order = new Map(events.map((event, index) => [event, index]));
  kept.sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
  return { kept, state: { ...state, last: Object.fromEntries(last) }, unidentified: 0 };
}
