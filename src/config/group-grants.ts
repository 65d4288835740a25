/** What membership in one group of the provider gives a user. */
export type GroupGrant =
  | { group: string; kind: 'instance-admin' }
  /** `workspace` is an orgname or an id (o_…). */
  | { group: string; kind: 'workspace'; workspace: string; role: (typeof grantedRoles)[number] };

const grantedRoles = ['admin', 'member', 'viewer'] as const;
const expected =
  'expected <group>=<workspace>:<role> with admin, member or viewer as role, or <group>=instance-admin';

/**
 * Reads one entry of MILLRACE_OIDC_GROUPS. The last `=` separates, because names of groups may have some. Throws an Error that says what
 * was found and what is expected.
 */
export function readGroupGrant(entry: string): GroupGrant {
  const wrong = () => new Error(`${expected}, found ${JSON.stringify(entry)}`);
  const at = entry.lastIndexOf('=');
  if (at < 1) throw wrong();
  let group: string;
  try {
    group = decodeURIComponent(entry.slice(0, at).trim());
  } catch {
    throw wrong();
  }
  const given = entry.slice(at + 1).trim();
  if (group === '') throw wrong();
  if (given === 'instance-admin') return { group, kind: 'instance-admin' };
  const [workspace = '', roleText, ...more] = given.split(':');
  const role = grantedRoles.find((it) => it === roleText);
  if (workspace === '' || role === undefined || more.length > 0) throw wrong();
  return { group, kind: 'workspace', workspace, role };
}
