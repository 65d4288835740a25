import type { FlowBlock } from '#storage/tables/flow-tables.ts';

/** How many more runs may begin now. */
export interface Room {
  /** By concurrency key and throttle key; a key that is not in it has no limit. */
  concurrency: Map<string, number>;
  throttle: Map<string, number>;
  /** On the account of the rate limit. */
  rate: number;
  /** Maximum of a source, whatever the keys: its own `concurrency`. */
  source: number;
  /** In this transaction. */
  total: number;
}

export interface WaitingGroup {
  groupKey: string;
  concurrencyKey: string;
  throttleKey: string;
  /** Its first runs. */
  runIds: readonly string[];
}

/** What keeps a group from starting one more run now; undefined: nothing. */
export function blockOf(
  { concurrencyKey, throttleKey }: Pick<WaitingGroup, 'concurrencyKey' | 'throttleKey'>,
  room: Room,
): FlowBlock | undefined {
  if ((room.throttle.get(throttleKey) ?? 1) <= 0) return 'throttle';
  if ((room.concurrency.get(concurrencyKey) ?? 1) <= 0) return 'concurrency';
  if (room.rate <= 0) return 'rate_limit';
  return room.source <= 0 ? 'source_concurrency' : undefined;
}

/**
 * Which runs begin: one of each group in turn, in the order of the groups, until nothing more may. So a key with a long queue leaves the
 * others their part of what they share. Takes what it gives out from `room`.
 */
export function sharePlaces(groups: readonly WaitingGroup[], room: Room): Map<string, string[]> {
  const given = new Map<string, string[]>(groups.map(({ groupKey }) => [groupKey, []]));
  let open = groups;
  for (let turn = 0; open.length > 0 && room.total > 0; turn += 1) {
    const still: WaitingGroup[] = [];
    for (const group of open) {
      const runId = group.runIds[turn];
      if (runId === undefined || room.total <= 0 || blockOf(group, room) !== undefined) continue;
      take(room.concurrency, group.concurrencyKey);
      take(room.throttle, group.throttleKey);
      room.rate -= 1;
      room.source -= 1;
      room.total -= 1;
      given.get(group.groupKey)?.push(runId);
      still.push(group);
    }
    open = still;
  }
  return given;
}

/** A run that was to begin does not. */
export function giveBack(
  { concurrencyKey, throttleKey }: Pick<WaitingGroup, 'concurrencyKey' | 'throttleKey'>,
  room: Room,
): void {
  take(room.concurrency, concurrencyKey, -1);
  take(room.throttle, throttleKey, -1);
  room.rate += 1;
  room.source += 1;
}

function take(places: Map<string, number>, key: string, count = 1): void {
  const left = places.get(key);
  if (left !== undefined) places.set(key, left - count);
}

/**
 * How many of the `permits` of an account a workflow or source may take, when others wait for it too: an equal share. With fewer permits than
 * such workflows and sources, those that were served longest ago get one each.
 */
export function shareOfAccount(
  permits: number,
  own: { servedMs: number },
  others: readonly { servedMs: number }[],
): number {
  const all = others.length + 1;
  if (permits >= all) return Math.floor(permits / all);
  const before = others.filter(({ servedMs }) => servedMs < own.servedMs).length;
  return before < permits ? 1 : 0;
}
