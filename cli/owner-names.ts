import { type ApiObject, isObject, pathOf } from './api.ts';
import { CliError } from './exit-codes.ts';
import type { Session } from './session.ts';

const ownerPattern = /^[uo]_[A-Za-z0-9]{12}$/;
/** Maximum of workspaces whose members are read for one answer. */
const workspacesMax = 10;

/**
 * Names in place of the ids of users and workspaces, in the fields of these items. Ids stay where the name may not be seen, and in the
 * field `id`. Nothing is read when there are none.
 */
export async function withOwnerNames<Item extends object>(
  session: Session,
  items: readonly Item[],
): Promise<Item[]> {
  const ids = new Set(items.flatMap((item) => ownerFields(item).map(([, id]) => id)));
  if (ids.size === 0) return [...items];
  const names = await namesOf(session, ids);
  return items.map((item) => ({
    ...item,
    ...Object.fromEntries(ownerFields(item).map(([field, id]) => [field, names.get(id) ?? id])),
  }));
}

function ownerFields(item: object): [string, string][] {
  return Object.entries(item).filter(
    (entry): entry is [string, string] =>
      entry[0] !== 'id' && typeof entry[1] === 'string' && ownerPattern.test(entry[1]),
  );
}

async function namesOf(session: Session, ids: ReadonlySet<string>): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const note = (id: unknown, name: unknown): void => {
    if (typeof id === 'string' && typeof name === 'string' && name !== '') names.set(id, name);
  };
  const api = await session.api();
  /** Names are for display only: an object that may not be read is shown by its id. */
  const listOf = async (path: string): Promise<ApiObject[]> => {
    try {
      const { data } = await api.call('GET', path);
      return Array.isArray(data) ? data.filter(isObject) : isObject(data) ? [data] : [];
    } catch (error) {
      if (error instanceof CliError && error.reason !== 'interrupted') return [];
      throw error;
    }
  };
  for (const me of await listOf('/v1/users/me')) note(me.id, me.username);
  const unknown = () => [...ids].filter((id) => !names.has(id));
  if (unknown().length === 0) return names;
  const workspaces = await listOf('/v1/workspaces');
  for (const { id, name } of workspaces) note(id, name);
  const asked = [...new Set([session.workspace, ...ids, ...workspaces.map(({ id }) => String(id))])]
    .filter((id) => id?.startsWith('o_') === true)
    .slice(0, workspacesMax);
  for (const id of asked) {
    if (unknown().length === 0) break;
    for (const { user_id, username } of await listOf(pathOf`/v1/workspaces/${id ?? ''}/members`))
      note(user_id, username);
  }
  return names;
}
