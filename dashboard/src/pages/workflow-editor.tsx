import { type ReactNode, useState } from 'react';
import { MillraceError, type Workflow } from '#sdk';
import { useSubscriptions } from '~/api/queries.ts';
import { allSteps, stepAt } from '~/editing/block-draft.ts';
import { compare, comparedDraft, hasChanges } from '~/editing/definition-diff.ts';
import { heardBy } from '~/editing/heard-subscriptions.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import { useLastRun } from '~/editing/use-known-steps.ts';
import type { useWorkflowDraft } from '~/editing/use-workflow-draft.ts';
import { placeOf, stepInputOf, type WorkflowDraft } from '~/editing/workflow-draft.ts';
import { Ago } from '~/parts/ago.tsx';
import { DefinitionChanges } from '~/parts/definition-changes.tsx';
import { EditSettings } from '~/parts/edit-settings.tsx';
import { type EditBegin, EditSteps } from '~/parts/edit-steps.tsx';
import { EditTriggers } from '~/parts/edit-triggers.tsx';
import { Problem } from '~/parts/problem.tsx';

/** The draft that was sent, and the service's error. */
export interface Refusal {
  error: Error;
  sent: WorkflowDraft;
}

/** The form of a workflow, new or there: name, triggers, steps, settings, and what would change. */
export function WorkflowEditor({
  editing,
  workflow,
  ownerId,
  refusal,
  begin = {},
  children,
}: {
  editing: ReturnType<typeof useWorkflowDraft>;
  workflow: Workflow | undefined;
  ownerId: string;
  refusal: Refusal | undefined;
  /** The step that is open at first, by its namespace, and the run whose exports it is tried with. */
  begin?: EditBegin;
  /** The buttons that deploy it. */
  children: ReactNode;
}) {
  const { draft, base, change, isChanged, keptAtMs, canKeep } = editing;
  const lastRun = useLastRun(workflow?.id);
  const [isTold, setIsTold] = useState(false);
  const subscriptions = useSubscriptions(workflow?.owner_id);
  const heard = heardBy(workflow, subscriptions.data ?? []).map(({ emitter_id }) => emitter_id);
  const changes = compare(comparedDraft(base.draft), comparedDraft(draft));
  const told = placed(refusal, draft);
  return (
    <div className="edit-sections">
      {keptAtMs !== undefined && isChanged && !isTold && (
        <div className="note edit-row" role="status">
          <span>
            Your changes of <Ago ms={keptAtMs} /> are not deployed. They are restored here, without the
            secrets: enter these again.
          </span>
          <button type="button" className="button small" onClick={() => setIsTold(true)}>
            Continue
          </button>
          <button type="button" className="button small" onClick={() => editing.restart(base)}>
            Discard the changes
          </button>
        </div>
      )}
      {!canKeep && (
        <p className="note">This is too large to be kept by the tab: deploy it before you leave the page.</p>
      )}
      <section className="card edit-section" aria-label="Name and settings">
        <div className="field">
          <label className="label" htmlFor="workflow-name">
            Name
          </label>
          <input
            id="workflow-name"
            className="input"
            maxLength={200}
            value={draft.name}
            onChange={(event) => change({ name: event.target.value })}
          />
        </div>
        <EditSettings
          settings={draft.settings}
          onChange={(settings) => change({ settings })}
          problem={told?.setting}
        />
      </section>
      <EditTriggers
        triggers={draft.triggers}
        heard={heard}
        stepResponds={allSteps(draft.steps).some(responds)}
        onChange={(triggers) => change({ triggers })}
        ownerId={ownerId}
        problem={told?.trigger}
      />
      <EditSteps
        steps={draft.steps}
        onChange={(steps) => change({ steps })}
        ownerId={ownerId}
        workflowId={workflow?.id}
        lastRun={lastRun}
        isHttp={draft.triggers.some(({ type }) => type === 'http')}
        problem={told?.step}
        begin={begin}
      />
      {workflow !== undefined && (
        <section className="card edit-section" aria-labelledby="what-changes">
          <h2 id="what-changes">What changes</h2>
          <DefinitionChanges changes={changes} none="Nothing yet: it is as it was deployed." />
          {takesPlaces(draft, base.draft).map((text) => (
            <p key={text} className="note">
              {text}
            </p>
          ))}
        </section>
      )}
      {refusal !== undefined && told?.isFixed !== true && (
        <Refused refusal={refusal} isPlaced={told?.isPlaced === true} />
      )}
      <div className="edit-row edit-deploy">
        {children}
        {workflow !== undefined && isChanged && hasChanges(changes) && (
          <button type="button" className="button quiet" onClick={() => editing.restart(base)}>
            Discard all changes
          </button>
        )}
      </div>
    </div>
  );
}

