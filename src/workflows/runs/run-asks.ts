import { CallerError } from '#lib/errors.ts';
import type { Ask, AskAnswer } from '#runner/runner.ts';
import type { LiveRun } from './live-run.ts';

/** Answers what code of one owner asks for. */
export type OwnerAsks = (ownerId: string, ask: Ask) => Promise<AskAnswer>;

/** Who answers what a step asks for. The owner is the run's, whatever the ask says. */
export function answerAsks(kinds: {
  data_store: OwnerAsks;
  file: OwnerAsks;
  /** `$.flow.trigger`: runs another workflow of the same owner. */
  trigger_workflow: (live: LiveRun, ask: Ask) => Promise<AskAnswer>;
}): (live: LiveRun, ask: Ask) => Promise<AskAnswer> {
  return async (live, ask) => {
    switch (ask.kind) {
      case 'data_store':
        return kinds.data_store(live.run.owner_id, ask);
      case 'file':
        return kinds.file(live.run.owner_id, ask);
      case 'trigger_workflow':
        return kinds.trigger_workflow(live, ask);
      default:
        throw unknownKind(ask);
    }
  };
}

/** Who answers what a source asks for, which starts no workflows but by its events. */
export function answerSourceAsks(kinds: Record<'data_store' | 'file', OwnerAsks>): OwnerAsks {
  return async (ownerId, ask) => {
    if (ask.kind === 'data_store' || ask.kind === 'file') return kinds[ask.kind](ownerId, ask);
    throw unknownKind(ask);
  };
}

function unknownKind({ kind }: Ask): CallerError {
  return new CallerError(
    'invalid_parameter',
    `the service does not know what ${JSON.stringify(kind.slice(0, 100))} is`,
  );
}
