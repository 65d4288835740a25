import type { UseMutationResult } from '@tanstack/react-query';
import { useState } from 'react';
import type { Source } from '#sdk';
import { EditFlowControl } from '~/parts/edit-flow-control.tsx';
import { NumberInput } from '~/parts/number-input.tsx';
import { Problem } from '~/parts/problem.tsx';

const concurrencyMax = 100;

/** What of a source says when its runs may begin. */
export type FlowChange = Partial<Pick<Source, 'concurrency' | 'flow_control'>>;

/** How many runs of a source are under way at once, and when they may begin. */
export function SourceFlowControl({
  source,
  change,
}: {
  source: Source;
  change: Pick<UseMutationResult<Source, Error, FlowChange>, 'mutate' | 'isPending' | 'isSuccess' | 'error'>;
}) {
  const [concurrency, setConcurrency] = useState<number | undefined>(source.concurrency);
  const [flow, setFlow] = useState(source.flow_control);
  const isChanged =
    (concurrency ?? 1) !== source.concurrency || JSON.stringify(flow) !== JSON.stringify(source.flow_control);
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isChanged) change.mutate({ concurrency: concurrency ?? 1, flow_control: flow });
      }}
    >
      <h2>Runs</h2>
      <NumberInput
        id="source-concurrency"
        name="Runs at the same time"
        hint="1: runs follow each other, and each sees the state that the one before left"
        value={concurrency}
        max={concurrencyMax}
        onChange={setConcurrency}
      />
      <EditFlowControl of="source" flow={flow ?? {}} onChange={setFlow} />
      <button type="submit" className="button" disabled={!isChanged || change.isPending}>
        {change.isPending ? 'Saving …' : 'Save'}
      </button>
      {change.isSuccess && !isChanged && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      {change.error !== null && <Problem error={change.error} />}
    </form>
  );
}
