import { useQuery } from '@tanstack/react-query';
import type { Import, ImportSummary, Page, WorkflowSummary } from '#sdk';
import { api } from './client.ts';
import { type Data, ownerPath } from './queries.ts';

/** The service keeps no more of an owner. */
const importsMax = 100;
const workflowPageSize = 100;
/** Bounds the look-up of an owner with very many workflows; of those beyond it the report does not say whether they are active. */
const workflowPagesMax = 20;

export function isUnderWay({ state }: Pick<Import, 'state'>): boolean {
  return state === 'waiting' || state === 'running';
}

/** Imports of an owner, newest first. */
export function useImports(ownerId: string) {
  return useQuery({
    queryKey: ['imports', ownerId],
    queryFn: async ({ signal }) =>
      (
        await api<Page<ImportSummary>>('GET', '/v1/imports', {
          signal,
          query: { limit: importsMax, org_id: ownerId.startsWith('o_') ? ownerId : undefined },
        })
      ).data,
    refetchInterval: ({ state: { data } }) => (data?.some(isUnderWay) === true ? 2_000 : 30_000),
  });
}

/** Read again as long as it is under way. */
export function useImport(id: string) {
  return useQuery({
    queryKey: ['import', id],
    queryFn: async ({ signal }) => (await api<Data<Import>>('GET', `/v1/imports/${id}`, { signal })).data,
    refetchInterval: ({ state: { data } }) => (data === undefined || isUnderWay(data) ? 1_000 : 30_000),
  });
}

/**
 * The map has true for each of these workflows that is active now: a report says what was so when the import ended. Workflows that were
 * deleted since are not in the map; undefined: the look-up ended before it found the workflow.
 */
export function useActivity(ownerId: string, ids: readonly string[], enabled: boolean) {
  return useQuery({
    queryKey: ['workflow activity', ownerId, ids],
    queryFn: async ({ signal }) => {
      const active = new Map<string, boolean | undefined>();
      const wanted = new Set(ids);
      let after: string | undefined = '';
      for (let page = 0; page < workflowPagesMax && wanted.size > 0 && after !== undefined; page += 1) {
        const { data, page_info }: Page<WorkflowSummary> = await api(
          'GET',
          `${ownerPath(ownerId)}/workflows`,
          {
            signal,
            query: { limit: workflowPageSize, after, include: 'id,active' },
          },
        );
        for (const one of data) if (wanted.delete(one.id)) active.set(one.id, one.active);
        after = page_info.count < workflowPageSize ? undefined : page_info.end_cursor;
      }
      if (after !== undefined) for (const id of wanted) active.set(id, undefined);
      return active;
    },
    enabled,
    refetchInterval: 15_000,
  });
}
