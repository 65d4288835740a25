import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import type { Question } from './question.ts';

function nameOf(question: Question): string {
  if (question.kind === 'account')
    return `Account of ${question.app}${question.oldId === '' ? '' : ` (${question.oldId} there)`}`;
  if (question.kind === 'file') return '.env file';
  return question.kind === 'variable' ? `Variable ${question.name}` : 'Components';
}

/** What is done with the answers. */
export interface AnswersUse {
  mutate: () => void;
  isPending: boolean;
  error: Error | null;
  /** On the button, now and while it is done. */
  name: string;
  busyName: string;
  /** What to say when it failed. */
  failure: string;
}

/** What was answered and skipped, before the answers are used. */
export function Answered({
  questions,
  answers,
  use,
  onAgain,
}: {
  questions: readonly Question[];
  answers: ReadonlyMap<string, string>;
  use: AnswersUse;
  onAgain: () => void;
}) {
  return (
    <>
      <ul className="findings" aria-label="Answers">
        {questions.map((question) => (
          <li key={question.id}>
            {visible(shortened(nameOf(question), 200))}:{' '}
            {answers.has(question.id) ? (
              <strong>{visible(answers.get(question.id) ?? '')}</strong>
            ) : (
              <span className="muted">skipped</span>
            )}
          </li>
        ))}
      </ul>
      {use.error !== null && <Problem error={use.error} what={use.failure} />}
      <div className="tools below">
        <button type="button" className="button" disabled={use.isPending} onClick={() => use.mutate()}>
          {use.isPending ? use.busyName : use.name}
        </button>
        <button type="button" className="button quiet" disabled={use.isPending} onClick={onAgain}>
          Answer again
        </button>
      </div>
    </>
  );
}
