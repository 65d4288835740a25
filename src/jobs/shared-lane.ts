/**
 * Jobs of a lane run on one node at a time, so that they follow each other in order. Where no order is promised that would
 * only starve: with requests coming to two nodes all the time, each finds the lane running on the other one, and
 * what waits in the store is claimed by neither. The jobs of a shared lane run on any node.
 */
export function sharedLane(subject: string): string {
  return `${subject}${mark}`;
}

export function isSharedLane(lane: string): boolean {
  return lane.endsWith(mark);
}

/** Not in any id. */
const mark = '*';
