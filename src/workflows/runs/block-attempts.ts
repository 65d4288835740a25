import type { RunStepTable } from '#storage/tables/workflow-tables.ts';
import { type BlockDefinition, isStructured } from '#workflows/definitions/block-definition.ts';
import type { StepRetries } from '#workflows/definitions/workflow-definition.ts';

/** A step of a definition, as far as attempts of blocks go. */
interface MayBeRetried {
  block?: BlockDefinition;
  retries?: StepRetries;
}

type RecordPlace = Pick<RunStepTable, 'position' | 'iteration' | 'attempt'>;

/** True for a block with steps in it that is run again when it fails. */
export function isRetriedBlock({ block, retries }: MayBeRetried): boolean {
  return retries !== undefined && block !== undefined && isStructured(block.kind);
}

/** Positions of the blocks with retries. */
export function retriedBlocksOf(steps: readonly MayBeRetried[]): number[] {
  return steps.flatMap((step, position) => (isRetriedBlock(step) ? [position] : []));
}

/** The number of the attempt that follows so many failures, from 1. The last failure is followed by none. */
export function attemptAfter({ times }: StepRetries, failures: number): number {
  return 1 + Math.min(failures, times);
}

/** `outer`: the attempts of the blocks around a block; its own comes last. */
export function attemptIn(outer: string, attempt: number): string {
  return outer === '' ? String(attempt) : `${outer}-${attempt}`;
}

/**
 * The records of a run that are not of an attempt that has failed. `records`: all of them. What they have as `attempt` says nothing
 * of a later run: there each block begins with its first attempt.
 */
export function presentRecords<Row extends RecordPlace & Pick<RunStepTable, 'state'>>(
  steps: readonly MayBeRetried[],
  records: readonly Row[],
): Row[] {
  const retried = retriedBlocksOf(steps);
  if (retried.length === 0) return [...records];
  const failures = new Map<string, number>();
  for (const record of records) {
    if (record.state !== 'failed' || !retried.includes(record.position)) continue;
    failures.set(keyOf(record), (failures.get(keyOf(record)) ?? 0) + 1);
  }
  return records.filter((record) =>
    attemptsAround(steps, record).every(({ place, retries, attempt }) => {
      return attempt === attemptAfter(retries, failures.get(keyOf(place)) ?? 0);
    }),
  );
}

/** The blocks with retries around a record, the outermost first: where each stands, and which attempt of it the record is of. */
function attemptsAround(steps: readonly MayBeRetried[], record: RecordPlace) {
  const around: { place: RecordPlace; retries: StepRetries; attempt: number }[] = [];
  const attempts = record.attempt.split('-');
  let maps = 0;
  for (const [position, { block, retries }] of steps.slice(0, record.position).entries()) {
    if (block === undefined || record.position >= block.end) continue;
    // The error branch of a block is in none of its attempts, nor for one of its items.
    const isInError = block.error !== null && record.position >= block.error.from;
    if (retries !== undefined && isStructured(block.kind) && !isInError)
      around.push({
        place: {
          position,
          iteration: record.iteration.split('-').slice(0, maps).join('-'),
          attempt: attempts.slice(0, around.length).join('-'),
        },
        retries,
        attempt: Number(attempts[around.length]),
      });
    if (block.kind === 'map' && !isInError) maps += 1;
  }
  return around;
}

function keyOf({ position, iteration, attempt }: RecordPlace): string {
  return `${position} ${iteration} ${attempt}`;
}
