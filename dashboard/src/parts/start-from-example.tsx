import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import type { Workflow } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { exampleList } from '~/editing/example-list.ts';
import { Problem } from './problem.tsx';

interface Definition {
  settings: object;
  triggers: unknown[];
  steps: unknown[];
}

/** The files of the examples; each is read when it is chosen. */
const definitions = import.meta.glob<Definition>('../../../examples/*.json', { import: 'default' });

/** Makes a workflow of an example, which is not active before its user has looked at it. */
export function StartFromExample({ ownerId }: { ownerId: string }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: async (file: string) => {
      const read = definitions[`../../../examples/${file}.json`];
      if (read === undefined) throw new Error(`there is no example ${file}`);
      const { settings, ...definition } = await read();
      return (
        await api<Data<Workflow>>('POST', '/v1/workflows', {
          body: {
            ...definition,
            settings: { ...settings, auto_deploy: false },
            ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
          },
        })
      ).data;
    },
    onSuccess: (workflow) => {
      queries.setQueryData(['workflow', workflow.id], workflow);
      void queries.invalidateQueries({ queryKey: ['workflows'] });
      navigate(`/workflows/${workflow.id}`);
    },
  });
  return (
    <section aria-label="Examples">
      <h2>Start from an example</h2>
      <p className="muted">
        It is created inactive and needs no code. Look at its steps, set the variables that it reads, then
        activate it.
      </p>
      {create.error !== null && <Problem error={create.error} what="The example was not created." />}
      <ul className="choices begin">
        {exampleList.map(({ file, name, text, variables }) => (
          <li key={file}>
            <button
              type="button"
              className="choice-row as-button"
              disabled={create.isPending}
              onClick={() => create.mutate(file)}
            >
              <strong>{name}</strong>
              <span className="choice-text">
                {text}
                {variables.length > 0 && ` Reads ${variables.join(' and ')}.`}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
