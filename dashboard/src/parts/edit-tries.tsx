import { isStructured } from '~/editing/blocks.ts';
import { withoutPlace } from '~/editing/code-problem.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';
import { NumberInput } from './number-input.tsx';
import { visible } from './plain-text.ts';

const retrySecondsUsual = 10;

/** Retries and time limit of one step, in place of those of the run settings; of a block with steps in it those of all of them together. */
export function EditTries({
  step: { key, timeoutSeconds, retries, block },
  problem,
  onChange,
}: {
  step: StepDraft;
  problem: StepProblem | undefined;
  onChange: (change: Partial<StepDraft>) => void;
}) {
  const holdsSteps = block !== undefined && isStructured(block.kind);
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
          hint={
            holdsSteps
              ? 'For everything in one attempt of the block. Empty: none. At most a year'
              : 'Empty: that of the workflow. At most 750'
          }
          max={holdsSteps ? 365 * 24 * 3600 : 750}
          value={timeoutSeconds}
          onChange={(value) => onChange({ timeoutSeconds: value })}
        />
        <NumberInput
          id={`${key}-times`}
          name="Retries"
          hint={
            holdsSteps
              ? 'Of the block with all its steps. Empty: none. At most 10'
              : 'Empty: as the workflow says. At most 10'
          }
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
