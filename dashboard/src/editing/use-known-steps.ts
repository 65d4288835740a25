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

/** Zeros for the items of maps in maps, which are at most ten deep in one another. */
const firstItems = '-0'.repeat(10);

/**
 * True for the records that are shown of a run: in maps, those of the item that failed, and of the first items where none did.
 */
function shownItem(run: Pick<RunDetail, 'steps'>): (iteration: string) => boolean {
  const shown = shownIteration(run);
  return (iteration) => iteration === '' || `${shown}-`.startsWith(`${iteration}-`);
}

function shownIteration({ steps }: Pick<RunDetail, 'steps'>): string {
  const failed = steps.findLast(({ state }) => state === 'failed')?.iteration ?? '';
  return `${failed}${firstItems}`.replace(/^-/, '');
}

/** What a run had: its event, and what each of its steps exported. */
export function samplesOf(run: Pick<RunDetail, 'event' | 'steps'>): Map<string, unknown> {
  const samples = new Map<string, unknown>();
  const isShown = shownItem(run);
  for (const { namespace, exports, iteration } of run.steps)
    if (exports !== null && (isShown(iteration) || !samples.has(namespace))) samples.set(namespace, exports);
  samples.set('trigger', { event: run.event });
  return samples;
}

/** What a step in a block saw of the block: the branch, or the item. */
export function sampleInBlock(
  { step, part }: { step: { namespace: string }; part: Pick<PartDraft, 'kind' | 'slug'> },
  run: Pick<RunDetail, 'steps'> | undefined,
): Record<string, unknown> {
  if (part.kind === 'branch') return { branch: part.slug };
  if (part.kind === 'error') return { $error: { code: undefined, msg: undefined, namespace: undefined } };
  if (run === undefined) return { item: undefined, index: 0 };
  const isShown = shownItem(run);
  const map = run.steps.findLast(
    ({ namespace, iteration }) => namespace === step.namespace && isShown(iteration),
  );
  const depth = map === undefined || map.iteration === '' ? 0 : map.iteration.split('-').length;
  const index = Number(shownIteration(run).split('-')[depth] ?? 0);
  return { item: (map?.exports as { items?: unknown[] } | null | undefined)?.items?.[index], index };
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
            : sampleInBlock({ step: { namespace }, part: { kind, slug } }, run),
      })),
    ];
  }, [joined, run, isHttp]);
}