/** The step answers a request by the action for it or by code. */
function responds({ code, component, disabled }: StepDraft): boolean {
  if (disabled) return false;
  return (
    component?.ref.startsWith('http-return-http-response@') === true || code?.includes('$.respond(') === true
  );
}

function Refused({ refusal: { error, sent }, isPlaced }: { refusal: Refusal; isPlaced: boolean }) {
  const place = error instanceof MillraceError ? placeOf(error.details.parameter) : undefined;
  const step = error instanceof MillraceError ? stepAt(sent.steps, error.details.parameter)?.step : undefined;
  const what = step === undefined ? `Trigger ${(place?.index ?? 0) + 1}` : `Step ${step.namespace}`;
  return (
    <Problem
      error={isPlaced ? `${what} has a problem: it is shown there.` : error}
      what="It was not deployed. What you wrote is all still here."
    />
  );
}

/**
 * The step, trigger or setting that a refusal is about, by its key on this page. What was changed since then is taken to be
 * fixed.
 */
function placed(refusal: Refusal | undefined, draft: WorkflowDraft) {
  if (refusal === undefined || !(refusal.error instanceof MillraceError)) return undefined;
  const { error, sent } = refusal;
  const place = placeOf(error.details.parameter);
  const ofStep = stepAt(sent.steps, error.details.parameter);
  const field = ofStep?.field ?? place?.field ?? '';
  const step = ofStep?.step;
  const trigger = place?.list === 'triggers' ? sent.triggers[place.index] : undefined;
  const isFixed =
    (step !== undefined && !allSteps(draft.steps).some((one) => isSameStep(one, step))) ||
    (trigger !== undefined && !draft.triggers.includes(trigger));
  return {
    isFixed,
    isPlaced: step !== undefined || trigger !== undefined,
    step: step === undefined || isFixed ? undefined : { key: step.key, field, error, code: step.code },
    trigger:
      trigger === undefined || isFixed ? undefined : { key: trigger.key, field, message: error.message },
    setting: place?.list === 'settings' ? { field, message: error.message } : undefined,
  };
}

/** What was learned of its code since, and other steps in it, do not count. */
function isSameStep(one: StepDraft, other: StepDraft): boolean {
  return one.key === other.key && JSON.stringify(alone(one)) === JSON.stringify(alone(other));
}

function alone(step: StepDraft) {
  const { block } = step;
  if (block === undefined) return stepInputOf(step);
  return stepInputOf({
    ...step,
    block: { ...block, parts: block.parts.map((part) => ({ ...part, steps: [] })) },
  });
}

/** A new trigger in the place of a removed one of its kind takes over that one's address. */
function takesPlaces(draft: WorkflowDraft, base: WorkflowDraft): string[] {
  const kept = new Set(draft.triggers.map(({ id }) => id));
  return draft.triggers.flatMap(({ id, type }, index) => {
    const was = base.triggers[index];
    if (id !== null || was === undefined || kept.has(was.id) || was.type !== type || type === 'source')
      return [];
    return [`Trigger ${index + 1} (${type}) replaces the removed trigger and keeps its URL or address.`];
  });
}
