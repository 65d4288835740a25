import type { LiveRun } from './live-run.ts';
import { SequenceRunner, type StepTurns } from './run-blocks.ts';

const nothing: StepTurns = {
  run: async () => ({ kind: 'stopped', stop: 'ended' }),
  failAttempt: async () => ({ kind: 'stopped', stop: 'ended' }),
  expire: async () => ({ kind: 'stopped', stop: 'ended' }),
  fail: async () => 'ended',
};

/** Walks through what is recorded of a run, running nothing: then it has the exports of the steps and blocks that have ended. */
export async function walkRecorded(live: LiveRun): Promise<void> {
  const walk = new SequenceRunner(nothing, Date.now);
  await walk.run(live, live.main, { from: 0, to: live.deployment.steps.length }, true);
}
