import type { JobKind } from '#storage/tables/job-tables.ts';

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

/** True: of the jobs of its lane that a node holds one runs at a time, and the others wait for their turn. */
export function runsInTurn({ kind, lane }: { kind: JobKind; lane: string | null }): boolean {
  return kind === 'run_source' && lane !== null && !isSharedLane(lane);
}

/** Not in any id. */
const mark = '*';
