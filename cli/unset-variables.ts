import type { Variable, Workflow } from '#sdk';
import type { Session } from './session.ts';
import { variablesMax } from './variable-commands.ts';

/** What a step reads without saying what holds when it is not set. */
const read = /process\.env\.([A-Za-z_]\w*)(?!\w|\s*(?:\?\?|\|\|))/g;

/** The variables that the code and the props of a workflow read and that are not set for it, by name. */
export async function unsetVariables(
  session: Session,
  workflow: Pick<Workflow, 'steps'>,
  projectId: string | undefined,
): Promise<string[]> {
  const names = variablesRead(workflow);
  if (names.size === 0) return [];
  const api = await session.api();
  const scopes = [
    session.owner,
    ...(projectId === undefined ? [] : [{ ...session.owner, project_id: projectId }]),
  ];
  for (const scope of scopes)
    for (const { name } of await api.list<Variable>('/v1/variables', variablesMax, scope)) names.delete(name);
  return [...names].toSorted();
}

/** The variables that the code and the props of a workflow read without another value for them. */
export function variablesRead({ steps }: Pick<Workflow, 'steps'>): Set<string> {
  return new Set(
    steps.flatMap(({ params_json: given, configured_props_json: props, code_raw: code }) =>
      [...[given, props, code].join(' ').matchAll(read)].map(([, name = '']) => name),
    ),
  );
}
