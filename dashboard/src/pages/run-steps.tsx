import { useState } from 'react';
import type { RunDetail, RunStep, WorkflowStep } from '#sdk';
import { isOver } from '~/api/workflow-queries.ts';
import { formatClock, formatDuration } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { LogLines } from '~/parts/log-lines.tsx';
import { visible } from '~/parts/plain-text.ts';
import { RunState } from '~/parts/run-state.tsx';
import { StackView } from '~/parts/stack-view.tsx';
import { codeOf, StepKind } from '~/parts/step-parts.tsx';

interface Place {
  namespace: string;
  position: number;
  step: WorkflowStep | undefined;
  /** Its tries, in order. */
  tries: RunStep[];
}

/** The steps of the version that was run, also those it did not come to, each with its tries. */
export function RunSteps({
  run,
  steps,
  now,
}: {
  run: RunDetail;
  steps: readonly WorkflowStep[] | undefined;
  now: number;
}) {
  const places = placesOf(run, steps);
  const fromMs = Math.min(...run.steps.map(({ started_at }) => Date.parse(started_at)));
  const toMs = Math.max(
    fromMs + 1,
    ...run.steps.map(({ ended_at }) => Date.parse(ended_at)),
    isOver(run) ? 0 : now,
  );
  const next = places.find(
    ({ step, tries }) => step?.disabled !== true && tries.at(-1)?.state !== 'succeeded',
  );
  return (
    <section aria-labelledby="steps">
      <h2 id="steps">Steps</h2>
      <ol className="run-steps">
        {places.map((place) => (
          <li key={place.position} className="card">
            <Head
              place={place}
              state={stateOf(place, { isNext: place === next, runState: run.state })}
              fromMs={fromMs}
              toMs={toMs}
            />
            {place.tries.map((one, index) => (
              <Try
                key={`${one.try} ${one.started_at}`}
                record={one}
                step={place.step}
                name={place.tries.length === 1 ? undefined : `Try ${index + 1} of ${place.tries.length}`}
                isAtFault={one === place.tries.at(-1) && run.error?.namespace === one.namespace}
              />
            ))}
          </li>
        ))}
      </ol>
    </section>
  );
}

function placesOf(run: RunDetail, steps: readonly WorkflowStep[] | undefined): Place[] {
  const places = new Map<number, Place>(
    (steps ?? []).map((step, position) => [
      position,
      { namespace: step.namespace, position, step, tries: [] },
    ]),
  );
  for (const record of run.steps) {
    const { position, namespace } = record;
    const place = places.get(position) ?? { namespace, position, step: undefined, tries: [] };
    place.tries.push(record);
    places.set(position, place);
  }
  return [...places.values()].sort((a, b) => a.position - b.position);
}

type PlaceState = RunDetail['state'] | RunDetail['steps'][number]['state'] | 'disabled' | 'not reached';

function stateOf(
  { step, tries }: Place,
  { isNext, runState }: { isNext: boolean; runState: RunDetail['state'] },
): PlaceState {
  if (isNext && runState === 'running') return 'running';
  const last = tries.at(-1);
  if (last !== undefined) return last.state;
  if (step?.disabled === true) return 'disabled';
  return 'not reached';
}

function Head({
  place: { namespace, position, step, tries },
  state,
  fromMs,
  toMs,
}: {
  place: Place;
  state: PlaceState;
  fromMs: number;
  toMs: number;
}) {
  const percent = (ms: number) => (ms / (toMs - fromMs)) * 100;
  const worked = tries.reduce((sum, one) => sum + Date.parse(one.ended_at) - Date.parse(one.started_at), 0);
  return (
    <header className="run-step-head">
      <span className="facts">
        <span className="muted">{position + 1}</span>
        <strong>{visible(namespace)}</strong>
        {step !== undefined && <StepKind step={step} />}
      </span>
      <span className="facts">
        {tries.length > 0 && (
          <span className="muted">{worked === 0 ? '< 1 ms' : formatDuration(worked)}</span>
        )}
        {state === 'disabled' || state === 'not reached' ? (
          <span className="state off">{state === 'disabled' ? 'Disabled' : 'Not reached'}</span>
        ) : (
          <RunState state={state} />
        )}
      </span>
      {tries.length > 0 && (
        <span className="step-times" aria-hidden="true">
          {tries.map((one) => {
            const start = Date.parse(one.started_at);
            return (
              <span
                key={`${one.try} ${one.started_at}`}
                className={one.state === 'failed' ? 'bad' : undefined}
                style={{
                  left: `${percent(start - fromMs)}%`,
                  width: `${percent(Date.parse(one.ended_at) - start)}%`,
                }}
              />
            );
          })}
        </span>
      )}
    </header>
  );
}

function Try({
  record,
  step,
  name,
  isAtFault,
}: {
  record: RunStep;
  step: WorkflowStep | undefined;
  /** Undefined: there is one only. */
  name: string | undefined;
  /** Its error is that of the run, which is shown above. */
  isAtFault: boolean;
}) {
  const { error, logs } = record;
  return (
    <div className="run-try">
      {name !== undefined && (
        <h3 className="facts">
          {name} <RunState state={record.state} />
          <span className="muted">{formatClock(Date.parse(record.started_at))}</span>
        </h3>
      )}
      {error !== null && (
        <div className="try-error">
          <pre className="failure-text">{visible(`${error.code}: ${error.msg}`)}</pre>
          {!isAtFault && (
            <StackView stack={error.stack} message={`${error.code}: ${error.msg}`} code={codeOf(step)} />
          )}
        </div>
      )}
      {logs.length > 0 && (
        <Part title={`Logs (${logs.length})`} isOpen={record.state !== 'succeeded'}>
          <LogLines lines={logs} />
        </Part>
      )}
      {isFilled(record.input) && (
        <Part title="Input" isOpen={record.state !== 'succeeded'}>
          <JsonView value={record.input} label={`Input of ${record.namespace}`} />
        </Part>
      )}
      {isFilled(record.exports) ? (
        <Part title="Exports" isOpen={false}>
          <JsonView value={record.exports} label={`Exports of ${record.namespace}`} />
        </Part>
      ) : (
        record.state === 'succeeded' && <p className="muted">It exported nothing.</p>
      )}
    </div>
  );
}

/** What is long is drawn when it is opened. */
function Part({ title, isOpen, children }: { title: string; isOpen: boolean; children: React.ReactNode }) {
  const [open, setOpen] = useState(isOpen);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children}
    </details>
  );
}

function isFilled(value: unknown): boolean {
  return value !== null && (typeof value !== 'object' || Object.keys(value).length > 0);
}
