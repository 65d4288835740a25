import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { Component, Page, StepDefinition, Template } from '#sdk';
import { api } from './client.ts';
import type { Data } from './queries.ts';

export type GivenProps = Readonly<Record<string, unknown>>;

/** Each comes with its steps and their code. */
const listPageSize = 50;

/** The templates of the user and of all their workspaces, newest first. */
export function useTemplates() {
  return useInfiniteQuery({
    queryKey: ['templates'],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Template>>('GET', '/v1/templates', {
        signal,
        query: { limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < listPageSize ? undefined : end_cursor,
  });
}

/** It never changes: another content is another template. */
export function useTemplate(id: string) {
  return useQuery({
    queryKey: ['template', id],
    queryFn: async ({ signal }) => (await api<Data<Template>>('GET', `/v1/templates/${id}`, { signal })).data,
    staleTime: 60_000,
  });
}

/**
 * The component of a step, or of a trigger that is a source, with its props. Code and addresses are saved as a component
 * for that, as they are when the workflow is made; the same code again is the same component.
 */
export function useTemplateComponent({ code, component = '' }: Pick<StepDefinition, 'code' | 'component'>) {
  return useQuery({
    queryKey: ['template component', code ?? '', component],
    queryFn: async ({ signal }) => {
      const isAddress = /^https?:/.test(component);
      const { data } =
        code !== undefined || isAddress
          ? await api<Data<Component>>('POST', '/v1/components', {
              signal,
              body: code === undefined ? { component_url: component } : { component_code: code },
            })
          : await api<Data<Component>>(
              'GET',
              component.startsWith('sc_')
                ? `/v1/components/${component}`
                : `/v1/components/registry/${encodeURIComponent(component)}`,
              { signal },
            );
      return { ...data, reference: code !== undefined || isAddress ? data.id : component };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
}
