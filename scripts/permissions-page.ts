import { routeScope } from '#http/route-scope.ts';
import { type Right, type Row, reference, routes } from '#http/routes.ts';

const rightWords: Readonly<Record<Right, string>> = {
  anyone: 'none: no key is asked for',
  key: 'any user',
  viewer: 'viewer',
  member: 'member',
  creator: 'the user who created the account, or admin',
  admin: 'admin',
  'instance admin': 'admin of the instance',
};

/** The page of all routes with role, scope of a key, and whether access tokens are accepted, from the table of routes. */
export function permissionsPage(notice: string): string {
  const rows = [...routes, reference].flatMap((part) => part.rows).filter(([, , operation]) => operation);
  return [
    notice,
    '# Permissions',
    '',
    'What each operation asks for. A caller needs the role in the workspace that owns the object, or owns it personally, **and** a key with the',
    'scope. A role includes the weaker ones: viewer, member, admin. A key without scopes has all of them. How keys, scopes and service accounts',
    'are made: [People, keys and programs](../guides/people.md).',
    '',
    '| scope | what it gives |',
    '| --- | --- |',
    '| `read` | see everything that the role allows, but for credentials |',
    '| `run` | run what is deployed or registered, with all that it does, replay, cancel and deliver again, without changing what is deployed |',
    '| `write` | create, change and delete |',
    '| `credentials` | read the credentials of connected accounts (`include_credentials`), beside `read` |',
    '| `admin` | keys, sessions, members, service accounts, OAuth clients, apps, the audit, and what is for admins of the instance |',
    '',
    'Code that comes with a request to `runAction`, `testStep`, `configureComponent` or `reloadComponentProps` (its text, a URL, or a step that is not',
    'deployed) needs `write` beside `run`, as exports in `steps` of a request to `testStep` or `restartRun` do, and an account that a request to one of the first four names in its props needs `credentials`.',
    '',
    'Operations that give out access without scopes and without an end (`createUser`, `createApiClient`, `rotateApiClientSecret`, `linkIdentity`)',
    'need a key without scopes and without an end, or a session that began with such a key.',
    '',
    '| operation | | role | scope | access tokens |',
    '| --- | --- | --- | --- | --- |',
    ...rows.map(rowText),
    '',
  ].join('\n');
}

function rowText(row: Row): string {
  const [method, path, operation, right, tokens] = row;
  const scope = routeScope(row);
  const scopeText = scope === undefined ? '' : scope === 'any' ? 'any' : `\`${scope}\``;
  const isForMembers = ['key', 'viewer', 'member'].includes(right);
  const tokenText = right === 'anyone' ? '' : isForMembers && tokens === undefined ? 'yes' : 'no';
  return `| ${operation} | \`${method} ${path}\` | ${rightWords[right]} | ${scopeText} | ${tokenText} |`;
}
