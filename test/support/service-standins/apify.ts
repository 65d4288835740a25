import type { CertificateAuthority } from '../certificates.ts';
import { queryOf, ServiceStandIn } from './stand-in.ts';

/** Apify's API v2: who it is, one actor on a first page, webhooks, and the key-value store `kvs-1` with the record `OUTPUT`. */
export function startApify(authority: CertificateAuthority, token: string): Promise<ServiceStandIn> {
  const output = () => ({ body: { crawled: 12 } });
  return ServiceStandIn.start(authority, {
    host: 'api.apify.com',
    isAuthorized: (request) => request.headers.authorization === `Bearer ${token}`,
    unauthorized: {
      status: 401,
      body: {
        error: {
          type: 'user-or-token-not-found',
          message: 'User was not found or authentication token is not valid',
        },
      },
    },
    routes: {
      'GET /v2/users/me': () => ({ body: { data: { id: 'u-1', username: 'ada' } } }),
      'GET /v2/actors': (request) => {
        const offset = Number(queryOf(request).get('offset') ?? 0);
        const items =
          offset === 0 ? [{ id: 'actor-1', name: 'crawler', username: 'ada', title: 'Crawler' }] : [];
        return { body: { data: { items, total: 1, offset, limit: 1000, count: items.length } } };
      },
      'POST /v2/webhooks': (request) => ({
        status: 201,
        body: { data: { id: 'YiKoxjkaS9gjGTqhF', ...(request.json() as object) } },
      }),
      'DELETE /v2/webhooks/YiKoxjkaS9gjGTqhF': () => ({ status: 204 }),
      'HEAD /v2/key-value-stores/kvs-1/records/OUTPUT': output,
      'GET /v2/key-value-stores/kvs-1/records/OUTPUT': output,
    },
  });
}
