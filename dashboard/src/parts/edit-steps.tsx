import { useState } from 'react';
import type { RunDetail } from '#sdk';
import type { StepProblem } from '~/editing/step-problem.ts';
import { useKnownSteps } from '~/editing/use-known-steps.ts';
import { actionStep, firstCode, newStep, type StepDraft } from '~/editing/workflow-draft.ts';
import { ComponentPicker } from './component-picker.tsx';
import { EditStep } from './edit-step.tsx';
import { Icon } from './icon.tsx';
import { shortened, visible } from './plain-text.ts';
import { StepTest } from './step-test.tsx';

/** The failed run from which the user came. */
export interface EditBegin {
  /** Namespace. */
  step?: string | undefined;
  runId?: string | undefined;
}

/** The steps of a workflow, in the order in which they run: one is open at a time. */
export function EditSteps({
  steps,
  onChange,
  ownerId,
  workflowId,
  lastRun,
  isHttp,
  problem,
  begin,
}: {
  steps: readonly StepDraft[];
  onChange: (steps: StepDraft[]) => void;
  ownerId: string;
  /** Undefined: it is not there yet. */
  workflowId: string | undefined;
  lastRun: RunDetail | undefined;
  isHttp: boolean;
  /** The problem of one step. */
  problem: (StepProblem & { key: string }) | undefined;
  begin: EditBegin;
}) {
  const [open, setOpen] = useState<string | undefined>(() =>
    steps.length === 1 ? steps[0]?.key : steps.find(({ namespace }) => namespace === begin.step)?.key,
  );
  const [isChoosing, setIsChoosing] = useState(false);
  // Opened once for each refusal. Afterwards the user closes and opens it.
  const [shownError, setShownError] = useState(problem?.error);
  if (problem?.error !== shownError) {
    setShownError(problem?.error);
    if (problem !== undefined) setOpen(problem.key);
  }
  const [removed, setRemoved] = useState<{ step: StepDraft; index: number }>();
  const names = steps.map(({ namespace }) => namespace);
  const add = (step: StepDraft) => {
    onChange([...steps, step]);
    setOpen(step.key);
    setIsChoosing(false);
  };
  const replace = (key: string, change: Partial<StepDraft>) =>
    onChange(steps.map((step) => (step.key === key ? { ...step, ...change } : step)));
  const move = (index: number, by: number) => {
    const next = [...steps];
    next.splice(index + by, 0, ...next.splice(index, 1));
    onChange(next);
  };
  return (
    <section className="edit-section" aria-labelledby="edit-steps">
      <h2 id="edit-steps">Steps</h2>
      {steps.length === 0 && (
        <p className="muted">No steps yet: what triggers it starts a run that does nothing.</p>
      )}
      <ol className="edit-list">
        {steps.map((step, index) => (
          <li key={step.key}>
            <StepCard
              step={step}
              before={steps.slice(0, index)}
              number={index + 1}
              isLast={index === steps.length - 1}
              isOpen={open === step.key}
              problem={problem?.key === step.key ? problem : undefined}
              ownerId={ownerId}
              workflowId={workflowId}
              lastRun={lastRun}
              isHttp={isHttp}
              testRunId={step.namespace === begin.step ? begin.runId : undefined}
              onToggle={() => setOpen(open === step.key ? undefined : step.key)}
              onChange={(change) => replace(step.key, change)}
              onMove={(by) => move(index, by)}
              onRemove={() => {
                setRemoved({ step, index });
                onChange(steps.filter(({ key }) => key !== step.key));
              }}
            />
          </li>
        ))}
      </ol>
      {removed !== undefined && !steps.some(({ key }) => key === removed.step.key) && (
        <div className="note edit-row" role="status">
          <span>Step {visible(shortened(removed.step.namespace, 60))} was removed.</span>
          <button
            type="button"
            className="button small"
            onClick={() => onChange(steps.toSpliced(removed.index, 0, removed.step))}
          >
            Put it back
          </button>
        </div>
      )}
      {isChoosing ? (
        <div className="card">
          <ComponentPicker
            type="action"
            onCancel={() => setIsChoosing(false)}
            onChosen={(component) => add(actionStep(names, component))}
          />
        </div>
      ) : (
        <div className="edit-row">
          <button
            type="button"
            className="button"
            onClick={() => add(newStep(names, { word: 'code', code: firstCode }))}
          >
            <Icon name="plus" size={16} /> Add a step of code
          </button>
          <button type="button" className="button" onClick={() => setIsChoosing(true)}>
            <Icon name="plus" size={16} /> Add a component
          </button>
        </div>
      )}
    </section>
  );
}

function StepCard({
  step,
  before,
  number,
  isLast,
  isOpen,
  problem,
  ownerId,
  workflowId,
  lastRun,
  isHttp,
  testRunId,
  onToggle,
  onChange,
  onMove,
  onRemove,
}: {
  step: StepDraft;
  before: readonly StepDraft[];
  number: number;
  isLast: boolean;
  isOpen: boolean;
  problem: StepProblem | undefined;
  ownerId: string;
  workflowId: string | undefined;
  lastRun: RunDetail | undefined;
  isHttp: boolean;
  /** The run that its test begins with. */
  testRunId: string | undefined;
  onToggle: () => void;
  onChange: (change: Partial<StepDraft>) => void;
  onMove: (by: number) => void;
  onRemove: () => void;
}) {
  const known = useKnownSteps(before, lastRun, isHttp);
  const name = visible(shortened(step.namespace, 60));
  return (
    <section
      className={problem === undefined ? 'card edit-item' : 'card edit-item faulty'}
      aria-label={`Step ${name}`}
    >
      <header className="edit-head">
        <span className="facts">
          <span className="muted">{number}</span>
          <strong>{name}</strong>
          <span className="muted">
            {step.code === null ? visible(shortened(step.component?.name ?? '', 80)) : 'custom code'}
          </span>
          {step.disabled && <span className="state off">Disabled</span>}
          {problem !== undefined && <span className="state bad">Has a problem</span>}
        </span>
        <span className="edit-buttons">
          <button type="button" className="button small" aria-expanded={isOpen} onClick={onToggle}>
            {isOpen ? 'Close' : 'Edit'}
            <span className="off-screen"> step {name}</span>
          </button>
          <button
            type="button"
            className="button small quiet"
            disabled={number === 1}
            onClick={() => onMove(-1)}
            aria-label={`Move step ${name} up`}
          >
            ↑
          </button>
          <button
            type="button"
            className="button small quiet"
            disabled={isLast}
            onClick={() => onMove(1)}
            aria-label={`Move step ${name} down`}
          >
            ↓
          </button>
          <button
            type="button"
            className="button small quiet"
            onClick={() => onChange({ disabled: !step.disabled })}
          >
            {step.disabled ? 'Enable' : 'Disable'}
            <span className="off-screen"> step {name}</span>
          </button>
          <button type="button" className="button small quiet" onClick={onRemove}>
            Remove<span className="off-screen"> step {name}</span>
          </button>
        </span>
      </header>
      {isOpen && (
        <EditStep step={step} known={known} ownerId={ownerId} problem={problem} onChange={onChange}>
          {workflowId !== undefined && (
            <StepTest workflowId={workflowId} step={step} before={before} runId={testRunId} />
          )}
        </EditStep>
      )}
    </section>
  );
}
