/**
 * The value at a path such as `authed_user.access_token` in JSON; items of arrays by their index. Undefined when there is
 * none. Only own properties: a property of a prototype is no answer of a provider.
 */
export function valueAt(json: unknown, path: string): unknown {
  let value = json;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** The object that `valueAt` finds the last name of the path in. */
export function parentAt(json: unknown, path: string): unknown {
  const at = path.lastIndexOf('.');
  return at === -1 ? json : valueAt(json, path.slice(0, at));
}

const uidCharactersMax = 500;

/** The id of an account's user at its provider: the text or number at the path. */
export function uidAt(json: unknown, path: string): string | undefined {
  const value = valueAt(json, path);
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value.slice(0, uidCharactersMax) : undefined;
}
