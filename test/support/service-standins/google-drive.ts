import type { CertificateAuthority } from '../certificates.ts';
import { bearerOf, queryOf, ServiceStandIn } from './stand-in.ts';

/** Google Drive's API v3: who it is, two shared drives on a page each, one file of an hour ago with its text, watches, and new folders. `isValid` knows the access tokens. */
export function startGoogleDrive(
  authority: CertificateAuthority,
  isValid: (accessToken: string) => boolean,
): Promise<ServiceStandIn> {
  const file = {
    kind: 'drive#file',
    id: '1LmXTIQ0wqKP7T3-l9r127Maw4Pt2BViTOo',
    name: 'Minutes.txt',
    mimeType: 'text/plain',
    createdTime: new Date(Date.now() - 3_600_000).toISOString(),
  };
  return ServiceStandIn.start(authority, {
    host: 'www.googleapis.com',
    isAuthorized: (request) => isValid(bearerOf(request)),
    unauthorized: {
      status: 401,
      body: { error: { code: 401, message: 'Invalid Credentials', status: 'UNAUTHENTICATED' } },
    },
    routes: {
      'GET /drive/v3/about': () => ({
        body: { user: { kind: 'drive#user', displayName: 'Ada', emailAddress: 'ada@example.com' } },
      }),
      'GET /drive/v3/changes/startPageToken': () => ({ body: { startPageToken: '17' } }),
      'GET /drive/v3/changes': () => ({ body: { changes: [], newStartPageToken: '17' } }),
      'GET /drive/v3/drives': (request) => ({
        body:
          queryOf(request).get('pageToken') === 'page-2'
            ? { drives: [{ id: 'drive-2', name: 'Archive' }] }
            : { drives: [{ id: 'drive-1', name: 'Team' }], nextPageToken: 'page-2' },
      }),
      'POST /drive/v3/changes/watch': () => ({
        body: { kind: 'api#channel', resourceId: 'resource-1', expiration: String(Date.now() + 86_400_000) },
      }),
      'POST /drive/v3/channels/stop': () => ({ status: 204 }),
      [`GET /drive/v3/files/${file.id}`]: (request) =>
        queryOf(request).get('alt') === 'media'
          ? { headers: { 'content-type': 'text/plain' }, body: 'What was said' }
          : { body: file },
      'GET /drive/v3/files': () => ({ body: { kind: 'drive#fileList', files: [file] } }),
      'POST /drive/v3/files': (request) => ({
        body: { kind: 'drive#file', id: 'folder-1', ...(request.json() as object) },
      }),
    },
  });
}
