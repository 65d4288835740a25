import type { CertificateAuthority } from '../certificates.ts';
import type { ReceivedRequest } from '../http-receiver.ts';
import { ServiceStandIn } from './stand-in.ts';

/** The version of the Admin API that version 1.0.1 of the package asks for. */
export const shopifyGraphql = 'POST /admin/api/2026-07/graphql.json';

export interface GraphqlCall {
  query: string;
  variables: Record<string, unknown>;
}

/** Shopify's GraphQL Admin API of the shop `millrace-test`: webhook subscriptions and pages; and the scopes of a token. */
export function startShopify(authority: CertificateAuthority, token: string): Promise<ServiceStandIn> {
  const answer = (request: ReceivedRequest) => {
    const { query } = request.json() as GraphqlCall;
    if (query.includes('webhookSubscriptionCreate')) {
      const webhookSubscription = { id: 'gid://shopify/WebhookSubscription/8759' };
      return { webhookSubscriptionCreate: { webhookSubscription, userErrors: [] } };
    }
    if (query.includes('webhookSubscriptionDelete'))
      return { webhookSubscriptionDelete: { userErrors: [], deletedWebhookSubscriptionId: 'gid://8759' } };
    if (query.includes('pageCreate'))
      return { pageCreate: { page: { id: 'gid://shopify/Page/904' }, userErrors: [] } };
    throw new Error(`no answer to ${query}`);
  };
  return ServiceStandIn.start(authority, {
    host: 'millrace-test.myshopify.com',
    isAuthorized: (request) => request.headers['x-shopify-access-token'] === token,
    unauthorized: {
      status: 401,
      body: { errors: '[API] Invalid API key or access token (unrecognized login or wrong password)' },
    },
    routes: {
      'GET /admin/oauth/access_scopes.json': () => ({
        body: { access_scopes: [{ handle: 'write_content' }, { handle: 'read_products' }] },
      }),
      [shopifyGraphql]: (request) => ({
        body: {
          data: answer(request),
          extensions: {
            cost: {
              requestedQueryCost: 10,
              actualQueryCost: 10,
              throttleStatus: { maximumAvailable: 2000, currentlyAvailable: 1990, restoreRate: 100 },
            },
          },
        },
      }),
    },
  });
}
