import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type {
  Deployment,
  Page,
  Run,
  RunDetail,
  SourceQueue,
  TestEvent,
  TestEventSummary,
  Workflow,
  WorkflowQueue,
  WorkflowSummary,
} from '#sdk';
import { api } from './client.ts';
import { type Data, ownerPath } from './queries.ts';

const pageSize = 50;
/** Each brings its steps with their code. */
const deploymentPageSize = 10;

function nextPage(size: number) {
  return ({ page_info: { count, end_cursor } }: Page<unknown>) => (count < size ? undefined : end_cursor);
}

/** Workflows of an owner with these words in their name or id, newest first, a page at a time. */
export function useWorkflows(ownerId: string, words: string, health = '') {
  return useInfiniteQuery({
    queryKey: ['workflows', ownerId, words, health],
    queryFn: ({ signal, pageParam }) =>
      api<Page<WorkflowSummary>>('GET', `${ownerPath(ownerId)}/workflows`, {
        signal,
        query: {
          limit: pageSize,
          q: words,
          health,
          after: pageParam,
          include: 'id,name,active,health,updated_at,last_run',
        },
      }),
    initialPageParam: '',
    getNextPageParam: nextPage(pageSize),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 5_000 : false),
  });
}

export function useWorkflow(id: string) {
  return useQuery({
    queryKey: ['workflow', id],
    queryFn: async ({ signal }) => (await api<Data<Workflow>>('GET', `/v1/workflows/${id}`, { signal })).data,
    refetchInterval: 10_000,
  });
}

/** Runs of a workflow, newest first, a page at a time; `state` is empty for all. */
export function useRuns(workflowId: string, state: Run['state'] | '', enabled = true) {
  return useInfiniteQuery({
    enabled,
    queryKey: ['runs', workflowId, state],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Run>>('GET', `/v1/workflows/${workflowId}/runs`, {
        signal,
        query: { limit: pageSize, state, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextPage(pageSize),
    refetchInterval: (query) => (query.state.data?.pages.length === 1 ? 2_000 : false),
  });
}

/** What waits for a workflow or source with flow control; of a source also which events did not run. */
export function useQueue(id: string) {
  const folder = id.startsWith('dc_') ? 'sources' : 'workflows';
  return useQuery({
    queryKey: ['queue', id],
    queryFn: async ({ signal }) =>
      (await api<Data<WorkflowQueue & Partial<SourceQueue>>>('GET', `/v1/${folder}/${id}/queue`, { signal }))
        .data,
    refetchInterval: 2_000,
  });
}

/** True when a run has ended. */
export function isOver({ state }: Pick<Run, 'state'>): boolean {
  return state !== 'queued' && state !== 'running' && state !== 'waiting';
}

/** Looked at again as long as it may change. */
export function useRun(id: string, enabled = true) {
  return useQuery({
    enabled,
    queryKey: ['run', id],
    queryFn: async ({ signal }) => (await api<Data<RunDetail>>('GET', `/v1/runs/${id}`, { signal })).data,
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined || !isOver(data)) return 1_000;
      return data.sends.some(({ state }) => state === 'queued') ? 3_000 : false;
    },
  });
}

/** All test events of a workflow, without what they hold: there are 100 at most. */
export function useTestEvents(workflowId: string) {
  return useQuery({
    queryKey: ['test-events', workflowId],
    queryFn: async ({ signal }) =>
      (
        await api<Data<TestEventSummary[]>>('GET', `/v1/workflows/${workflowId}/test_events?limit=100`, {
          signal,
        })
      ).data,
    staleTime: 10_000,
  });
}

/** One test event with the event itself, which may have megabytes. */
export function useTestEvent(workflowId: string, name: string, enabled: boolean) {
  return useQuery({
    enabled,
    queryKey: ['test-events', workflowId, name],
    queryFn: async ({ signal }) => {
      const path = `/v1/workflows/${workflowId}/test_events/${encodeURIComponent(name)}`;
      return (await api<Data<TestEvent>>('GET', path, { signal })).data;
    },
    staleTime: 10_000,
  });
}

/** Versions of a workflow, newest first, a page at a time. */
export function useDeployments(workflowId: string) {
  return useInfiniteQuery({
    queryKey: ['deployments', workflowId],
    queryFn: ({ signal, pageParam }) =>
      api<Page<Deployment>>('GET', `/v1/workflows/${workflowId}/deployments`, {
        signal,
        query: { limit: deploymentPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextPage(deploymentPageSize),
  });
}

/** A version never changes. */
export function useDeployment(id: string | undefined) {
  return useQuery({
    queryKey: ['deployment', id],
    queryFn: async ({ signal }) =>
      (await api<Data<Deployment>>('GET', `/v1/deployments/${id}`, { signal })).data,
    enabled: id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
}
