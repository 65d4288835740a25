import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import type { StepTestResult } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useRun, useRuns, useTestEvents } from '~/api/workflow-queries.ts';
import type { StepBefore } from '~/editing/block-draft.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import { sampleInBlock, samplesOf } from '~/editing/use-known-steps.ts';
import { stepInputOf } from '~/editing/workflow-draft.ts';
import { formatDuration } from './format.ts';
import { JsonView } from './json-view.tsx';
import { LogLines } from './log-lines.tsx';
import { visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { RunState } from './run-state.tsx';
import { StackView } from './stack-view.tsx';

type StepTestInput =
  | { kind: 'run'; id: string }
  | { kind: 'event'; name: string }
  | { kind: 'json'; text: string };

const firstJson = JSON.stringify({ trigger: { event: { body: {} } } }, null, 2);

/** Runs one step by itself, as edited: with the exports of an earlier run, or with JSON. */
export function StepTest({
  workflowId,
  step,
  before,
  runId,
}: {
  workflowId: string;
  step: StepDraft;
  before: readonly StepBefore[];
  /** The run whose exports it begins with; absent: the last run. */
  runId: string | undefined;
}) {
  const runs = useRuns(workflowId, '');
  const list = runs.data?.pages.flatMap(({ data }) => data) ?? [];
  const [chosen, setChosen] = useState<StepTestInput | undefined>(
    runId === undefined ? undefined : { kind: 'run', id: runId },
  );
  const newest = list[0]?.id;
  const given: StepTestInput =
    chosen ?? (newest === undefined ? { kind: 'json', text: firstJson } : { kind: 'run', id: newest });
  const run = useRun(given.kind === 'run' ? given.id : '', given.kind === 'run');
  const testEvents = useTestEvents(workflowId);
  const test = useMutation({
    mutationFn: async () => {
      const { namespace, ...input } = stepInputOf(step);
      const path = `/v1/workflows/${workflowId}/steps/${encodeURIComponent(namespace)}/test`;
      const body = { ...givenTo(given, run.data, before), step: input };
      return (await api<Data<StepTestResult>>('POST', path, { body })).data;
    },
  });
  const id = `${step.key}-test`;
  return (
    <details open={runId !== undefined || undefined}>
      <summary>Test this step</summary>
      <div className="edit-body">
        <p className="hint">
          Runs it as it stands here, deployed or not: it really does what its code does. It is not counted
          among the runs; what it would send with $.send is shown and not sent, and $.flow does not wait.
        </p>
        <div className="field">
          <label className="label" htmlFor={id}>
            With what came before it
          </label>
          <select
            id={id}
            className="select"
            value={given.kind === 'run' ? given.id : given.kind === 'event' ? eventValue(given.name) : 'json'}
            onChange={({ target: { value } }) => setChosen(inputOf(value, () => jsonOf(run.data, before)))}
          >
            {given.kind === 'run' && !list.some(({ id: one }) => one === given.id) && (
              <option value={given.id}>Run {given.id}</option>
            )}
            {list.map((one) => (
              <option key={one.id} value={one.id}>
                Run of {new Date(one.created_at).toLocaleString()}, {one.state}
              </option>
            ))}
            {testEvents.data?.map(({ name }) => (
              <option key={name} value={eventValue(name)}>
                Test event {visible(name)}
              </option>
            ))}
            <option value="json">JSON, given here</option>
          </select>
        </div>
        {given.kind === 'json' && (
          <textarea
            className="input code"
            aria-label="What the step finds in steps, as JSON"
            rows={8}
            spellCheck={false}
            value={given.text}
            onChange={(event) => setChosen({ kind: 'json', text: event.target.value })}
          />
        )}
        {given.kind === 'run' && run.error !== null && <Problem error={run.error} />}
        <div>
          <button
            type="button"
            className="button"
            disabled={test.isPending || (given.kind === 'run' && run.data === undefined)}
            onClick={() => test.mutate()}
          >
            {test.isPending ? 'The step runs …' : 'Run this step'}
          </button>
        </div>
        {test.error !== null && <Problem error={test.error} what="The step was not run." />}
        {test.data !== undefined && !test.isPending && (
          <TestResult result={test.data} code={step.code ?? step.component?.code ?? undefined} />
        )}
      </div>
    </details>
  );
}

const eventPrefix = 'event:';

function eventValue(name: string): string {
  return `${eventPrefix}${name}`;
}

function inputOf(value: string, json: () => string): StepTestInput {
  if (value === 'json') return { kind: 'json', text: json() };
  if (value.startsWith(eventPrefix)) return { kind: 'event', name: value.slice(eventPrefix.length) };
  return { kind: 'run', id: value };
}

/** The body of the request; throws for what is no JSON object. */
function givenTo(
  given: StepTestInput,
  run: Parameters<typeof samplesOf>[0] | undefined,
  before: readonly StepBefore[],
) {
  if (given.kind === 'event') return { test_event: given.name };
  const all = given.kind === 'run' ? stepsOf(run, before) : parsed(given.text);
  const { trigger, ...steps } = all;
  return { event: (trigger as { event?: unknown } | undefined)?.event ?? {}, steps };
}

function stepsOf(
  run: Parameters<typeof samplesOf>[0] | undefined,
  before: readonly StepBefore[],
): Record<string, unknown> {
  const samples = run === undefined ? new Map<string, unknown>() : samplesOf(run);
  const steps: [string, unknown][] = [];
  if (samples.has('trigger')) steps.push(['trigger', samples.get('trigger')]);
  for (const { step, within } of before) {
    const { namespace } = step;
    if (within !== undefined) steps.push([namespace, sampleInBlock({ step, part: within }, run)]);
    else if (samples.has(namespace)) steps.push([namespace, samples.get(namespace)]);
  }
  return Object.fromEntries(steps);
}

function jsonOf(run: Parameters<typeof samplesOf>[0] | undefined, before: readonly StepBefore[]): string {
  return run === undefined ? firstJson : JSON.stringify(stepsOf(run, before), null, 2);
}

function parsed(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`What is given is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('What is given has to be an object: { "trigger": { "event": … }, "<step>": { … } }');
  return value as Record<string, unknown>;
}

function TestResult({ result, code }: { result: StepTestResult; code: string | undefined }) {
  const { state, duration_ms, error, exports, logs, flow, sends, response } = result;
  const { $return_value: returned, ...others } = exports ?? {};
  return (
    <section className="test-result" aria-label="Result of the test">
      <p className="facts">
        <RunState state={state} />
        <span className="muted">{duration_ms === 0 ? '< 1 ms' : formatDuration(duration_ms)}</span>
      </p>
      {error !== null && (
        <div className="try-error">
          <pre className="failure-text">{visible(`${error.code}: ${error.msg}`)}</pre>
          <StackView stack={error.stack} message={`${error.code}: ${error.msg}`} code={code} />
        </div>
      )}
      {state === 'succeeded' && (
        <>
          <h3>Return value</h3>
          {returned === undefined ? (
            <p className="muted">It returned nothing.</p>
          ) : (
            <JsonView value={returned} label="Return value" />
          )}
        </>
      )}
      {Object.keys(others).length > 0 && (
        <>
          <h3>Exports</h3>
          <JsonView value={others} label="Exports" />
        </>
      )}
      {logs.length > 0 && (
        <>
          <h3>Logs</h3>
          <LogLines lines={logs} />
        </>
      )}
      {response !== null && (
        <>
          <h3>Would answer</h3>
          <JsonView value={response} label="Answer" />
        </>
      )}
      {flow !== null && (
        <>
          <h3>Next</h3>
          <JsonView value={flow} label="$.flow" />
        </>
      )}
      {sends.length > 0 && (
        <>
          <h3>Would send</h3>
          <JsonView value={sends} label="Sends" />
        </>
      )}
    </section>
  );
}
