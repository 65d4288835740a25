import { useMemo } from 'react';
import { useVariables } from '~/api/workspace-queries.ts';
import type { KnownStep } from '~/editing/code-context.ts';
import { pathsOf } from '~/editing/known-values.ts';

/** Paths offered in expressions. */
const pathsMax = 150;
/** Variables of the owner, which are offered after these. */
const variablesMax = 100;

/** What can be used in an expression of a step: what the steps before it exported, and variables. */
export function useExpressionPaths(known: readonly KnownStep[], ownerId: string): readonly string[] {
  const variables = useVariables({ ownerId, projectId: '' }).data;
  return useMemo(
    () => [
      ...pathsOf(known, pathsMax),
      ...(variables ?? []).slice(0, variablesMax).map(({ name: variable }) => `process.env.${variable}`),
    ],
    [known, variables],
  );
}
