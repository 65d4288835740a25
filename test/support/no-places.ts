import type { TickPool } from '#schedule/source-ticks.ts';

/** A pool without room: what it is told about waits in the store. */
export function noPlaces(poke: () => void = () => {}): TickPool {
  return {
    node: 'n_none',
    lanes: { hasOthers: false },
    placesLeft: 0,
    failedHere: new Set(),
    hasRoom: () => false,
    run: () => {},
    poke,
  };
}
