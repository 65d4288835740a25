import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { api } from '~/api/client.ts';
import { type VariableScope, variableQuery } from '~/api/workspace-queries.ts';
import { readEnvText } from '~/editing/env-text.ts';
import { Field, fieldAttributes } from '~/parts/field.tsx';
import { formatNumber } from '~/parts/format.ts';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { Ask } from './ask.tsx';
import type { Question } from './question.ts';

function useSetVariables(scope: VariableScope, onSet: (names: string[]) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (values: ReadonlyMap<string, string>) => {
      const { org_id, project_id } = variableQuery(scope);
      await api('PUT', '/v1/variables', {
        query: { org_id },
        body: {
          variables: [...values].map(([name, value]) => ({ name, value, secret: true })),
          ...(project_id === '' ? {} : { project_id }),
        },
      });
      return [...values.keys()];
    },
    // It holds what was typed.
    gcTime: 0,
    onSuccess: (names) => {
      void queries.invalidateQueries({ queryKey: ['variables', scope.ownerId] });
      onSet(names);
    },
  });
}

const fileHint = 'Only these variables are read from it. They are stored as secrets now, before the import.';

/** The values of all of them in one file. */
export function AskFile({
  question: { names },
  scope,
  onSet,
  onSkip,
}: {
  question: Extract<Question, { kind: 'file' }>;
  scope: VariableScope;
  onSet: (names: string[]) => void;
  onSkip: () => void;
}) {
  const id = useId();
  const [file, setFile] = useState<File>();
  const set = useSetVariables(scope, onSet);
  const read = useMutation({
    mutationFn: async (from: File) => {
      const given = readEnvText(await from.text());
      const wanted = new Map([...given].filter(([name]) => names.includes(name)));
      if (wanted.size === 0) throw new Error('The file sets none of these variables.');
      await set.mutateAsync(wanted);
    },
    gcTime: 0,
  });
  return (
    <Ask
      lead={
        <>
          The workflows read {formatNumber(names.length)} variables that are not set:{' '}
          {visible(shortened(names.join(', '), 1_000))}. If you skip this, each is asked for.
        </>
      }
      action="Set them"
      isReady={file !== undefined}
      isPending={read.isPending}
      onSubmit={() => file !== undefined && read.mutate(file)}
      onSkip={onSkip}
    >
      <Field id={id} name="Is there a .env file with their values?" hint={fileHint}>
        <input
          {...fieldAttributes({ id, hint: fileHint })}
          type="file"
          className="input drop"
          onChange={(event) => {
            read.reset();
            setFile(event.target.files?.[0]);
          }}
        />
      </Field>
      {read.error !== null && <Problem error={read.error} what="No variable was set." />}
    </Ask>
  );
}

export function AskVariable({
  question: { name, workflows },
  scope,
  onSet,
  onSkip,
}: {
  question: Extract<Question, { kind: 'variable' }>;
  scope: VariableScope;
  onSet: () => void;
  onSkip: () => void;
}) {
  const id = useId();
  const [value, setValue] = useState('');
  const set = useSetVariables(scope, onSet);
  return (
    <Ask
      lead={
        <>
          Read by {visible(shortened(workflows.join('; '), 500))}. It is stored as a secret now, before the
          import.
        </>
      }
      action="Set variable"
      isReady={value !== ''}
      isPending={set.isPending}
      onSubmit={() => set.mutate(new Map([[name, value]]))}
      onSkip={onSkip}
    >
      <Field
        id={id}
        name={
          <>
            What is the value of <code>{visible(shortened(name, 200))}</code>?
          </>
        }
      >
        <input
          id={id}
          type="password"
          autoComplete="new-password"
          spellCheck={false}
          className="input mono"
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </Field>
      {set.error !== null && <Problem error={set.error} what="The variable was not set." />}
    </Ask>
  );
}
