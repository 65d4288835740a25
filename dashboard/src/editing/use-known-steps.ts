import { useMemo } from 'react';
import type { RunDetail } from '#sdk';
import { useRun, useRuns } from '~/api/workflow-queries.ts';
import type { StepBefore } from './block-draft.ts';
import type { KnownStep } from './code-context.ts';
import type { PartDraft } from './step-draft.ts';

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

/**
 * What a step finds in `steps`: the trigger, the steps before it with what they had in the last run, and of a block around it the
 * branch or the item.
 */
export function useKnownSteps(
  before: readonly StepBefore[],
  run: RunDetail | undefined,
  isHttp: boolean,
): readonly KnownStep[] {
  const names = before
    .filter(({ step }) => !step.disabled)
    .map(({ step, within }) => [step.namespace, within?.kind ?? null, within?.slug ?? ''] as const);
  const joined = JSON.stringify(names);
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
      ...(JSON.parse(joined) as typeof names).map(([namespace, kind, slug]) => ({
        namespace,
        sample:
          kind === null
            ? (samples.get(namespace) ?? { $return_value: undefined })
            : inBlock(kind, slug, samples.get(namespace)),
      })),
    ];
  }, [joined, run, isHttp]);
}

/** What a step in a block sees of the block. */
function inBlock(kind: PartDraft['kind'], slug: string, exports: unknown): Record<string, unknown> {
  if (kind === 'branch') return { branch: slug };
  if (kind === 'each') return { item: (exports as { items?: unknown[] } | undefined)?.items?.[0], index: 0 };
  return { $error: { code: undefined, msg: undefined, namespace: undefined } };
}
