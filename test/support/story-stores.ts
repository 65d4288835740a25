import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Dialect } from './stores.ts';

const both: readonly Dialect[] = ['sqlite', 'postgres'];

/** 0 or 1, set by `npm test`: on which of the stores each story runs this time. Without it every story runs on both. */
export const turnVariable = 'MILLRACE_TEST_TURN';

/**
 * The stores that a story runs on whose subject is the API, not the store: one of them, the other one in the other turn. The halves of
 * the stories change stores together, so that each turn has stories of every kind on both.
 */
export function storesOfStory(file: string, turn: string | undefined): readonly Dialect[] {
  if (turn === undefined || turn === '') return both;
  const half = createHash('sha256').update(basename(file)).digest().readUInt8() % 2;
  return [both[(half + Number(turn)) % both.length] as Dialect];
}
