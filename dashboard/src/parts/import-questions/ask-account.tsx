import { useId, useState } from 'react';
import { AccountField } from '~/parts/account-field.tsx';
import { Field } from '~/parts/field.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Ask } from './ask.tsx';
import type { Question } from './question.ts';

export function AskAccount({
  question: { app, oldId, places },
  ownerId,
  onAnswer,
  onSkip,
}: {
  question: Extract<Question, { kind: 'account' }>;
  ownerId: string;
  onAnswer: (id: string) => void;
  onSkip: () => void;
}) {
  const id = useId();
  const [value, setValue] = useState<unknown>();
  const chosen = (value as { authProvisionId?: string } | undefined)?.authProvisionId;
  return (
    <Ask
      lead={<>Used by {visible(shortened(places.join('; '), 500))}. Later imports remember it.</>}
      action="Use this account"
      isReady={chosen !== undefined}
      onSubmit={() => chosen !== undefined && onAnswer(chosen)}
      onSkip={onSkip}
    >
      <Field
        id={id}
        name={
          <>
            Which account of {visible(shortened(app, 100))} do the workflows use
            {oldId !== '' && (
              <>
                {' '}
                in place of <code>{visible(oldId)}</code>
              </>
            )}
            ?
          </>
        }
      >
        <AccountField
          definition={{ name: app, type: 'app', app }}
          id={id}
          value={value}
          onChange={setValue}
          describedBy={`${id}-hint`}
          invalid={false}
          ownerId={ownerId}
        />
      </Field>
    </Ask>
  );
}
