import { useMemo } from 'react';
import type { RunDetail } from '#sdk';
import { useRun, useRuns } from '~/api/workflow-queries.ts';
import type { KnownStep } from './code-context.ts';

/** The shape of an HTTP request, shown before the first one. */
const firstRequest = {
  method: 'POST',
  path: '/',
  query: {},
  headers: {},
  url: '',
  client_ip: '',
  bodyRaw: '',
  body: undefined,
};

/** What a run had: its event, and what each of its steps exported. */
export function samplesOf(run: Pick<RunDetail, 'event' | 'steps'>): Map<string, unknown> {
  const samples = new Map<string, unknown>();
  for (const step of run.steps) if (step.exports !== null) samples.set(step.namespace, step.exports);
  samples.set('trigger', { event: run.event });
  return samples;
}

/** The last run of a workflow; undefined while there is none. */
export function useLastRun(workflowId: string | undefined): RunDetail | undefined {
  const runs = useRuns(workflowId ?? '', '', workflowId !== undefined);
  const newest = runs.data?.pages[0]?.data[0]?.id;
  return useRun(newest ?? '', newest !== undefined).data;
}

/** What a step finds in `steps`: the trigger and the steps before it, with what they had in the last run. */
export function useKnownSteps(
  before: readonly { namespace: string; disabled: boolean }[],
  run: RunDetail | undefined,
  isHttp: boolean,
): readonly KnownStep[] {
  const names = before.filter(({ disabled }) => !disabled).map(({ namespace }) => namespace);
  const joined = names.join(' ');
  return useMemo(() => {
    const samples = run === undefined ? new Map<string, unknown>() : samplesOf(run);
    const event = (samples.get('trigger') as { event?: unknown } | undefined)?.event;
    const trigger = {
      event: event ?? (isHttp ? firstRequest : undefined),
      context: {
        id: run?.id,
        ts: run?.created_at,
        workflow_id: run?.workflow_id,
        deployment_id: run?.deployment_id,
        owner_id: run?.owner_id,
        emitter_id: run?.emitter_id,
        source_type: run?.source_type,
        test: false,
        replay: false,
      },
    };
    return [
      { namespace: 'trigger', sample: trigger },
      ...joined
        .split(' ')
        .filter((name) => name !== '')
        .map((namespace) => ({ namespace, sample: samples.get(namespace) ?? { $return_value: undefined } })),
    ];
  }, [joined, run, isHttp]);
}
