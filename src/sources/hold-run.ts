import { parseFlowControl } from '#flow-control/flow-control.ts';
import { keysFrom, plainValues } from '#flow-control/read-keys.ts';
import { arrivalLane, arrivedMs } from '#jobs/held-jobs.ts';
import type { NewJob } from '#jobs/job-store.ts';
import type { Tx } from '#storage/store.ts';
import { flowControlsOf } from './source-store.ts';

/** The job of a run as flow control takes it in, with the keys of its event. A tick is neither debounced nor put into a batch. */
export function holdRun(job: NewJob<'run_source'>, flowControl: string): NewJob<'run_source'> {
  const { source_id, event = 'null', tick } = job.payload;
  const flow = parseFlowControl(flowControl);
  const keys = keysFrom(flow, plainValues(flow, event), { bytes: event.length, repeats: tick !== undefined });
  return {
    ...job,
    lane: arrivalLane(source_id, { isEvaluated: true }),
    runAtMs: arrivedMs,
    payload: { ...job.payload, flow: keys },
  };
}

/** Holds back those of the jobs whose sources have flow control. */
export async function holdTicks(
  tx: Tx,
  jobs: readonly NewJob<'run_source'>[],
): Promise<NewJob<'run_source'>[]> {
  const flowControls = await flowControlsOf(
    tx,
    jobs.map(({ payload }) => payload.source_id),
  );
  return jobs.map((job) => {
    const flowControl = flowControls.get(job.payload.source_id);
    return flowControl === undefined ? job : holdRun(job, flowControl);
  });
}
