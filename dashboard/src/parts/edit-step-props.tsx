import type { KnownStep } from '~/editing/code-context.ts';
import { withoutPlace } from '~/editing/code-problem.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';

import { Loading } from './page.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { PropForm } from './prop-form.tsx';
import { useExpressionPaths } from './use-expression-paths.ts';
import { usePropDraft } from './use-prop-draft.ts';

/** The form of a step's props; values of props that its code does not have are listed below, to be removed. */
export function EditStepProps({
  step,
  known,
  ownerId,
  problem,
  onChange,
}: {
  step: StepDraft;
  known: readonly KnownStep[];
  ownerId: string;
  problem: StepProblem | undefined;
  onChange: (props: Record<string, unknown>) => void;
}) {
  const componentId = step.component?.ref ?? '';
  const draft = usePropDraft({ id: componentId, definitions: step.definitions }, ownerId, step.props);
  const paths = useExpressionPaths(known, ownerId);
  const unknown = Object.keys(step.props).filter(
    (name) => step.props[name] !== undefined && !draft.definitions.some((one) => one.name === name),
  );
  const set = (name: string, value: unknown) => {
    draft.change(name, value);
    const { [name]: _before, ...rest } = step.props;
    onChange(value === undefined ? rest : { ...rest, [name]: value });
  };
  const problems = new Map<string, string>();
  const name = /^props\.([^.[]+)/.exec(problem?.field ?? '')?.[1];
  if (name !== undefined && problem !== undefined) problems.set(name, withoutPlace(problem.error.message));
  const isShown = name === undefined || draft.definitions.some((one) => one.name === name);
  return (
    <>
      {draft.definitions.length > 0 && (
        <PropForm
          definitions={draft.definitions}
          context={{
            componentId,
            ownerId,
            values: draft.values,
            expressions: paths,
            idPrefix: `${step.key}-`,
          }}
          onChange={set}
          problems={problems}
        />
      )}
      {draft.isReloading && <Loading what="Asking the component which fields follow" />}
      {draft.reloadProblem !== undefined && (
        <Problem error={draft.reloadProblem} what="The component could not say which fields follow." />
      )}
      {problem !== undefined && !isShown && (
        <Problem error={withoutPlace(problem.error.message)} what="A prop of this step does not fit." />
      )}
      {unknown.map((one) => (
        <div key={one} className="edit-row">
          <span className="break">
            <strong>{visible(shortened(one, 100))}</strong> has the value{' '}
            <code>{oneLine(step.props[one], 100)}</code>, and is no prop that the code is known to have.
          </span>
          <button type="button" className="button small" onClick={() => set(one, undefined)}>
            Remove {visible(shortened(one, 40))}
          </button>
        </div>
      ))}
    </>
  );
}
