import { useState } from 'react';
import type { RunDetail } from '#sdk';
import {
  allSteps,
  changeList,
  changeStep,
  type ListKey,
  moveStep,
  namesIn,
  partsOf,
  placesOf,
  stepsBefore,
} from '~/editing/block-draft.ts';
import { blockName, isStructured, partName } from '~/editing/blocks.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';
import { useKnownSteps } from '~/editing/use-known-steps.ts';

import { AddStep } from './add-step.tsx';
import { PartHead } from './block-parts.tsx';
import { EditStep } from './edit-step.tsx';
import { shortened, visible } from './plain-text.ts';
import { StepTest } from './step-test.tsx';

/** The failed run from which the user came. */
export interface EditBegin {
  /** Namespace. */
  step?: string | undefined;
  runId?: string | undefined;
}

/** What every list of steps needs of the whole form. */
interface StepsForm {
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
  /** The key of the step that is open. */
  open: string | undefined;
  onOpen: (key: string | undefined) => void;
  /** The key of the step that gets the focus when it appears: it was added or moved. */
  focused: string | undefined;
  onFocus: (key: string) => void;
  onRemove: (step: StepDraft, list: ListKey, index: number) => void;
}

/** The steps of a workflow, in the order in which they run, those in blocks within them: one is open at a time. */
export function EditSteps({
  steps,
  onChange,
  problem,
  begin,
  ...rest
}: Omit<StepsForm, 'open' | 'onOpen' | 'focused' | 'onFocus' | 'onRemove'>) {
  const [open, setOpen] = useState<string | undefined>(() => {
    const all = allSteps(steps);
    const asked = all.find(({ namespace }) => namespace === begin.step);
    return (asked ?? (all.length === 1 ? all[0] : undefined))?.key;
  });
  // Opened once for each refusal. Afterwards the user closes and opens it.
  const [shownError, setShownError] = useState(problem?.error);
  if (problem?.error !== shownError) {
    setShownError(problem?.error);
    if (problem !== undefined) setOpen(problem.key);
  }
  const [focused, setFocused] = useState<string>();
  const [removed, setRemoved] = useState<{ step: StepDraft; list: ListKey; index: number }>();
  const form: StepsForm = {
    ...rest,
    steps,
    onChange,
    problem,
    begin,
    open,
    onOpen: setOpen,
    focused,
    onFocus: setFocused,
    onRemove: (step, list, index) => {
      setRemoved({ step, list, index });
      onChange(changeList(steps, list, (before) => before.filter(({ key }) => key !== step.key)));
    },
  };
  const places = placesOf(steps);
  const isGone =
    removed !== undefined && !places.some((place) => place.steps.some(({ key }) => key === removed.step.key));
  return (
    <section className="edit-section" aria-labelledby="edit-steps">
      <h2 id="edit-steps">Steps</h2>
      {steps.length === 0 && (
        <p className="muted">
          No steps yet: what triggers it starts a run that does nothing. Add a component, which needs no code,
          a block that decides or repeats, or code of your own.
        </p>
      )}
      <StepList form={form} list={undefined} steps={steps} place="" />
      {removed !== undefined && isGone && (
        <div className="note edit-row" role="status">
          <span>
            Step {visible(shortened(removed.step.namespace, 60))} was removed
            {namesIn([removed.step]).length > 1 && ', with the steps in it'}.
          </span>
          <button
            type="button"
            className="button small"
            onClick={() => {
              // The list that it was in may be gone too.
              const list = places.some((place) => place.list === removed.list) ? removed.list : undefined;
              onChange(changeList(steps, list, (before) => before.toSpliced(removed.index, 0, removed.step)));
            }}
          >
            Put it back
          </button>
        </div>
      )}
    </section>
  );
}

