import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useMemo } from 'react';
import type { Component } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import type { CodeContext, KnownStep } from '~/editing/code-context.ts';
import { codeProblemOf, withoutPlace } from '~/editing/code-problem.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';

import { CodeEditor } from './code-editor.tsx';
import { EditBlock, isBlockField } from './edit-block.tsx';
import { EditStepProps } from './edit-step-props.tsx';
import { EditTries } from './edit-tries.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';

interface EditedStep {
  step: StepDraft;
  known: readonly KnownStep[];
  ownerId: string;
  problem: StepProblem | undefined;
  onChange: (change: Partial<StepDraft>) => void;
  /** Below the code and props: trying it. */
  children?: ReactNode;
}

/** The code and props of one step. */
export function EditStep({ step, known, ownerId, problem, onChange, children }: EditedStep) {
  const { key, namespace, code } = step;
  const context = useMemo<CodeContext>(() => ({ kind: 'step', steps: known }), [known]);
  const check = useMutation({
    mutationFn: async (text: string) =>
      (
        await api<Data<Component>>('POST', '/v1/components', {
          body: { component_code: text, ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}) },
        })
      ).data,
    onSuccess: ({ configurable_props }) => onChange({ definitions: configurable_props }),
  });
  const told = check.error ?? (problem?.code === code ? problem?.error : undefined);
  // The result does not apply to code that was changed since.
  const isAboutThis = check.error === null || check.variables === code;
  const place = useMemo(
    () => (isAboutThis ? [codeProblemOf(told)].filter((one) => one !== undefined) : []),
    [told, isAboutThis],
  );
  const isInCode = place.length > 0;
  const isInProps = step.block === undefined && problem?.field.startsWith('props.') === true;
  return (
    <div className="edit-body">
      <div className="field">
        <label className="label" htmlFor={`${key}-name`}>
          Name of the step
        </label>
        <input
          id={`${key}-name`}
          className="input mono"
          value={namespace}
          maxLength={100}
          spellCheck={false}
          aria-describedby={`${key}-name-hint`}
          aria-invalid={problem?.field === 'namespace' || undefined}
          onChange={(event) => onChange({ namespace: event.target.value })}
        />
        <p className="hint" id={`${key}-name-hint`}>
          Later steps find what it exported under this name:{' '}
          <code>steps.{visible(shortened(namespace, 100))}</code>
        </p>
        {problem?.field === 'namespace' && (
          <p className="field-problem" role="alert">
            {visible(withoutPlace(problem.error.message))}
          </p>
        )}
      </div>
      {step.block !== undefined ? (
        <EditBlock
          step={{ ...step, block: step.block }}
          known={known}
          ownerId={ownerId}
          problem={problem}
          onChange={onChange}
        />
      ) : (
        <>
          {code !== null ? (
            <>
              <CodeEditor
                label={`Code of the step ${visible(namespace)}`}
                value={code}
                onChange={(text) => onChange({ code: text })}
                problems={place}
                context={context}
              />
              <div className="edit-row">
                <button
                  type="button"
                  className="button small"
                  disabled={check.isPending}
                  onClick={() => check.mutate(code)}
                >
                  {check.isPending ? 'Checking …' : 'Check the code'}
                </button>
                <span className="hint" role="status">
                  {check.isSuccess && check.variables === code
                    ? `It can be built; it has ${propCount(step)}.`
                    : 'Builds it, and shows the props that it declares below.'}
                </span>
              </div>
              {check.error !== null && isAboutThis && !isInCode && (
                <Problem error={check.error} what="This code cannot be used." />
              )}
            </>
          ) : (
            <p className="muted">
              Component <code>{visible(shortened(step.component?.name ?? '', 100))}</code>, version{' '}
              {visible(shortened(step.component?.version ?? '', 40))}
            </p>
          )}
          <EditStepProps
            step={step}
            known={known}
            ownerId={ownerId}
            problem={isInProps ? problem : undefined}
            onChange={(props) => onChange({ props })}
          />
        </>
      )}
      <EditTries step={step} problem={problem} onChange={onChange} />
      <div className="field">
        <label className="label" htmlFor={`${key}-note`}>
          Note
        </label>
        <textarea
          id={`${key}-note`}
          className="input"
          rows={2}
          value={step.note ?? ''}
          maxLength={10_000}
          onChange={(event) => onChange({ note: event.target.value })}
        />
      </div>
      {problem !== undefined &&
        !isInProps &&
        !isField(problem.field) &&
        !(isInCode && check.error === null) &&
        problem.code === code && (
          <Problem error={withoutPlace(problem.error.message)} what="This step cannot be deployed." />
        )}
      {children}
    </div>
  );
}

/** Fields that show their problem themselves. */
function isField(field: string): boolean {
  return /^(?:namespace|timeout_seconds|retries)\b/.test(field) || isBlockField(field);
}

function propCount({ definitions }: StepDraft): string {
  if (definitions.length === 0) return 'no props';
  return definitions.length === 1 ? 'one prop' : `${definitions.length} props`;
}
