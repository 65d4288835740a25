import type { CertificateAuthority } from '../certificates.ts';
import type { ReceivedRequest } from '../http-receiver.ts';
import { ServiceStandIn } from './stand-in.ts';

/** Linear's GraphQL API for an administrator of one team: webhooks and issues. Keys stand alone in `Authorization`. */
export function startLinear(authority: CertificateAuthority, key: string): Promise<ServiceStandIn> {
  const issue = (id: string) => ({
    id,
    identifier: 'ENG-7',
    title: 'It works',
    createdAt: '2026-11-20T10:00:00.000Z',
  });
  const answer = (request: ReceivedRequest) => {
    const { query, variables } = request.json() as { query: string; variables?: Record<string, unknown> };
    if (query.includes('viewer')) return { viewer: { id: 'u-1' } };
    if (/user\(id: "me"\)/.test(query)) return { user: { admin: true } };
    if (query.includes('webhookCreate')) {
      const webhook = { __typename: 'Webhook', id: 'wh-1', enabled: true, resourceTypes: ['Issue'] };
      return { webhookCreate: { __typename: 'WebhookPayload', lastSyncId: 1, success: true, webhook } };
    }
    if (query.includes('webhookDelete'))
      return {
        webhookDelete: { __typename: 'DeletePayload', lastSyncId: 3, success: true, entityId: 'wh-1' },
      };
    if (query.includes('issueCreate')) {
      const created = { __typename: 'IssuePayload', lastSyncId: 2, success: true, issue: { id: 'issue-9' } };
      return { issueCreate: created };
    }
    if (query.includes('GetIssue')) return { issue: issue(String(variables?.issueId)) };
    if (query.includes('ListIssues'))
      return { issues: { nodes: [issue('issue-1')], pageInfo: { hasNextPage: false, endCursor: null } } };
    throw new Error(`no answer to ${query}`);
  };
  return ServiceStandIn.start(authority, {
    host: 'api.linear.app',
    isAuthorized: (request) => request.headers.authorization === key,
    unauthorized: {
      status: 401,
      body: {
        errors: [
          {
            message: 'Authentication required, not authenticated',
            extensions: { type: 'authentication error', code: 'AUTHENTICATION_ERROR', statusCode: 401 },
          },
        ],
      },
    },
    routes: { 'POST /graphql': (request) => ({ body: { data: answer(request) } }) },
  });
}
