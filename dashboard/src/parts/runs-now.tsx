import type { Source } from '#sdk';
import { Ago } from './ago.tsx';
import { formatNumber } from './format.ts';

/** What runs of the source now, so that one that takes long is seen before it has ended. */
export function RunsNow({ source: { runs, active } }: { source: Source }) {
  if (runs === undefined || runs.since === null) return null;
  const { under_way: count, queued, since } = runs;
  return (
    <p className="note" role="status">
      {count === 1 ? 'A run is under way. It' : `${formatNumber(count)} runs are under way. The first`} began{' '}
      <Ago ms={since * 1000} />.
      {queued > 0 && ` ${formatNumber(queued)} more ${queued === 1 ? 'waits' : 'wait'}.`} What a run prints
      and emits is shown when it has ended.
      {!active && ' The source is inactive, and what was accepted before continues; deleting it ends that.'}
    </p>
  );
}