/** The steps of the workflow, or of a branch, and what adds one. */
function StepList({
  form,
  list,
  steps,
  place,
}: {
  form: StepsForm;
  list: ListKey;
  steps: readonly StepDraft[];
  /** In words, for those who do not see where it stands; empty: the workflow itself. */
  place: string;
}) {
  const change = (next: (before: readonly StepDraft[]) => StepDraft[]) =>
    form.onChange(changeList(form.steps, list, next));
  return (
    <>
      {steps.length > 0 && (
        <ol className="edit-list" aria-label={place === '' ? undefined : `Steps of ${place}`}>
          {steps.map((step, index) => (
            <li key={step.key}>
              <StepCard
                form={form}
                step={step}
                list={list}
                number={index + 1}
                isLast={index === steps.length - 1}
                onMove={(by) =>
                  change((before) => {
                    const next = [...before];
                    next.splice(index + by, 0, ...next.splice(index, 1));
                    return next;
                  })
                }
                onRemove={() => form.onRemove(step, list, index)}
              />
            </li>
          ))}
        </ol>
      )}
      <AddStep
        taken={namesIn(form.steps)}
        place={place}
        onAdd={(step) => {
          change((before) => [...before, step]);
          form.onOpen(step.key);
          form.onFocus(step.key);
        }}
      />
    </>
  );
}

function StepCard({
  form,
  step,
  list,
  number,
  isLast,
  onMove,
  onRemove,
}: {
  form: StepsForm;
  step: StepDraft;
  list: ListKey;
  number: number;
  isLast: boolean;
  onMove: (by: number) => void;
  onRemove: () => void;
}) {
  const { steps, lastRun, isHttp, workflowId, begin } = form;
  const before = stepsBefore(steps, step.key) ?? [];
  const known = useKnownSteps(before, lastRun, isHttp);
  const name = visible(shortened(step.namespace, 60));
  const problem = form.problem?.key === step.key ? form.problem : undefined;
  const isOpen = form.open === step.key;
  const change = (part: Partial<StepDraft>) =>
    form.onChange(changeStep(steps, step.key, (now) => ({ ...now, ...part })));
  return (
    <section
      className={problem === undefined ? 'card edit-item' : 'card edit-item faulty'}
      aria-label={`Step ${name}`}
    >
      <header className="edit-head">
        <span className="facts">
          <span className="muted">{number}</span>
          <strong>{name}</strong>
          <span className="muted">{visible(shortened(kindOf(step), 80))}</span>
          {step.disabled && <span className="state off">Disabled</span>}
          {problem !== undefined && <span className="state bad">Has a problem</span>}
        </span>
        <span className="edit-buttons">
          <button
            type="button"
            className="button small"
            aria-expanded={isOpen}
            // biome-ignore lint/a11y/noAutofocus: what was pressed to add or move the step is gone.
            autoFocus={form.focused === step.key}
            onClick={() => form.onOpen(isOpen ? undefined : step.key)}
          >
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
            onClick={() => change({ disabled: !step.disabled })}
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
        <EditStep step={step} known={known} ownerId={form.ownerId} problem={problem} onChange={change}>
          <ChoosePlace form={form} step={step} list={list} />
          {workflowId !== undefined && step.block === undefined && (
            <StepTest
              workflowId={workflowId}
              step={step}
              before={before}
              runId={step.namespace === begin.step ? begin.runId : undefined}
            />
          )}
        </EditStep>
      )}
      {partsOf(step).map((part) => (
        <div key={part.key} className="edit-part">
          <PartHead blockKind={step.block?.kind} part={part} />
          <StepList
            form={form}
            list={part.key}
            steps={part.steps}
            place={`${partName(part)} of ${step.namespace}`}
          />
        </div>
      ))}
    </section>
  );
}

function kindOf({ code, component, block }: StepDraft): string {
  if (block !== undefined) return blockName(block.kind);
  return code === null ? (component?.name ?? '') : 'custom code';
}

/** Moves a step to the end of another list of steps. */
function ChoosePlace({ form, step, list }: { form: StepsForm; step: StepDraft; list: ListKey }) {
  const places = placesOf(form.steps).filter(({ within }) => !within.includes(step.key));
  if (places.length < 2) return null;
  const id = `${step.key}-place`;
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        Part of
      </label>
      <select
        id={id}
        className="select"
        value={list ?? ''}
        onChange={({ target: { value } }) => {
          form.onFocus(step.key);
          form.onChange(moveStep(form.steps, step.key, value === '' ? undefined : value));
        }}
      >
        {places.map((place) => (
          <option key={place.list ?? ''} value={place.list ?? ''}>
            {visible(shortened(place.name, 150))}
          </option>
        ))}
      </select>
      <p className="hint">
        {step.block !== undefined && isStructured(step.block.kind)
          ? 'It moves there with all that is in it, to the end.'
          : 'It moves there, to the end.'}
      </p>
    </div>
  );
}
