import type { CertificateAuthority } from '../certificates.ts';
import { queryOf, ServiceStandIn } from './stand-in.ts';

/**
 * GitLab's REST API v4: who it is, two pages of projects, hooks, branches and commits of project 42. `after` lists the projects
 * whose id is greater than one.
 */
export function startGitlab(
  authority: CertificateAuthority,
  token: string,
  after: (id: number) => unknown[] = () => [],
): Promise<ServiceStandIn> {
  return ServiceStandIn.start(authority, {
    host: 'gitlab.example',
    isAuthorized: (request) => request.headers.authorization === `Bearer ${token}`,
    unauthorized: { status: 401, body: { message: '401 Unauthorized' } },
    routes: {
      'GET /api/v4/user': () => ({ body: { id: 1, username: 'ada' } }),
      'GET /api/v4/projects': (request) => {
        const query = queryOf(request);
        if (query.has('id_after')) return { body: after(Number(query.get('id_after'))) };
        const pages: Record<string, unknown[]> = {
          '1': [{ id: 42, path_with_namespace: 'ada/engine' }],
          '2': [{ id: 43, path_with_namespace: 'ada/notes' }],
        };
        return { body: pages[query.get('page') ?? '1'] ?? [] };
      },
      'GET /api/v4/projects/42/repository/branches': () => ({ body: [{ name: 'main' }, { name: 'next' }] }),
      'POST /api/v4/projects/42/hooks': () => ({ status: 201, body: { id: 77 } }),
      'DELETE /api/v4/projects/42/hooks/77': () => ({ status: 204 }),
      'GET /api/v4/projects/42/repository/commits': () => ({
        body: [
          { id: 'ed899a2f4b50b4370feeea94676502b42383c746', short_id: 'ed899a2f4b5', title: 'Replace x' },
        ],
      }),
    },
  });
}
