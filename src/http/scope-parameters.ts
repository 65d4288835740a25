import type { FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { App } from './route-support.ts';

/** Say whose something is, in query or body. */
const scopeParameters = ['org_id', 'workspace_id', 'project_id'] as const;

/**
 * Refuses requests that do not say clearly whose something is, for every operation. An empty id, as a variable of a script without a
 * value leaves it, would mean another owner than was meant: that of the rest of the request, or the caller.
 */
export function checkScopeParameters(api: App): void {
  api.addHook('preValidation', async (request) => {
    for (const parameter of scopeParameters) checkScope(request, parameter);
  });
}

function checkScope({ query, body }: Pick<FastifyRequest, 'query' | 'body'>, parameter: string): void {
  const values = [query, body].map((part) =>
    typeof part === 'object' && part !== null && Object.hasOwn(part, parameter)
      ? (part as Record<string, unknown>)[parameter]
      : undefined,
  );
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
