import { type ClaimOptions, firstTurns } from '#jobs/claim-store.ts';

/** Options of a claim by a node with places enough for any owner, and so many for each lane. */
export function placesForAny(laneMax: number): Pick<ClaimOptions, 'places' | 'turns'> {
  return {
    places: {
      areFree: true,
      jobsOf: () => 0,
      roomOf: () => Number.POSITIVE_INFINITY,
      laneMaxOf: () => laneMax,
    },
    turns: firstTurns(),
  };
}
