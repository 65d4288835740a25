import { useEffect, useRef, useState } from 'react';
import type { VariableScope } from '~/api/workspace-queries.ts';
import { formatNumber } from '~/parts/format.ts';
import { Answered, type AnswersUse } from './answered.tsx';
import { AskAccount } from './ask-account.tsx';
import { AskComponents } from './ask-components.tsx';
import { AskFile, AskVariable } from './ask-variables.tsx';
import type { ChosenAccounts, Question } from './question.ts';

/** What the archive needs, asked one by one. Each question can be skipped. */
export function ImportQuestions({
  questions,
  scope,
  accounts,
  onAccounts,
  use,
}: {
  questions: readonly Question[];
  scope: VariableScope;
  accounts: ChosenAccounts;
  onAccounts: (accounts: ChosenAccounts) => void;
  use: AnswersUse;
}) {
  const [at, setAt] = useState(0);
  /** What was answered; questions that were skipped are not in it. */
  const [answers, setAnswers] = useState<ReadonlyMap<string, string>>(new Map());
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each question is read from its beginning.
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else heading.current?.focus();
  }, [at]);
  const question = questions[at];
  const next = (given: ReadonlyMap<string, string>) => {
    const all = new Map([...answers, ...given]);
    setAnswers(all);
    let to = at + 1;
    // A file may have answered those that follow.
    while (to < questions.length && all.has(questions[to]?.id ?? '')) to += 1;
    setAt(to);
  };
  const skip = () => next(new Map());
  const answer = (text: string) => next(new Map([[question?.id ?? '', text]]));
  return (
    <section className="card questions" aria-labelledby="questions">
      <h2 id="questions" ref={heading} tabIndex={-1}>
        {question === undefined
          ? 'What the workflows need'
          : `Question ${formatNumber(at + 1)} of ${formatNumber(questions.length)}`}
      </h2>
      {question?.kind === 'account' && (
        <AskAccount
          key={question.id}
          question={question}
          ownerId={scope.ownerId}
          onAnswer={(id) => {
            onAccounts({ ...accounts, [question.id]: id });
            answer(id);
          }}
          onSkip={skip}
        />
      )}
      {question?.kind === 'file' && (
        <AskFile
          question={question}
          scope={scope}
          onSet={(names) =>
            next(
              new Map([
                [question.id, `set ${formatNumber(names.length)}`],
                ...names.map((name) => [`variable ${name}`, 'set'] as const),
              ]),
            )
          }
          onSkip={skip}
        />
      )}
      {question?.kind === 'variable' && (
        <AskVariable
          key={question.id}
          question={question}
          scope={scope}
          onSet={() => answer('set')}
          onSkip={skip}
        />
      )}
      {question?.kind === 'components' && (
        <AskComponents question={question} onAdded={() => answer('being added')} onSkip={skip} />
      )}
      {question === undefined && (
        <Answered
          questions={questions}
          answers={answers}
          use={use}
          onAgain={() => {
            setAnswers(new Map());
            onAccounts({});
            setAt(0);
          }}
        />
      )}
    </section>
  );
}
