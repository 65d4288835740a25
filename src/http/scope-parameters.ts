import type { FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { App } from './route-support.ts';

/** Say whose something is, in query or body. */
const scopeParameters = ['org_id', 'workspace_id', 'project_id'] as const;

type ScopeParameter = (typeof scopeParameters)[number];

/** Paths that name the workspace by themselves. */
const workspacePath = /^(?:\/v1)?\/(?:workspaces|orgs)\/:id(?:\/|$)/;

/**
 * Refuses requests that do not say clearly whose something is, for every operation. An empty id, as a variable of a script without a
 * value leaves it, would mean another owner than was meant: that of the rest of the request, or the caller. So would another workspace
 * than that of the path.
 */
export function checkScopeParameters(api: App): void {
  api.addHook('preValidation', async (request) => {
    const namesWorkspace = workspacePath.test(request.routeOptions.url ?? '');
    for (const parameter of scopeParameters) {
      checkScope(request, parameter);
      if (namesWorkspace) checkAgainstPath(request, parameter);
    }
  });
}

function checkAgainstPath(request: FastifyRequest, parameter: ScopeParameter): void {
  const found = scopeValues(request, parameter).find((value) => value !== undefined);
  const { id } = request.params as { id: string };
  if (found === undefined || found === id) return;
  if (parameter === 'project_id')
    throw new CallerError(
      'unknown_parameter',
      `project_id: found ${JSON.stringify(found)}, which this operation of workspace ${JSON.stringify(id)} does not take; ` +
        'GET /v1/projects/{id}/workflows lists the workflows of a project',
      { parameter },
    );
  throw new CallerError(
    'invalid_parameter',
    `${parameter}: found ${JSON.stringify(found)}, expected ${JSON.stringify(id)}, the workspace of the path`,
    { parameter },
  );
}

/** What the query and the body say. */
function scopeValues({ query, body }: Pick<FastifyRequest, 'query' | 'body'>, parameter: string): unknown[] {
  return [query, body].map((part) =>
    typeof part === 'object' && part !== null && Object.hasOwn(part, parameter)
      ? (part as Record<string, unknown>)[parameter]
      : undefined,
  );
}

function checkScope(request: FastifyRequest, parameter: ScopeParameter): void {
  const { query } = request;
  const list = Object.keys(query as object).find((name) => name.startsWith(`${parameter}[`));
  if (list !== undefined)
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: found ${JSON.stringify(list)}, expected one id, as in ${parameter}=…`,
      { parameter },
    );
  const values = scopeValues(request, parameter);
  const [inQuery, inBody] = values;
  if (values.includes(''))
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: found nothing, expected an id; leave it out if none is meant`,
      { parameter },
    );
  if (inQuery !== undefined && inBody !== undefined && inQuery !== inBody)
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: found ${JSON.stringify(inQuery)} in the query and ${JSON.stringify(inBody)} in the body, expected the same`,
      { parameter },
    );
}
