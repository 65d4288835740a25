import { withoutPlace } from '~/editing/code-problem.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';

import { visible } from './plain-text.ts';

const retrySecondsUsual = 10;

/** Retries and time limit of one step, in place of those of the run settings. */
export function EditTries({
  step: { key, timeoutSeconds, retries },
  problem,
  onChange,
}: {
  step: StepDraft;
  problem: StepProblem | undefined;
  onChange: (change: Partial<StepDraft>) => void;
}) {
  const isHere = /^(?:timeout_seconds|retries)\b/.test(problem?.field ?? '');
  const given = [
    retries === undefined ? undefined : retries.times === 1 ? '1 retry' : `${retries.times} retries`,
    timeoutSeconds === undefined ? undefined : `${timeoutSeconds} s`,
  ].filter((part) => part !== undefined);
  return (
    <details open={isHere || undefined}>
      <summary>
        Retries and time limit
        {given.length > 0 && <span className="muted">: {given.join(', ')}</span>}
      </summary>
      <div className="field-grid edit-body">
        <NumberInput
          id={`${key}-timeout`}
          name="Time limit, in seconds"
          hint="Empty: that of the workflow. At most 750"
          max={750}
          value={timeoutSeconds}
          onChange={(value) => onChange({ timeoutSeconds: value })}
        />
        <NumberInput
          id={`${key}-times`}
          name="Retries"
          hint="Empty: as the workflow says. At most 10"
          max={10}
          value={retries?.times}
          onChange={(times) =>
            onChange({
              retries:
                times === undefined ? undefined : { times, seconds: retries?.seconds ?? retrySecondsUsual },
            })
          }
        />
        {retries !== undefined && (
          <NumberInput
            id={`${key}-seconds`}
            name="Seconds before the first retry"
            hint="Each further one waits twice as long"
            max={3600}
            value={retries.seconds}
            onChange={(seconds) =>
              onChange({ retries: { ...retries, seconds: seconds ?? retrySecondsUsual } })
            }
          />
        )}
      </div>
      {isHere && problem !== undefined && (
        <p className="field-problem" role="alert">
          {visible(withoutPlace(problem.error.message))}
        </p>
      )}
    </details>
  );
}

/** A whole number of 1 or more; undefined: none is given. */
export function NumberInput({
  id,
  name,
  hint,
  value,
  max,
  onChange,
}: {
  id: string;
  name: string;
  hint: string;
  value: number | undefined;
  max: number;
  onChange: (value: number | undefined) => void;
}) {
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {name}
      </label>
      <p className="hint" id={`${id}-hint`}>
        {hint}
      </p>
      <input
        id={id}
        className="input"
        type="number"
        min={1}
        max={max}
        step={1}
        aria-describedby={`${id}-hint`}
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.valueAsNumber)}
      />
    </div>
  );
}
