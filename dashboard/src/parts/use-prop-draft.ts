import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type ConfigurableProp, MillraceError, type ReloadComponentPropsAnswer } from '#sdk';
import { api } from '~/api/client.ts';
import type { PropValues } from './prop-field.ts';
import { useSettled } from './use-settled.ts';

/**
 * The values of a form so far, and the props that the component has with them: those that reload are passed to its
 * `additionalProps`, whose answer may add, change and remove others.
 */
export function usePropDraft(
  component: { id: string; definitions: readonly ConfigurableProp[] },
  ownerId: string,
  first: PropValues,
) {
  const [values, setValues] = useState(first);
  const { id, definitions } = component;
  const asked = useSettled(values);
  const deciding = Object.fromEntries(
    definitions.filter(({ reloadProps }) => reloadProps === true).map(({ name }) => [name, asked[name]]),
  );
  const isDecided = Object.values(deciding).some((value) => value !== undefined);
  const reloaded = useQuery({
    queryKey: ['props', id, ownerId, deciding],
    queryFn: ({ signal }) =>
      api<ReloadComponentPropsAnswer>('POST', '/v1/components/props', {
        signal,
        body: { id, configured_props: asked, ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}) },
      }),
    enabled: isDecided,
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });
  const all = (isDecided && reloaded.data?.dynamicProps?.configurableProps) || definitions;
  const names = new Set(all.map(({ name }) => name));
  return {
    definitions: all,
    values,
    /** Those of props that are there, as the API takes them. */
    given: Object.fromEntries(
      Object.entries(values).filter(([name, value]) => value !== undefined && names.has(name)),
    ),
    isReloading:
      reloaded.isFetching ||
      definitions.some((one) => one.reloadProps === true && asked[one.name] !== values[one.name]),
    reloadProblem: reloaded.data?.errors[0] ?? reloaded.error?.message,
    change: (name: string, value: unknown) => setValues((before) => ({ ...before, [name]: value })),
  };
}

/** The errors of single props in an answer, by name. */
export function propProblems(error: unknown): Map<string, string> {
  if (!(error instanceof MillraceError)) return new Map();
  const name = /^configured_props\.([^.[]+)/.exec(String(error.details.parameter ?? ''))?.[1];
  return name === undefined ? new Map() : new Map([[name, error.message]]);
}
