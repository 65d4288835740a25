import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type {
  AccountAuditEntry,
  ApiKey,
  AuditRecord,
  ExportAuditQuery,
  Instance,
  Page,
  Processes,
  Project,
  Quota,
  Session,
  Usage,
  UserSummary,
  Variable,
  VariableAuditEntry,
  WorkflowSummary,
} from '#sdk';
import { api } from './client.ts';
import { type Data, ownerPath } from './queries.ts';

const listPageSize = 100;
/** Records that are shown at once. */
const auditPageSize = 50;

const nextOf = ({ page_info: { count, end_cursor } }: Page<unknown>) =>
  count < listPageSize ? undefined : end_cursor;

/** The user who is signed in, their key, and whether they are the admin of the instance. */
export function useSession() {
  return useQuery({
    queryKey: ['session'],
    queryFn: async ({ signal }) => (await api<Data<Session>>('GET', '/v1/session', { signal })).data,
    staleTime: 60_000,
  });
}

/** Members of a workspace. Users have none. */
export function useProjects(ownerId: string) {
  return useQuery({
    queryKey: ['projects', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Project[]>>('GET', `/v1/workspaces/${ownerId}/projects`, { signal })).data,
    enabled: ownerId.startsWith('o_'),
    staleTime: 10_000,
  });
}

/** Its workflows: the newest hundred, and how many there are. */
export function useWorkflowsOfProject(projectId: string, enabled: boolean) {
  return useQuery({
    queryKey: ['workflows of project', projectId],
    queryFn: ({ signal }) =>
      api<Page<WorkflowSummary>>('GET', `/v1/projects/${projectId}/workflows`, {
        signal,
        query: { limit: listPageSize },
      }),
    enabled,
  });
}

/** The owner or project that the variables belong to. */
export interface VariableScope {
  ownerId: string;
  /** '': for all workflows of the owner. */
  projectId: string;
}

export function variableQuery({ ownerId, projectId }: VariableScope) {
  return { org_id: ownerId.startsWith('o_') ? ownerId : '', project_id: projectId };
}

/** All variables of a scope in the order of their names, at most a thousand. */
export function useVariables(scope: VariableScope, enabled = true) {
  return useQuery({
    queryKey: ['variables', scope.ownerId, scope.projectId],
    queryFn: async ({ signal }) => {
      const all: Variable[] = [];
      for (let after: string | undefined = ''; after !== undefined; ) {
        const page: Page<Variable> = await api('GET', '/v1/variables', {
          signal,
          query: { ...variableQuery(scope), limit: listPageSize, after },
        });
        all.push(...page.data);
        after = nextOf(page);
      }
      return all;
    },
    enabled,
    refetchInterval: 30_000,
  });
}

/** The newest hundred changes: of the owner with all projects, or of one project. */
export function useVariableAudit(scope: VariableScope, enabled: boolean) {
  return useQuery({
    queryKey: ['variable audit', scope.ownerId, scope.projectId],
    queryFn: ({ signal }) =>
      api<Page<VariableAuditEntry>>('GET', '/v1/variable_audit', {
        signal,
        query: { ...variableQuery(scope), limit: listPageSize },
      }),
    enabled,
  });
}

/** One's own, newest first: there are never more than a page holds. */
export function useApiKeys() {
  return useQuery({
    queryKey: ['api keys'],
    queryFn: async ({ signal }) =>
      (await api<Page<ApiKey>>('GET', '/v1/users/me/api_keys', { signal, query: { limit: listPageSize } }))
        .data,
    refetchInterval: 15_000,
  });
}

/** The usage of the last 30 UTC days, oldest first. */
export function useUsage(ownerId: string) {
  return useQuery({
    queryKey: ['usage', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Usage[]>>('GET', `${ownerPath(ownerId)}/usage`, { signal })).data,
    refetchInterval: 5_000,
  });
}

/** The owner of the records, and which of them are read. */
export interface AuditFilter {
  /** u_… (oneself) or o_…; null: those of the instance, for its admin. */
  ownerId: string | null;
  operation: string;
  objectId: string;
  userId: string;
  /** Epoch seconds; undefined: no limit. */
  from: number | undefined;
  /** Epoch seconds, exclusive; undefined: no limit. */
  to: number | undefined;
}

/** The filter as the parameters of `GET /v1/audit` and of its export. */
export function auditQuery({
  ownerId,
  operation,
  objectId,
  userId,
  from,
  to,
}: AuditFilter): ExportAuditQuery {
  return {
    ...(ownerId === null ? { instance: true } : ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
    ...(operation === '' ? {} : { operation }),
    ...(objectId === '' ? {} : { object_id: objectId }),
    ...(userId === '' ? {} : { user_id: userId }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

/** Records of changes, newest first, a page at a time. */
export function useChanges(filter: AuditFilter) {
  return useInfiniteQuery({
    queryKey: ['changes', filter],
    queryFn: ({ signal, pageParam }) =>
      api<Page<AuditRecord>>('GET', '/v1/audit', {
        signal,
        query: { ...auditQuery(filter), limit: auditPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: ({ page_info: { count, end_cursor } }) =>
      count < auditPageSize ? undefined : end_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 10_000 : false),
  });
}

export function useAccountUseAudit(workspaceId: string, filter: { action: string; user_id: string }) {
  return useInfiniteQuery({
    queryKey: ['audit', workspaceId, filter],
    queryFn: ({ signal, pageParam }) =>
      api<Page<AccountAuditEntry>>('GET', `/v1/workspaces/${workspaceId}/audit`, {
        signal,
        query: { ...filter, limit: listPageSize, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 10_000 : false),
  });
}

export function useInstance() {
  return useQuery({
    queryKey: ['instance'],
    queryFn: async ({ signal }) => (await api<Data<Instance>>('GET', '/v1/instance', { signal })).data,
    refetchInterval: 10_000,
  });
}

/** The processes of user code on the node that answers. */
export function useProcesses() {
  return useQuery({
    queryKey: ['processes'],
    queryFn: async ({ signal }) =>
      (await api<Data<Processes>>('GET', '/v1/instance/processes', { signal })).data,
    refetchInterval: 5_000,
  });
}

/** All users of the instance, newest first, a page at a time. */
export function useUsers(words: string) {
  return useInfiniteQuery({
    queryKey: ['users', words],
    queryFn: ({ signal, pageParam }) =>
      api<Page<UserSummary>>('GET', '/v1/users', {
        signal,
        query: { limit: listPageSize, q: words, after: pageParam },
      }),
    initialPageParam: '',
    getNextPageParam: nextOf,
    placeholderData: keepPreviousData,
  });
}

export function useQuota(ownerId: string) {
  return useQuery({
    queryKey: ['quota', ownerId],
    queryFn: async ({ signal }) =>
      (await api<Data<Quota>>('GET', `/v1/quotas/${encodeURIComponent(ownerId)}`, { signal })).data,
    enabled: ownerId !== '',
  });
}
