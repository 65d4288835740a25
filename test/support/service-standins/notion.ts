import type { CertificateAuthority } from '../certificates.ts';
import { ServiceStandIn } from './stand-in.ts';

const title = (text: string) => ({ Name: { id: 'title', type: 'title', title: [{ plain_text: text }] } });

/** Notion's REST API: who it is, data source `ds-1` with one page, made an hour ago, and comments on it. */
export function startNotion(authority: CertificateAuthority, token: string): Promise<ServiceStandIn> {
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
  const page = {
    object: 'page',
    id: 'd5ddfaf1-985e-4b22-aa62-6d32d2d56d55',
    created_time: hourAgo,
    last_edited_time: hourAgo,
    parent: { type: 'data_source_id', data_source_id: 'ds-1' },
    properties: title('Minutes'),
  };
  return ServiceStandIn.start(authority, {
    host: 'api.notion.com',
    isAuthorized: (request) => request.headers.authorization === `Bearer ${token}`,
    unauthorized: {
      status: 401,
      body: { object: 'error', status: 401, code: 'unauthorized', message: 'API token is invalid.' },
    },
    routes: {
      'GET /v1/users/me': () => ({ body: { object: 'user', id: 'u-1', type: 'bot' } }),
      'POST /v1/data_sources/ds-1/query': () => ({
        body: { object: 'list', results: [page], next_cursor: null, has_more: false },
      }),
      [`GET /v1/pages/${page.id}`]: () => ({ body: page }),
      'POST /v1/comments': (request) => ({
        body: {
          object: 'comment',
          id: '94cc56ab-9f02-409d-9f99-1037e9fe502f',
          ...(request.json() as object),
        },
      }),
    },
  });
}
